/** A beat that does not drift: every due time counts from the start, so a late beat makes the next one no later. */
import { realTimers, type Timers } from './impairments.js';

export class Metronome {
  /** The latest beat so far: how far our own sending was off. */
  worstLateMs = 0;
  private beats = 0;
  private timer: { cancel(): void } | null = null;
  private startMs = 0;

  constructor(
    private readonly periodMs: number,
    private readonly beat: (index: number) => void,
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

  /** Beats that are due all happen, at once when we were held up. */
  private run(): void {
    this.timer = { cancel: () => undefined };
    for (;;) {
      const waitMs = this.startMs + this.beats * this.periodMs - this.timers.now();
      if (waitMs > 0) {
        this.timer = this.timers.after(waitMs, () => this.run());
        return;
      }
      this.worstLateMs = Math.max(this.worstLateMs, -waitMs);
      this.beat(this.beats++);
      if (this.timer === null) return; // stopped by the beat
    }
  }
}
