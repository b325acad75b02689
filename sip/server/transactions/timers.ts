/** The timer values of RFC 3261 table 4 and RFC 6026, computed from T1, T2 and T4, and the clock of the transactions. */

export interface TimerValues {
  t1: number;
  t2: number;
  t4: number;
  /** Replaces 64·T1 in timers D, J, L and M, and T4 in I and K. Only tests set it: on loopback a repeat arrives within this time. */
  lingerMs?: number;
}

export const DEFAULT_TIMERS: TimerValues = { t1: 500, t2: 4000, t4: 5000 };

export interface Timer {
  cancel(): void;
}

/** The clock of the transactions; tests advance it by hand. */
export interface TransactionClock {
  now(): number;
  after(delayMs: number, fire: () => void): Timer;
}

/** How long an unanswered message is waited for: timers B, F and H. */
export function giveUpMs(values: TimerValues): number {
  return 64 * values.t1;
}

/** Timers J (unreliable transports), L and M: how long an answered transaction absorbs retransmissions. */
export function absorbMs(values: TimerValues): number {
  return values.lingerMs ?? 64 * values.t1;
}

/** Timer D: how long retransmitted failures are still acknowledged; at least 32 s with the default T1 (17.1.1.2). */
export function timerD(values: TimerValues, reliable: boolean): number {
  return reliable ? 0 : absorbMs(values);
}

/** Timers I and K: how long retransmissions may still arrive. */
export function quietMs(values: TimerValues, reliable: boolean): number {
  return reliable ? 0 : (values.lingerMs ?? values.t4);
}

/** Calls `send` after t1, 2·t1, 4·t1 … (timers A, E, G), with intervals of at most `capMs`. */
export class Repeater {
  private timer: Timer | null = null;
  private delayMs: number;

  constructor(
    private readonly clock: TransactionClock,
    firstMs: number,
    private readonly capMs: number,
    private readonly send: () => void,
  ) {
    this.delayMs = firstMs;
    this.arm();
  }

  /** From now on every `capMs`, as timer E in the proceeding state (17.1.2.2). */
  slowDown(): void {
    this.delayMs = this.capMs;
  }

  stop(): void {
    this.timer?.cancel();
    this.timer = null;
  }

  private arm(): void {
    this.timer = this.clock.after(this.delayMs, () => {
      this.delayMs = Math.min(this.delayMs * 2, this.capMs);
      this.arm();
      this.send();
    });
  }
}

/** The real clock. Counts running timers, and reports an exception in a callback instead of ending the process. */
export class SystemClock implements TransactionClock {
  live = 0;

  constructor(private readonly failed: (error: unknown) => void) {}

  now(): number {
    return Date.now();
  }

  after(delayMs: number, fire: () => void): Timer {
    this.live++;
    let running = true;
    const handle = setTimeout(() => {
      running = false;
      this.live--;
      try {
        fire();
      } catch (error) {
        this.failed(error);
      }
    }, delayMs);
    return {
      cancel: () => {
        if (!running) return;
        running = false;
        this.live--;
        clearTimeout(handle);
      },
    };
  }
}
