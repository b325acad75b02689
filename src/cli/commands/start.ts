/** `trunkline start`: the server in this process, and what signals do to it. */
import type { Command } from 'commander';
import type { Settings } from '../../../config/settings.js';
import { type CliContext, openSession } from '../context.js';

/** What `src/main.ts` gives back. */
export interface Running {
  /** For the person who started it. */
  banner: string;
  /** Everything is closed. Rejects when the server cannot go on. */
  stopped: Promise<void>;
  /** Takes no new calls and lets live ones run on for `graceMs`; a later call with less shortens it. */
  stop(graceMs: number): Promise<void>;
}

/** After a clean stop the process ends by itself; this long after, it is ended. */
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
      const { start } = await import('../../main.js'); // the other commands need none of it
      const running = await start(settings);
      const stopped = runUntilStopped(running, settings, context); // signals count from here on, so before anybody is told
      context.out(running.banner);
      if (settings.publicUrl !== null) context.out(`  others reach the API at ${settings.publicUrl}/v1`);
      await stopped.catch((error: unknown) => {
        context.err(`trunkline: ${error instanceof Error ? error.message : String(error)}`);
        fail();
      });
      setTimeout(() => process.exit(), lingerMs).unref();
    });
}

/** Resolves when the server has stopped, for whatever reason. */
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
    const what = drain ? `lets live calls run on for up to ${settings.shutdownGraceSec} s` : 'hangs up and leaves';
    context.err(`${signal}: takes no new calls, ${what}`);
    running.stop(drain ? settings.shutdownGraceSec * 1000 : 0).catch(() => undefined); // `stopped` tells it too
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
