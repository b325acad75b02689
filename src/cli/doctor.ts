/** `doctor`: is this machine fit, and if not, what to do. */
import type { Command } from 'commander';
import { examine } from './checks.js';
import { type CliContext, openSession } from './context.js';
import { count, plain } from './text.js';

const signs = { ok: 'ok', warning: 'WARN', failure: 'FAIL' } as const;

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
      const findings = await examine(machine, session.settings(), await machine.answers(session.baseUrl()));
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
