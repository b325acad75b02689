/**
 * Takes the echo of what was sent out of the caller's audio (ITU-T G.168), from the moment when the echo's delay is known. Until then, and
 * while no echo can come, audio passes bit for bit. Sent and heard audio meet by their RTP timestamps, so neither lost nor late packets shift
 * them; nothing is delayed.
 *
 * Positions are samples at the rate of the phone's codec.
 */
import type { PhoneCodec } from '../../engine.js';
import { linearToAlaw, linearToUlaw } from '../codec/g711.js';
import { EchoFilter, longestBlockMs } from '../dsp/echo-filter.js';
import { ResidualEcho } from '../dsp/residual-echo.js';
import { PlacedSamples } from '../placed-samples.js';
import { bytesOf, readSamples, sampleFormatOf } from '../sample-format.js';
import { ScratchBuffer } from '../scratch-buffer.js';

/** For each rate the filter's length, for 108 ms of echo at 8 and 16 kHz and 65 ms at 24 kHz, and how much audio is kept: a second or more. */
const lengths: Readonly<Record<number, { transform: number; kept: number }>> = {
  8000: { transform: 1024, kept: 8192 },
  16000: { transform: 2048, kept: 16_384 },
  24000: { transform: 2048, kept: 32_768 },
};
/** The filter begins this long before the delay that was found. */
const beforeMs = 8;
/** An echo that was found further than this from its old place, where nothing is removed any more, has moved. */
const movedMs = 4;
/** So much of what was heard before the delay was known is learned from at once. */
const rehearsedMs = 400;
/** How often the filter's place is looked at, in blocks. */
const centeredEvery = 100;
/** Changes of what is subtracted, and of how soft the rest is made, are ramps. */
const rampMs = 4;
const smoothing = 0.9;

const heardSamples = new ScratchBuffer(Int16Array);
const cleanSamples = new ScratchBuffer(Int16Array);
const cleanBytes = new ScratchBuffer(Uint8Array);
const heardLine = new Float64Array(480);
const madeLine = new Float64Array(480);

export class EchoCanceller {
  private line: Line | null = null;
  private heardTotal = 0;
  private leftTotal = 0;

  /** By how much echoes became softer, in dB; null before one was removed. */
  get removedDb(): number | null {
    return this.heardTotal > 0 ? 10 * Math.log10(this.heardTotal / Math.max(1, this.leftTotal)) : null;
  }

  /** Audio in `[from, to)` that was sent at this tick. */
  sent(tick: number, bytes: Uint8Array, from: number, to: number, codec: PhoneCodec, quiet: boolean): void {
    const { sampleRateHz, bytesPerMs } = sampleFormatOf[codec];
    // Audio of another rate has another path.
    if (this.line?.sent.rateHz !== sampleRateHz) this.line = new Line(sampleRateHz);
    const { line } = this;
    line.sent.write(tick, bytes, from, to, codec);
    if (!quiet) line.loudUntil = tick * line.sent.samplesPerTick + ((to - from) / bytesPerMs) * line.samplesPerMs;
  }

  /**
   * Audio of the caller, and the delay of its echo in milliseconds, null when none is known. The audio without the echo: the same bytes, or
   * others that are valid until the next call. Audio at another rate than what is sent passes.
   */
  heard(tick: number, bytes: Uint8Array, codec: PhoneCodec, delayMs: number | null): Uint8Array {
    const { line } = this;
    if (line?.sent.rateHz !== sampleFormatOf[codec].sampleRateHz) return bytes;
    const at = tick * line.sent.samplesPerTick;
    if (delayMs === null) {
      line.before?.write(tick, bytes, 0, bytes.length, codec);
      return bytes;
    }
    const samples = readSamples(bytes, codec, heardSamples);
    line.place(delayMs, at);
    if (!line.mayEcho(at)) {
      line.rest();
      return bytes;
    }
    const clean = cleanSamples.ofLength(samples.length);
    for (let from = 0; from < samples.length; from += line.longestBlock) {
      const count = Math.min(line.longestBlock, samples.length - from);
      line.clean(at + from, samples, from, count, clean);
      if (!line.residual.isEcho) continue;
      this.heardTotal += line.filter.heardEnergy;
      this.leftTotal += line.cleanEnergy;
    }
    if (sampleFormatOf[codec].linear) return bytesOf(clean);
    const table = codec === 'PCMA' ? linearToAlaw : linearToUlaw;
    const coded = cleanBytes.ofLength(bytes.length);
    for (let i = 0; i < coded.length; i++) coded[i] = table[clean[i]! & 0xffff]!;
    return coded;
  }
}

