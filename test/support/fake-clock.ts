import type { Clock } from '../../src/store/database/clock.js';

/** A clock that stands until told. */
export class FakeClock implements Clock {
  private timers: { atMs: number; fn: () => void }[] = [];
  /** Time since the start, which `set` does not change: timers follow this one, as the monotonic clock. */
  private elapsedMs = 0;

  constructor(private wallMs: number) {}

  get pending(): number {
    return this.timers.length;
  }

  now(): number {
    return this.wallMs;
  }

  after(ms: number, fn: () => void): () => void {
    const timer = { atMs: this.elapsedMs + ms, fn };
    this.timers.push(timer);
    return () => {
      this.timers = this.timers.filter((other) => other !== timer);
    };
  }

  /** Time passes; what is due happens, in its order. */
  advance(ms: number): void {
    const untilMs = this.elapsedMs + ms;
    for (;;) {
      const next = this.timers.filter((timer) => timer.atMs <= untilMs).sort((a, b) => a.atMs - b.atMs)[0];
      if (!next) break;
      this.timers = this.timers.filter((timer) => timer !== next);
      this.pass(next.atMs - this.elapsedMs);
      next.fn();
    }
    this.pass(untilMs - this.elapsedMs);
  }

  /** Someone sets the wall clock. */
  set(wallMs: number): void {
    this.wallMs = wallMs;
  }

  private pass(ms: number): void {
    this.elapsedMs += ms;
    this.wallMs += ms;
  }
}
