/** `doctor`: is this machine fit, and if not, what to do. */
import type { Command } from 'commander';
import { examineTrunks, type SeenTrunk } from './carrier-checks.js';
import { examine, type Finding } from './checks.js';
import { type CliContext, openSession } from './context.js';
import { count, plain } from './text.js';

const signs = { ok: 'ok', warning: 'WARN', failure: 'FAIL' } as const;

/** Of the running server, as far as it lets us look. */
async function trunksOf(session: ReturnType<typeof openSession>): Promise<Finding[]> {
  try {
    const { data } = await session.api().get<{ data: SeenTrunk[] }>('/trunks?limit=100');
    return examineTrunks(data);
  } catch (error) {
    const says = `not looked at: ${error instanceof Error ? error.message : String(error)}`;
    return [{ check: 'trunks', level: 'warning', says, fix: 'TRUNKLINE_API_KEY: a key of the running server' }];
  }
}

export function addDoctor(program: Command, context: CliContext, fail: () => void): void {
  program
    .command('doctor')
    .description('check this machine and the settings, with the fix for each finding')
    .addHelpText(
      'after',
      '\nExit code: 0 without failures (warnings allowed), else 1.\n\nExample:\n  $ trunkline doctor --json',
    )
    .action(async (_options: object, command: Command) => {
      const session = openSession(context, command);
      const machine = context.machine ?? (await import('./machine.js')).thisMachine; // loads the database driver
      const serverRuns = await machine.answers(session.baseUrl());
      const findings = await examine(machine, session.settings(), serverRuns);
      if (serverRuns) findings.push(...(await trunksOf(session)));
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
