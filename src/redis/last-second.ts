const secondMs = 1_000;

/**
 * When the requests of the last second were let through: at most `limit` moments. One more is let through only when fewer than `limit` of them
 * are younger than a second, so no interval of a second, wherever it begins, holds more than `limit`.
 */
export class LastSecond {
  private times: Float64Array;
  private oldest = 0;
  private count = 0;

  constructor(limit: number) {
    this.times = new Float64Array(limit);
  }

  /** How many were let through in the second before `nowMs`, which never goes backwards. */
  used(nowMs: number): number {
    while (this.count > 0 && nowMs - this.at(0) >= secondMs) {
      this.oldest = (this.oldest + 1) % this.times.length;
      this.count -= 1;
    }
    return this.count;
  }

  /** False, and nothing changes, when the limit is used up. */
  add(nowMs: number, limit: number): boolean {
    if (limit !== this.times.length) this.resize(limit);
    if (this.used(nowMs) >= limit) return false;
    this.times[(this.oldest + this.count) % limit] = nowMs;
    this.count += 1;
    return true;
  }

  /** Until the oldest of them is a second old: then one more may come. */
  untilOneLeavesMs(nowMs: number): number {
    return this.used(nowMs) === 0 ? 0 : this.at(0) + secondMs - nowMs;
  }

  private at(index: number): number {
    return this.times[(this.oldest + index) % this.times.length] ?? 0;
  }

  /** Another limit holds from now on; the newest moments stay. */
  private resize(limit: number): void {
    const kept = Math.min(this.count, limit);
    const times = new Float64Array(limit);
    for (let index = 0; index < kept; index += 1) times[index] = this.at(this.count - kept + index);
    this.times = times;
    this.oldest = 0;
    this.count = kept;
  }
}
