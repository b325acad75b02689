/**
 * The monotonic clock of a thread, without the time in which it did not run: while its process or its machine stood still. After such a
 * moment nothing that waited has waited for this process, and to refuse calls for it would turn a short silence into lost calls. Time in which
 * the thread was busy counts.
 */
import { performance } from 'node:perf_hooks';

const TICK_MS = 50;
/** A tick may be so late without a question. */
const MAY_BE_LATE_MS = 100;
/**
 * After a longer standstill the requests that waited in the sockets are old. A proxy in front may have given them to another server by then, so
 * that an answer would make a second call; a proxy must wait longer than this before it does (`examples/kamailio/`).
 */
const STALE_MS = 3_500;
/** By then the sockets are read, also on a machine that other programs keep busy. Proxies have this server down as silent and send nothing new. */
const STALE_FOR_MS = 1_000;

export interface RunningTime {
  /** Milliseconds, never backwards. */
  nowMs(): number;
  /** Milliseconds in which the thread was busy since the last call. */
  takeBusyMs(): number;
}

/** Of the thread that calls this. */
export function ownTime(): RunningTime {
  let before = performance.eventLoopUtilization();
  return {
    nowMs: () => performance.now(),
    takeBusyMs: () => {
      const now = performance.eventLoopUtilization();
      const { active } = performance.eventLoopUtilization(now, before);
      before = now;
      return active;
    },
  };
}

export class RunningClock {
  private ranMs = 0;
  private tickedMs: number;
  private staleUntilMs = Number.NEGATIVE_INFINITY;
  private timer: NodeJS.Timeout | null = null;

  constructor(private readonly time: RunningTime) {
    this.tickedMs = time.nowMs();
  }

  start(): void {
    this.timer = setInterval(() => this.tick(), TICK_MS).unref();
  }

  close(): void {
    if (this.timer) clearInterval(this.timer);
  }

  /** Between two ticks it goes on for as long as a tick may be late. */
  readonly now = (): number => this.ranMs + Math.min(this.time.nowMs() - this.tickedMs, MAY_BE_LATE_MS);

  /** Whether what is read now may have waited in a socket while the process stood still for long. */
  readonly readsOld = (): boolean => {
    const nowMs = this.time.nowMs();
    return nowMs - this.tickedMs > STALE_MS || nowMs < this.staleUntilMs;
  };

  tick(): void {
    const nowMs = this.time.nowMs();
    const passedMs = nowMs - this.tickedMs;
    if (passedMs > STALE_MS) this.staleUntilMs = nowMs + STALE_FOR_MS;
    this.ranMs += Math.min(passedMs, Math.max(MAY_BE_LATE_MS, this.time.takeBusyMs()));
    this.tickedMs = nowMs;
  }
}
