import { setTimeout as sleep } from 'node:timers/promises';
import { SipError } from '../leg.js';
import type { SipLog } from '../log.js';

/** The control port at which an external drachtio-server accepts applications. */
export interface ControlPort {
  host: string;
  port: number;
  secret: string;
}

/** Limit for the first attempt: a running external server answers sooner, and the start does not wait for one that is down. */
const firstAttemptMs = 1500;
const betweenAttemptsMs = 1000;

export interface ServerToReach extends Pick<ControlPort, 'host' | 'port'> {
  log: SipLog;
  /** Of one attempt. */
  limitMs: number;
  /** Why a server is not connected, by `keyOf`. */
  problems: Map<string, string>;
  /** Called when an attempt after the first one succeeded. */
  onLate(): void;
}

export function keyOf({ host, port }: Pick<ControlPort, 'host' | 'port'>): string {
  return `${host}:${port}`;
}

/**
 * Resolves after the first attempt of `connect`; further ones follow in the background until one succeeds or `closing` aborts. Rejects when
 * the server refuses the secret, which is a wrong setting and ends the start, or when `starting` aborts.
 */
export async function reachServer(
  server: ServerToReach,
  connect: (limitMs: number) => Promise<void>,
  { starting, closing }: { starting: AbortSignal; closing: AbortSignal },
): Promise<void> {
  const { host, port, log, limitMs, problems, onLate } = server;
  const key = keyOf(server);
  const attempt = async (attemptMs: number): Promise<boolean> => {
    try {
      await connect(attemptMs);
      problems.delete(key);
      return true;
    } catch (error) {
      if (starting.aborted) throw error;
      const problem = error instanceof Error ? error.message : String(error);
      const isNews = problems.get(key) !== problem;
      problems.set(key, problem);
      if (isNews) log.error({ err: problem }, 'sip server connection failed');
      if (error instanceof SipError && error.code === 'rejected') throw error;
      return false;
    }
  };
  if (await attempt(Math.min(limitMs, firstAttemptMs))) return;
  const wait = async (): Promise<void> => {
    for (;;) {
      await sleep(betweenAttemptsMs, undefined, { signal: closing });
      if (!(await attempt(limitMs).catch(() => false))) continue;
      log.info({ host, port }, 'sip server connected');
      onLate();
      return;
    }
  };
  wait().catch(() => undefined); // closed meanwhile
}
