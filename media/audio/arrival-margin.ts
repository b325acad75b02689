/** How long an utterance waits after its first frame: as much as the agent's frames are late at worst (p99), within 3 and 15 ms. */

const leastMs = 3;
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

  /** A chunk of audio of `durationMs` came. Chunks that come faster than they play count as punctual. */
  arrived(nowMs: number, durationMs: number): void {
    const lateMs = nowMs - this.lastMs - this.lastDurationMs;
    const gapMs = nowMs - this.lastMs;
    this.lastMs = nowMs;
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

  get marginMs(): number {
    let later = Math.floor(this.total / 100);
    let bin = mostMs;
    while (bin > leastMs && this.counts[bin]! <= later) {
      later -= this.counts[bin]!;
      bin -= 1;
    }
    return bin;
  }
}
