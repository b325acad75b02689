/**
 * A beat that does not drift: every due time counts from the start, so a late beat makes the next one no later. After a longer stall beats
 * are left out, as a phone does: catching up would be a burst, and what it does to the far side would be measured as the far side's fault.
 */
import { realTimers, type Timers } from './impairments.js';

/** Lateness up to this is caught up. */
const longestCatchUpMs = 60;

export class FrameTimer {
  /** The latest beat so far: how far our own sending was off. */
  worstLateMs = 0;
  private beats = 0;
  private timer: { cancel(): void } | null = null;
  private startMs = 0;

  constructor(
    private readonly periodMs: number,
    /** `leftOut`: beats just before this one that did not happen. */
    private readonly beat: (leftOut: number) => void,
    private readonly timers: Timers = realTimers,
  ) {}

  /** The first beat is now. */
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
      if (this.timer === null) return; // stopped by the beat
    }
  }
}