/** The echo path of audio at one rate. */
class Line {
  readonly filter: EchoFilter;
  readonly residual = new ResidualEcho();
  readonly sent: PlacedSamples;
  readonly samplesPerMs: number;
  readonly longestBlock: number;
  /** What was heard before the delay was known. */
  before: PlacedSamples | null;
  /** After the last sent audio that was not quiet. */
  loudUntil = Number.NEGATIVE_INFINITY;
  /** Of the last block. */
  cleanEnergy = 0;
  private placedMs: number | null = null;
  /** From sent audio to the first tap, in samples. */
  private offset = 0;
  private subtracted = 0;
  private gain = 1;
  private smoothedHeard = 0;
  private smoothedLeft = 0;
  private blocks = 0;

  constructor(sampleRateHz: number) {
    const { transform, kept } = lengths[sampleRateHz]!;
    this.samplesPerMs = sampleRateHz / 1000;
    this.longestBlock = longestBlockMs * this.samplesPerMs;
    this.filter = new EchoFilter(transform, this.samplesPerMs);
    this.sent = new PlacedSamples(kept, sampleRateHz);
    this.before = new PlacedSamples(kept, sampleRateHz);
  }

  /** Puts the filter where the echo is; `at` is the position of what is heard. */
  place(delayMs: number, at: number): void {
    const { placedMs, filter, samplesPerMs } = this;
    const isFirst = placedMs === null;
    if (!isFirst && (Math.abs(delayMs - placedMs) <= movedMs || this.removes)) return;
    this.placedMs = delayMs;
    // The filter may have learned by itself where the echo is now. If not, the echo has probably moved as it is.
    const learnedMs = (this.offset + filter.strongestTap()) / samplesPerMs;
    if (isFirst || Math.abs(learnedMs - delayMs) > movedMs)
      this.offset = Math.max(0, Math.round((delayMs - beforeMs) * samplesPerMs));
    if (isFirst) this.rehearse(at);
  }

  /** Sent audio may come back at this position, or a block later. */
  mayEcho(at: number): boolean {
    return at - this.offset - this.filter.taps < this.loudUntil;
  }

  /** No echo can come. */
  rest(): void {
    this.gain = 1;
    this.subtracted = 0;
  }

  clean(at: number, heard: Int16Array, from: number, count: number, into: Int16Array): void {
    const { filter, residual } = this;
    for (let i = 0; i < count; i++) heardLine[i] = heard[from + i]!;
    this.filterBlock(at, count);
    const { heardEnergy, leftEnergy, madeEnergy, uncertainEnergy } = filter;
    this.smoothedHeard = smoothing * this.smoothedHeard + heardEnergy;
    this.smoothedLeft = smoothing * this.smoothedLeft + leftEnergy;
    // A path that has just changed, or sent audio that the phone did not get: the filter's echo would be one more.
    const subtracted = leftEnergy > heardEnergy ? 0 : 1;
    const gain = residual.gain(
      madeEnergy / count,
      uncertainEnergy / count,
      leftEnergy / count,
      count / this.samplesPerMs,
    );
    const steps = Math.min(count, rampMs * this.samplesPerMs);
    const subtractStep = (subtracted - this.subtracted) / steps;
    const gainStep = (gain - this.gain) / steps;
    let energy = 0;
    for (let i = 0; i < count; i++) {
      if (i < steps) {
        this.subtracted += subtractStep;
        this.gain += gainStep;
      }
      const sample = Math.round(this.gain * (heardLine[i]! - this.subtracted * madeLine[i]!));
      energy += sample * sample;
      into[from + i] = Math.max(-32_768, Math.min(32_767, sample));
    }
    this.cleanEnergy = energy;
    this.subtracted = subtracted;
    this.gain = gain;
    this.blocks += 1;
    if (this.blocks % centeredEvery === 0 && this.removes) this.center();
  }

  /** Half of what is heard, and more, was removed lately. */
  private get removes(): boolean {
    return this.smoothedLeft < 0.5 * this.smoothedHeard;
  }

  private filterBlock(at: number, count: number): void {
    const until = at + count - this.offset;
    this.sent.fillTo(until);
    this.filter.block(this.sent, until, heardLine, count, madeLine);
  }

  /** Learns the path from what was heard before its delay was known. */
  private rehearse(at: number): void {
    const { before, longestBlock } = this;
    if (before === null) return;
    before.fillTo(at);
    for (let from = at - rehearsedMs * this.samplesPerMs; from < at; from += longestBlock) {
      before.read(from, longestBlock, heardLine);
      this.filterBlock(from, longestBlock);
    }
    this.before = null;
  }

  /** Clocks that differ move the path through the filter, which follows. */
  private center(): void {
    const { filter, samplesPerMs } = this;
    const off = Math.max(-this.offset, filter.strongestTap() - beforeMs * samplesPerMs);
    if (Math.abs(off) < movedMs * samplesPerMs) return;
    filter.shift(-off);
    this.offset += off;
  }
}
