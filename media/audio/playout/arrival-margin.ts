/** How long an utterance waits after its first frame: as much as the agent's frames are late at worst (p99), within 3 and 15 ms. */

export const leastMarginMs = 3;
const mostMs = 15;
/** A longer gap is a pause of the agent, not jitter. */
const pauseMs = 200;
/** Old arrivals fade: all counts are halved here. */
const fadeAt = 256;

export class ArrivalMargin {
  private readonly counts = new Uint16Array(mostMs + 1);
  private total = 0;
  private lastMs = Number.NaN;
  private lastDurationMs = 0;

  /**
   * A chunk of audio of `durationMs` came; it may have waited for us for `waitedMs`. Chunks that come faster than they play count as
   * punctual, and so do those that were if they waited.
   */
  arrived(nowMs: number, durationMs: number, waitedMs = 0): void {
    const punctualMs = this.nextMs;
    const cameMs = punctualMs < nowMs && waitedMs > 0 ? Math.max(punctualMs, nowMs - waitedMs) : nowMs;
    const lateMs = cameMs - punctualMs;
    const gapMs = cameMs - this.lastMs;
    this.lastMs = cameMs;
    this.lastDurationMs = durationMs;
    if (!(gapMs < pauseMs + durationMs)) return;
    const bin = Math.max(0, Math.min(mostMs, Math.ceil(lateMs)));
    this.counts[bin] = this.counts[bin]! + 1;
    this.total += 1;
    if (this.total < fadeAt) return;
    this.total = 0;
    for (let i = 0; i <= mostMs; i++) {
      this.counts[i] = this.counts[i]! >> 1;
      this.total += this.counts[i]!;
    }
  }

  /** When the next chunk is there at the pace of the clock; NaN before the first. */
  get nextMs(): number {
    return this.lastMs + this.lastDurationMs;
  }

  get marginMs(): number {
    let later = Math.floor(this.total / 100);
    let bin = mostMs;
    while (bin > leastMarginMs && this.counts[bin]! <= later) {
      later -= this.counts[bin]!;
      bin -= 1;
    }
    return bin;
  }
}
