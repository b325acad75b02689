/** Where the packets of one direction lie on the session's clock: by their RTP timestamps, as long as these go with the clock. */

const samplesPerMs = 8;
/** Timestamps further from the clock than this belong to a new line. */
const toleranceSamples = 200 * samplesPerMs;

export class Track {
  private anchorTimestamp = 0;
  private anchorSample: number | null = null;

  /** The sample that `timestamp` stands for; `nowSample` when the packet starts a new line. */
  place(timestamp: number, nowSample: number): number {
    if (this.anchorSample !== null) {
      const sample = this.anchorSample + ((timestamp - this.anchorTimestamp) | 0);
      if (Math.abs(sample - nowSample) <= toleranceSamples) return sample;
    }
    this.anchorTimestamp = timestamp;
    this.anchorSample = nowSample;
    return nowSample;
  }
}
