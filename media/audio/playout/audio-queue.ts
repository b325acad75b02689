/**
 * A stream of bytes in one piece of memory that is used again: appended at the end, played from the front. What was played last stays in front
 * of it, so that it can be continued over a gap. No allocation per packet.
 */

/** Beyond this multiple of the first memory, a queue that has become short gives memory back. */
const shrinkFrom = 4;

export class AudioQueue {
  bytes: Uint8Array;
  /** The first byte that was not played, and the end, in `bytes`. */
  from = 0;
  to = 0;
  /** How much of what was played is known: it ends at `from`. */
  played = 0;
  private readonly firstBytes: number;

  /** `playedAtMost`: how much of what was played is kept. `spareBytes`: free memory at first, and after each move. */
  constructor(
    private readonly playedAtMost: number,
    spareBytes: number,
  ) {
    this.firstBytes = playedAtMost + spareBytes;
    this.bytes = new Uint8Array(this.firstBytes);
  }

  get queued(): number {
    return this.to - this.from;
  }

  append(chunk: Uint8Array): void {
    if (this.to + chunk.length > this.bytes.length) this.makeRoom(chunk.length);
    this.bytes.set(chunk, this.to);
    this.to += chunk.length;
  }

  /** Passes `count` bytes that were played. */
  advance(count: number): void {
    this.from += count;
    if (this.played < this.playedAtMost) this.played = Math.min(this.playedAtMost, this.played + count);
  }

  /** Passes `count` bytes that are not played: what is played next follows what was played before. */
  leaveOut(count: number): void {
    const { from, played } = this;
    this.bytes.copyWithin(from + count - played, from - played, from);
    this.from = from + count;
  }

  /** What was played last was other audio than queued: `played` in `[at, at + count)`. */
  correctPlayed(played: Uint8Array, at: number, count: number): void {
    const known = Math.min(count, this.played);
    this.bytes.set(played.subarray(at + count - known, at + count), this.from - known);
  }

  /** The newest `count` bytes that were played, oldest first; valid until the next change. */
  last(count: number): Uint8Array {
    return this.bytes.subarray(this.from - count, this.from);
  }

  /** Drops what was not played. */
  clear(): void {
    this.to = this.from;
  }

  /** Moves what is still needed to the front, into larger or smaller memory when it does not fit its size. */
  private makeRoom(count: number): void {
    const { bytes, from, to, played } = this;
    const kept = to - from + played;
    const needed = kept + count;
    const mayShrink = bytes.length > shrinkFrom * this.firstBytes && needed < bytes.length / shrinkFrom;
    if (needed > bytes.length || mayShrink) {
      this.bytes = new Uint8Array(Math.max(this.firstBytes, needed * 2));
      this.bytes.set(bytes.subarray(from - played, to));
    } else bytes.copyWithin(0, from - played, to);
    this.from = played;
    this.to = kept;
  }
}
