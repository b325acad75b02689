/** `doctor`: checks whether this machine can run the server, with a fix for each problem. */
import type { Command } from 'commander';
import { duration } from '../commands/call-options.js';
import { type CliContext, openSession } from '../context.js';
import { count, plain } from '../text.js';
import { examineCarrierCertificates, examineTrunks, type SeenTrunk } from './carrier-checks.js';
import { examine } from './checks.js';
import type { Finding } from './finding.js';
import type { Machine } from './machine.js';

const signs = { ok: 'ok', warning: 'WARN', failure: 'FAIL' } as const;

/** Examines the trunks of the running server, if its API allows it. */
async function trunksOf(session: ReturnType<typeof openSession>, machine: Machine): Promise<Finding[]> {
  try {
    const { data } = await session.api().get<{ data: SeenTrunk[] }>('/trunks?limit=100');
    return [...examineTrunks(data, session.settings().sipHost), ...(await examineCarrierCertificates(machine, data))];
  } catch (error) {
    const says = `not checked: ${error instanceof Error ? error.message : String(error)}`;
    return [{ check: 'trunks', level: 'warning', says, fix: 'TRUNKLINE_API_KEY: a key of the running server' }];
  }
}

async function trial(
  session: ReturnType<typeof openSession>,
  serverRuns: boolean,
  to: string,
  { from, talk: talkMs }: { from?: string; talk: number },
): Promise<Finding[]> {
  if (!serverRuns)
    return [{ check: 'call', level: 'failure', says: 'the server is not running', fix: 'trunkline start, or --url' }];
  const { tryCall } = await import('./trial-call.js');
  return tryCall(session.api(), { to, talkMs, ...(from === undefined ? {} : { from }) });
}

export function addDoctor(program: Command, context: CliContext, fail: () => void): void {
  program
    .command('doctor')
    .description('check this machine and the settings, with the fix for each finding')
    .option('--call <number>', 'call this number over the trunks of the running server and listen for an echo')
    .option('--from <number>', 'caller id of that call (default: the first number)')
    .option('--talk <time>', 'duration of the call after the answer: 6s', duration, 6000)
    .addHelpText(
      'after',
      `
--call costs what the call costs. A number that echoes (many carriers have one) shows how long audio takes there and back.
Exit code: 0 without failures (warnings allowed), else 1.

Examples:
  $ trunkline doctor --json
  $ trunkline doctor --call +12025550123`,
    )
    .action(async (options: { call?: string; from?: string; talk: number }, command: Command) => {
      const session = openSession(context, command);
      const machine = context.machine ?? (await import('./machine.js')).thisMachine; // loads the database driver
      const serverRuns = await machine.answers(session.baseUrl());
      const findings = await examine(machine, session.settings(), serverRuns);
      if (serverRuns) findings.push(...(await trunksOf(session, machine)));
      if (options.call !== undefined) findings.push(...(await trial(session, serverRuns, options.call, options)));
      const failures = findings.filter((finding) => finding.level === 'failure').length;
      const warnings = findings.filter((finding) => finding.level === 'warning').length;
      if (failures > 0) fail();
      if (session.json) return session.value({ ok: failures === 0, failures, warnings, findings });
      const width = Math.max(...findings.map((finding) => finding.check.length));
      session.lines(
        findings.map(({ check, level, says, fix }) =>
          plain(`${signs[level].padEnd(4)}  ${check.padEnd(width)}  ${says}${fix ? `  -> ${fix}` : ''}`),
        ),
      );
      const verdict = failures > 0 ? 'not ready' : 'ready to start';
      session.lines([
        `${count(findings.length, 'check')}, ${count(failures, 'failure')}, ${count(warnings, 'warning')}: ${verdict}`,
      ]);
    });
}
