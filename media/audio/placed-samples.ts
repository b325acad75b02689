/** Samples of one direction by their place in time, the last second or two of them. */
import type { PhoneCodec } from '../engine.js';
import { linearOf, sampleFormatOf, samplesOf, ticksPerMs } from './sample-format.js';

export class PlacedSamples {
  readonly samples: Int16Array;
  readonly samplesPerTick: number;
  /** Position after the last sample. */
  private until = 0;

  /** `length` in samples, a power of two. Audio of a higher rate is brought down to `rateHz`. */
  constructor(
    length: number,
    readonly rateHz: number,
  ) {
    this.samples = new Int16Array(length);
    this.samplesPerTick = rateHz / 1000 / ticksPerMs;
  }

  /** `[from, to)` of `bytes` begins at this tick of an eighth of a millisecond. */
  write(tick: number, bytes: Uint8Array, from: number, to: number, codec: PhoneCodec): void {
    const at = tick * this.samplesPerTick;
    this.fillTo(at);
    const { samples } = this;
    const mask = samples.length - 1;
    const law = linearOf(codec);
    if (law !== null) {
      const shift = at - from;
      for (let i = from; i < to; i++) samples[(i + shift) & mask] = law[bytes[i]!]!;
      this.until = Math.max(this.until, at + to - from);
      return;
    }
    const input = samplesOf(bytes.subarray(from, to));
    const every = sampleFormatOf[codec].sampleRateHz / this.rateHz;
    const count = Math.floor(input.length / every);
    for (let i = 0; i < count; i++) {
      let sum = 0;
      for (let j = 0; j < every; j++) sum += input[i * every + j]!;
      samples[(at + i) & mask] = sum / every;
    }
    this.until = Math.max(this.until, at + count);
  }

  /** Silence up to this position, where nothing was written. */
  fillTo(position: number): void {
    const { samples } = this;
    for (let at = Math.max(this.until, position - samples.length); at < position; at++)
      samples[at & (samples.length - 1)] = 0;
    this.until = Math.max(this.until, position);
  }

  /** `count` samples from `position` on. */
  read(position: number, count: number, into: Float64Array): void {
    const { samples } = this;
    const mask = samples.length - 1;
    for (let i = 0; i < count; i++) into[i] = samples[(position + i) & mask]!;
  }

  /** Energy of `count` samples from `position` on. */
  energy(position: number, count: number): number {
    const { samples } = this;
    let sum = 0;
    for (let at = position; at < position + count; at++) sum += samples[at & (samples.length - 1)]! ** 2;
    return sum;
  }
}
