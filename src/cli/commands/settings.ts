import type { Command } from 'commander';
import { describeSettings, exampleYaml } from '../../../config/describe.js';
import { propertyName, toolVariables } from '../../../config/settings.js';
import { type CliContext, openSession } from '../context.js';
import { count, table } from '../text.js';

export function addSettings(program: Command, context: CliContext): void {
  program
    .command('settings')
    .description('list every setting with its default and current value')
    .option('--example', 'print an example trunkline.yaml')
    .addHelpText('after', '\nExamples:\n  $ trunkline settings\n  $ trunkline settings --example > trunkline.yaml')
    .action((options: { example?: boolean }, command: Command) => {
      if (options.example) return context.out(exampleYaml().trimEnd());
      const session = openSession(context, command);
      const now: Record<string, unknown> = { ...session.settings() };
      const settings = describeSettings().map((line) => {
        const value = now[propertyName(line.name)];
        return { ...line, value: line.secret && !isHarmless(value) ? '(hidden)' : value };
      });
      if (session.json) return session.value(settings);
      const rows = settings.map((line) => [
        line.env,
        show(line.value),
        line.literal !== null && line.unit ? `${line.default} ${line.unit}` : line.default,
        line.explain,
      ]);
      session.lines(table([{ title: 'VARIABLE' }, { title: 'NOW' }, { title: 'DEFAULT' }, { title: 'MEANING' }], rows));
      session.lines(['', ...toolVariables.map((variable) => `${variable.env}: ${variable.explain}`), '']);
      session.lines([`${count(settings.length, 'setting')}, all valid`]);
    });
}

/** Values of a secret setting that hold no secret. */
function isHarmless(value: unknown): boolean {
  if (value === null || value === 'embedded') return true;
  return typeof value === 'object' && 'kind' in value && value.kind === 'sqlite';
}

function show(value: unknown): string {
  if (value === null || value === undefined) return 'none';
  if (Array.isArray(value)) return value.length > 2 ? `${value.slice(0, 2).join(', ')}, ...` : value.join(', ');
  if (typeof value !== 'object') return String(value);
  if ('from' in value && 'to' in value) return `${value.from}-${value.to}`;
  if ('kind' in value && 'file' in value) return `${value.kind}:${value.file}`;
  return JSON.stringify(value);
}
