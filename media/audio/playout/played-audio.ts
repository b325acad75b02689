/** The last audio that was played, in a ring: a frame is copied once, and what was played before is not moved. */
import { ScratchBuffer } from '../scratch-buffer.js';

/** Shared by all rings of the thread. */
const unrolled = new ScratchBuffer(Uint8Array);

export class PlayedAudio {
  private readonly ring: Uint8Array;
  /** Where the next byte goes. */
  private next = 0;
  private filled = 0;

  constructor(bytes: number) {
    this.ring = new Uint8Array(bytes);
  }

  /** Number of bytes that `last` can give. */
  get length(): number {
    return this.filled;
  }

  get isFull(): boolean {
    return this.filled === this.ring.length;
  }

  /** Adds `count` bytes of `from`, beginning at `at`; no more than the ring holds. */
  add(from: Uint8Array, at: number, count: number): void {
    const { ring, next } = this;
    const toEnd = ring.length - next;
    if (count < toEnd) {
      ring.set(from.subarray(at, at + count), next);
      this.next = next + count;
    } else {
      ring.set(from.subarray(at, at + toEnd), next);
      ring.set(from.subarray(at + toEnd, at + count));
      this.next = count - toEnd;
    }
    if (this.filled < ring.length) this.filled = Math.min(ring.length, this.filled + count);
  }

  /** The newest `count` bytes, oldest first; valid until the next call of any ring. */
  last(count: number): Uint8Array {
    const { ring, next } = this;
    if (count <= next) return ring.subarray(next - count, next);
    const bytes = unrolled.ofLength(count);
    bytes.set(ring.subarray(ring.length - (count - next)));
    bytes.set(ring.subarray(0, next), count - next);
    return bytes;
  }
}
