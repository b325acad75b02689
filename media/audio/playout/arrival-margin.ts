/** How long playout of an utterance waits after its first frame: the agent's jitter at p99, within 3 and 15 ms. */

export const leastMarginMs = 3;
const mostMs = 15;
/** A longer gap is a pause of the agent, not jitter. */
const pauseMs = 200;
/** At this total all counts are halved, so that old arrivals fade. */
const fadeAt = 256;

export class ArrivalMargin {
  private readonly counts = new Uint16Array(mostMs + 1);
  private total = 0;
  private lastMs = Number.NaN;
  private lastDurationMs = 0;

  /**
   * A chunk of `durationMs` arrived; it may have waited `waitedMs` for our thread. Chunks that arrive faster than they play count as punctual,
   * and so do chunks that may have been punctual before they waited.
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

  /** When the next chunk arrives from an agent that sends in real time; NaN before the first. */
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
