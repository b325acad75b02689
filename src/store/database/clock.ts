/** The clock of the store; replaced in tests. */
export interface Clock {
  /** Wall clock, milliseconds since 1970. */
  now(): number;
  /** Calls `fn` once after `ms`, unless cancelled. Never keeps the process alive. */
  after(ms: number, fn: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, fn) {
    const timer = setTimeout(fn, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
};
