/**
 * A timer that does not drift: each due time counts from the start, so a late tick does not delay the next one. After a longer stall ticks
 * are skipped, as in a phone: a burst would disturb the far side, and the report would blame it for that.
 */
import { realTimers, type Timers } from './impairments.js';

/** Ticks that are late by up to this are made up for. */
const longestCatchUpMs = 60;

export class FrameTimer {
  /** The largest lateness of a tick so far. */
  worstLateMs = 0;
  private beats = 0;
  private timer: { cancel(): void } | null = null;
  private startMs = 0;

  constructor(
    private readonly periodMs: number,
    /** `leftOut`: number of ticks skipped just before this one. */
    private readonly beat: (leftOut: number) => void,
    private readonly timers: Timers = realTimers,
  ) {}

  /** The first tick is immediate. */
  start(): void {
    if (this.timer !== null) return;
    this.startMs = this.timers.now();
    this.run();
  }

  stop(): void {
    this.timer?.cancel();
    this.timer = null;
  }

  private run(): void {
    this.timer = { cancel: () => undefined };
    for (;;) {
      const waitMs = this.startMs + this.beats * this.periodMs - this.timers.now();
      if (waitMs > 0) {
        this.timer = this.timers.after(waitMs, () => this.run());
        return;
      }
      this.worstLateMs = Math.max(this.worstLateMs, -waitMs);
      const leftOut = -waitMs > longestCatchUpMs ? Math.floor(-waitMs / this.periodMs) : 0;
      this.beats += leftOut + 1;
      this.beat(leftOut);
      if (this.timer === null) return; // stopped by the tick
    }
  }
}
