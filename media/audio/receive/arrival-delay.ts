/** How much later than the fastest the caller's audio arrived in the last seconds: what a jitter buffer must wait for. */

/** Five seconds of frames. */
const remembered = 250;
/** The buffer waits for all but this share. */
const lateShare = 0.02;
const judgedEvery = 10;

export class ArrivalDelay {
  private readonly transits = new Float64Array(remembered);
  private readonly sorted = new Float64Array(remembered);
  private count = 0;
  private fastestMs = Number.POSITIVE_INFINITY;
  private slowestMs = 0;

  /** The stream begins anew. */
  reset(): void {
    this.count = 0;
    this.fastestMs = Number.POSITIVE_INFINITY;
    this.slowestMs = 0;
  }

  /** Audio of the position `atMs` in the stream arrived at `nowMs`. */
  arrived(atMs: number, nowMs: number): void {
    const transitMs = nowMs - atMs;
    this.transits[this.count % remembered] = transitMs;
    this.count += 1;
    if (transitMs < this.fastestMs) this.fastestMs = transitMs;
    if (this.count % judgedEvery === 0) this.judge();
    else if (this.count < judgedEvery) this.slowestMs = Math.max(this.slowestMs, transitMs - this.fastestMs);
  }

  /** The time on the sender's clock at which audio of the position `atMs` would arrive at the earliest. */
  earliestMs(atMs: number): number {
    return this.fastestMs + atMs;
  }

  /** How much later than that nearly all audio arrives. */
  get spreadMs(): number {
    return this.slowestMs;
  }

  private judge(): void {
    const known = Math.min(this.count, remembered);
    const sorted = this.sorted.subarray(0, known);
    sorted.set(this.transits.subarray(0, known));
    sorted.sort();
    this.fastestMs = sorted[0]!;
    this.slowestMs = sorted[known - 1 - Math.floor(known * lateShare)]! - this.fastestMs;
  }
}
