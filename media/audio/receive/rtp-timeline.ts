/** Places one direction's packets on the session's clock: by their RTP timestamps, as long as these agree with the clock. */

const ticksPerMs = 8;
const toleranceMs = 200;

export class RtpTimeline {
  private anchorTimestamp = 0;
  private anchorTick: number | null = null;
  private readonly toleranceTicks: number;

  /** Timestamps further from the clock than `ms` begin a new stream. */
  constructor(ms = toleranceMs) {
    this.toleranceTicks = ms * ticksPerMs;
  }

  /** The tick (an eighth of a millisecond) of `timestamp`; `nowTick` when the packet begins a new stream. */
  place(timestamp: number, nowTick: number): number {
    if (this.anchorTick !== null) {
      const tick = this.anchorTick + ((timestamp - this.anchorTimestamp) | 0);
      if (Math.abs(tick - nowTick) <= this.toleranceTicks) return tick;
    }
    this.anchorTimestamp = timestamp;
    this.anchorTick = nowTick;
    return nowTick;
  }
}
