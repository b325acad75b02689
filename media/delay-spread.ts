/** Counts delays of a call in memory of a fixed size, and gives their percentiles. */

/** Three steps: to 100 ms by 1, to 1 s by 10, to 10 s by 100. Longer delays count as the last. */
const [fineMs, middleMs, coarseMs] = [100, 1000, 10_000];
const bins = fineMs + (middleMs - fineMs) / 10 + (coarseMs - middleMs) / 100 + 1;

/** Percentiles by nearest rank, in milliseconds; exact below 100 ms to 1 ms, below 1 s to 10 ms, above to 100 ms. */
export interface DelaySpread {
  p50Ms: number;
  p95Ms: number;
  /** Exact. */
  worstMs: number;
}

export class DelayCounts {
  private readonly counts = new Uint32Array(bins);
  private total = 0;
  private worstMs = 0;
  /** `counts` and `total` at the mark. */
  private readonly marked = new Uint32Array(bins);
  private markedTotal = 0;
  private worstSinceMarkMs = 0;

  add(ms: number): void {
    const bin = binOf(ms);
    this.counts[bin] = this.counts[bin]! + 1;
    this.total += 1;
    if (ms <= this.worstSinceMarkMs) return;
    this.worstSinceMarkMs = ms;
    if (ms > this.worstMs) this.worstMs = ms;
  }

  /** From now on `spreadSinceMark` begins anew. */
  mark(): void {
    this.marked.set(this.counts);
    this.markedTotal = this.total;
    this.worstSinceMarkMs = 0;
  }

  /** null when nothing was counted. */
  get spread(): DelaySpread | null {
    if (this.total === 0) return null;
    return spreadOf((bin) => this.counts[bin]!, this.total, this.worstMs);
  }

  /** Of what was counted since `mark`, or since the beginning; null when nothing was. */
  get spreadSinceMark(): DelaySpread | null {
    const total = this.total - this.markedTotal;
    if (total === 0) return null;
    return spreadOf((bin) => this.counts[bin]! - this.marked[bin]!, total, this.worstSinceMarkMs);
  }
}

function spreadOf(countOf: (bin: number) => number, total: number, worstExactMs: number): DelaySpread {
  const worstMs = Math.round(worstExactMs * 10) / 10;
  const at = (share: number) => {
    let left = Math.ceil(share * total);
    for (let bin = 0; bin < bins; bin++) {
      left -= countOf(bin);
      if (left <= 0) return Math.min(endOf(bin), worstMs);
    }
    return worstMs;
  };
  return { p50Ms: at(0.5), p95Ms: at(0.95), worstMs };
}

function binOf(ms: number): number {
  if (!(ms > 0)) return 0;
  if (ms < fineMs) return Math.floor(ms);
  if (ms < middleMs) return fineMs + Math.floor((ms - fineMs) / 10);
  if (ms < coarseMs) return fineMs + (middleMs - fineMs) / 10 + Math.floor((ms - middleMs) / 100);
  return bins - 1;
}

/** The upper end of a bin. */
function endOf(bin: number): number {
  if (bin < fineMs) return bin + 1;
  const middle = bin - fineMs;
  if (middle < (middleMs - fineMs) / 10) return fineMs + (middle + 1) * 10;
  return middleMs + (middle - (middleMs - fineMs) / 10 + 1) * 100;
}
