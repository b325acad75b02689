/** `trunkline start`: runs the server in this process and handles signals. */
import type { Command } from 'commander';
import type { Settings } from '../../../config/settings.js';
import { type CliContext, openSession } from '../context.js';
import { raiseSchedulingGroup } from '../scheduling-group.js';

/** The running server that `src/main.ts` returns. */
export interface Running {
  /** The text to print after the start. */
  banner: string;
  /** Resolves when everything is closed. Rejects if the server cannot continue. */
  stopped: Promise<void>;
  /** Stops accepting calls and waits up to `graceMs` for live calls; a later call with less shortens the time. */
  stop(graceMs: number): Promise<void>;
}

/** The time after a clean stop for the process to exit by itself, before it is forced to. */
const lingerMs = 3000;

export function addStart(program: Command, context: CliContext, fail: () => void): void {
  program
    .command('start')
    .description('start the server: SIP, media, API, database, all in this process')
    .addHelpText(
      'after',
      `
Signals: SIGTERM takes no new calls and lets live ones run on (TRUNKLINE_SHUTDOWN_GRACE_SEC);
SIGINT, or a second signal, hangs up and leaves; a third one leaves at once.

Examples:
  $ trunkline start
  $ TRUNKLINE_SIP_HOST=0.0.0.0 TRUNKLINE_EXTERNAL_IP=203.0.113.5 trunkline start`,
    )
    .action(async (_options: object, command: Command) => {
      const settings = openSession(context, command).settings();
      raiseSchedulingGroup();
      const { start } = await import('../../main.js'); // loaded here because other commands do not need it
      const running = await start(settings);
      const stopped = runUntilStopped(running, settings, context); // handle signals before the start is announced
      context.out(running.banner);
      if (settings.publicUrl !== null) context.out(`  public API URL: ${settings.publicUrl}/v1`);
      await stopped.catch((error: unknown) => {
        context.err(`trunkline: ${error instanceof Error ? error.message : String(error)}`);
        fail();
      });
      setTimeout(() => process.exit(), lingerMs).unref();
    });
}

/** Resolves when the server has stopped for any reason. */
export async function runUntilStopped(
  running: Omit<Running, 'banner'>,
  settings: Pick<Settings, 'shutdownGraceSec'>,
  context: Pick<CliContext, 'err'>,
  signals: Pick<NodeJS.Process, 'on' | 'off' | 'exit'> = process,
): Promise<void> {
  let received = 0;
  const onSignal = (signal: NodeJS.Signals) => {
    received += 1;
    if (received > 2) signals.exit(1);
    const drain = signal === 'SIGTERM' && received === 1;
    const what = drain ? `waiting up to ${settings.shutdownGraceSec} s for live calls` : 'hanging up all calls';
    context.err(`${signal}: accepting no new calls, ${what}`);
    running.stop(drain ? settings.shutdownGraceSec * 1000 : 0).catch(() => undefined); // `stopped` rejects as well
  };
  signals.on('SIGTERM', onSignal);
  signals.on('SIGINT', onSignal);
  try {
    await running.stopped;
  } finally {
    signals.off('SIGTERM', onSignal);
    signals.off('SIGINT', onSignal);
  }
}
