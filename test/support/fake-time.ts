/** A clock that moves when told. Timers fire in order of their time, late by `latenessMs`. */
import type { Time } from '../../media/audio/playout/playout-clock.js';

export class FakeTime implements Time {
  nowMs = 1000;
  latenessMs = 0;
  private readonly timers = new Set<{ fn: () => void; atMs: number }>();

  readonly now = (): number => this.nowMs;

  readonly setTimer = (fn: () => void, delayMs: number): unknown => {
    const timer = { fn, atMs: this.nowMs + delayMs };
    this.timers.add(timer);
    return timer;
  };

  readonly clearTimer = (timer: unknown): void => {
    this.timers.delete(timer as { fn: () => void; atMs: number });
  };

  /** What waits in the sockets is read. */
  onReading: () => void = () => {};

  readonly afterReading = (fn: () => void): void => {
    this.setTimer(() => {
      this.onReading();
      fn();
    }, 0);
  };

  get pending(): number {
    return this.timers.size;
  }

  advance(ms: number): void {
    const endMs = this.nowMs + ms;
    for (;;) {
      const next = [...this.timers].sort((a, b) => a.atMs - b.atMs)[0];
      if (!next || next.atMs + this.latenessMs > endMs) break;
      this.timers.delete(next);
      this.nowMs = Math.max(this.nowMs, next.atMs + this.latenessMs);
      next.fn();
    }
    this.nowMs = Math.max(this.nowMs, endMs);
  }

  /** The thread stands still: no timer fires meanwhile. */
  stall(ms: number): void {
    this.nowMs += ms;
  }
}
