/** Places one direction's packets on the session's clock: by their RTP timestamps, as long as these agree with the clock. */

const ticksPerMs = 8;
/** Timestamps further from the clock begin a new stream. */
const toleranceTicks = 200 * ticksPerMs;

export class RtpTimeline {
  private anchorTimestamp = 0;
  private anchorTick: number | null = null;

  /** The tick (an eighth of a millisecond) of `timestamp`; `nowTick` when the packet begins a new stream. */
  place(timestamp: number, nowTick: number): number {
    if (this.anchorTick !== null) {
      const tick = this.anchorTick + ((timestamp - this.anchorTimestamp) | 0);
      if (Math.abs(tick - nowTick) <= toleranceTicks) return tick;
    }
    this.anchorTimestamp = timestamp;
    this.anchorTick = nowTick;
    return nowTick;
  }
}
