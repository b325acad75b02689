/** The command line: all commands, and the output of failures. */
import { createRequire } from 'node:module';
import { Command, CommanderError } from 'commander';
import { SettingsError } from '../../config/load.js';
import { addCall } from './commands/call.js';
import { addCalls } from './commands/calls.js';
import { addDb } from './commands/db.js';
import { addEndpoints } from './commands/endpoints.js';
import { addKeys } from './commands/keys.js';
import { addNumbers } from './commands/numbers.js';
import { addOrgs } from './commands/orgs.js';
import { addSettings } from './commands/settings.js';
import { addSetup } from './commands/setup.js';
import { addSimulate } from './commands/simulate.js';
import { addStart } from './commands/start.js';
import { addTrunks } from './commands/trunks.js';
import type { CliContext } from './context.js';
import { addDoctor } from './doctor/doctor.js';
import { CliFailure } from './failure.js';

const { version } = createRequire(import.meta.url)('#package.json') as { version: string };

/** Runs one command; resolves with the exit code. */
export async function runCli(argv: readonly string[], context: CliContext): Promise<number> {
  let exitCode = 0;
  const program = new Command('trunkline')
    .description('Connects phone calls (SIP, RTP) to voice agents (WebSocket) and webhooks.')
    .version(version, '-V, --version', 'print the version')
    .option('--json', 'print one JSON document, also for failures: {error, code, details?}')
    .option('--config <file>', 'settings file (default: $TRUNKLINE_CONFIG or ./trunkline.yaml)')
    .option('--url <url>', 'server URL (default: the HTTP address of the settings)')
    .option('--key <key>', 'API key (default: $TRUNKLINE_API_KEY, which other users of this host cannot see)')
    .addHelpText(
      'after',
      `
Examples:
  $ trunkline start                      start with no settings at all, everything embedded
  $ trunkline doctor                     check this machine, with the fix for each finding
  $ trunkline call +15550100             place a real call to the demo number and judge it
  $ trunkline calls                      the latest calls
  $ trunkline trace CALL_ID              the SIP messages of a call

Exit code: 0 when the last line says so, 1 on any failure.`,
    );
  const isJson = () => program.opts<{ json?: boolean }>().json === true || argv.includes('--json');
  const fail = () => {
    exitCode = 1;
  };
  addStart(program, context, fail);
  addDoctor(program, context, fail);
  addCall(program, context, fail);
  addCalls(program, context);
  addEndpoints(program, context);
  addNumbers(program, context);
  addTrunks(program, context);
  addKeys(program, context);
  addOrgs(program, context);
  addSettings(program, context);
  addSetup(program, context, fail);
  addDb(program, context, fail);
  addSimulate(program, context);
  for (const command of allCommands(program)) {
    command
      .exitOverride()
      .configureHelp({ showGlobalOptions: true })
      .configureOutput({
        writeOut: (text) => context.out(text.trimEnd()),
        writeErr: (text) => {
          if (!isJson()) context.err(text.trimEnd());
        },
      });
  }
  try {
    await program.parseAsync(argv, { from: 'user' });
  } catch (error) {
    const usage = error instanceof CommanderError ? error : null;
    if (isJson() && usage?.exitCode !== 0) context.out(JSON.stringify(failureOf(error), null, 2));
    else if (usage === null) for (const line of explain(error)) context.err(line);
    return usage?.exitCode ?? 1;
  }
  return exitCode;
}

/** A failure as one document, in the form of the API's errors. */
function failureOf(error: unknown): { error: string; code: string; details?: unknown } {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof CliFailure)
    return { error: message, code: error.code, ...(error.details !== undefined && { details: error.details }) };
  if (error instanceof CommanderError) return { error: message.replace(/^error: /, ''), code: 'USAGE' };
  if (error instanceof SettingsError) return { error: error.lines.join('\n'), code: 'SETTINGS_INVALID' };
  return { error: message, code: 'INTERNAL_ERROR' };
}

/** Describes the failure in one line; internal errors include the stack. */
function explain(error: unknown): readonly string[] {
  if (error instanceof CliFailure || error instanceof SettingsError) return error.lines;
  return [`trunkline: ${error instanceof Error ? error.message : String(error)}`];
}

function allCommands(command: Command): Command[] {
  return [command, ...command.commands.flatMap(allCommands)];
}
