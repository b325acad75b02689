/** Joins two frames of 20 ms into one of 40: half as many messages to an agent, for 20 ms more delay. */
import type { PhoneCodec } from '../../engine.js';
import { sampleFormatOf } from '../sample-format.js';

const frameMs = 20;

export class FrameJoiner {
  /** Time of the frame that `join` returned last. */
  atMs = 0;
  private whole = new Uint8Array(0);
  private codec: PhoneCodec | null = null;

  /** null when the second half is still missing. A half whose other half never came is dropped. The result is reused by the next call. */
  join(frame: Uint8Array, atMs: number, codec: PhoneCodec): Uint8Array | null {
    const frameBytes = frameMs * sampleFormatOf[codec].bytesPerMs;
    if (this.whole.length !== 2 * frameBytes) this.whole = new Uint8Array(2 * frameBytes);
    const isSecond = this.codec === codec && Math.abs(atMs - this.atMs - frameMs) < 1;
    this.whole.set(frame, isSecond ? frameBytes : 0);
    if (!isSecond) this.atMs = atMs;
    this.codec = isSecond ? null : codec;
    return isSecond ? this.whole : null;
  }
}
