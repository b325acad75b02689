/**
 * What is said in place of a lost packet: the last period of the voice again and again, fading, and silence after 60 ms (the idea of G.711
 * Appendix I, but without its delay: seams are smoothed by what comes after them).
 */
import type { PhoneCodec } from '../engine.js';
import { alawToLinear, linearToAlaw, linearToUlaw, ulawToLinear } from './g711.js';

const toLinear = { PCMU: ulawToLinear, PCMA: alawToLinear };
const fromLinear = { PCMU: linearToUlaw, PCMA: linearToAlaw };
/** 66 to 200 Hz; higher voices fit in with several periods. */
const shortestPeriod = 40;
const longestPeriod = 120;
/** As much of the past is compared with what lies a period before it. */
const compared = 160;
const historyLength = longestPeriod + compared;
/** Full loudness for 10 ms, then down to nothing at 60 ms. */
const fullUntil = 80;
const silentFrom = 480;
/** Seams are spread over so many samples. */
const seam = 32;

export class Concealment {
  /** The end of what was heard, in the law of the line. */
  private readonly history = new Uint8Array(historyLength);
  private heardSamples = 0;
  private readonly period = new Float64Array(longestPeriod);
  private periodLength = 0;
  /** How far the first sample is from where the voice was. */
  private step = 0;
  private made = 0;
  private readonly joined = new Uint8Array(1500);

  constructor(private codec: PhoneCodec) {}

  /** Nothing that was heard goes on. */
  reset(codec: PhoneCodec): void {
    this.codec = codec;
    this.heardSamples = 0;
    this.made = 0;
  }

  /** What was received; returns what is to be played of it: after a loss its beginning is blended in. Valid until the next call. */
  heard(audio: Uint8Array): Uint8Array {
    const played = this.made > 0 ? this.join(audio) : audio;
    this.made = 0;
    const kept = Math.min(audio.length, historyLength);
    this.history.copyWithin(0, kept);
    this.history.set(audio.subarray(audio.length - kept), historyLength - kept);
    this.heardSamples = Math.min(historyLength, this.heardSamples + kept);
    return played;
  }

  /** Makes up the next `count` samples. */
  fill(into: Uint8Array, at: number, count: number): void {
    if (this.made === 0) this.learn();
    const encode = fromLinear[this.codec];
    for (let i = 0; i < count; i++) into[at + i] = encode[Math.round(this.next()) & 0xffff]!;
  }

  private next(): number {
    const n = this.made++;
    if (this.periodLength === 0 || n >= silentFrom) return 0;
    const loudness = n < fullUntil ? 1 : 1 - (n - fullUntil) / (silentFrom - fullUntil);
    const offset = n < seam ? this.step * (1 - n / seam) : 0;
    return loudness * clipped(this.period[n % this.periodLength]! + offset);
  }

  private join(audio: Uint8Array): Uint8Array {
    const decode = toLinear[this.codec];
    const encode = fromLinear[this.codec];
    const joined = this.joined.subarray(0, Math.min(audio.length, this.joined.length));
    joined.set(audio.subarray(0, joined.length));
    const blended = Math.min(seam, joined.length);
    for (let i = 0; i < blended; i++) {
      const share = (i + 1) / (blended + 1);
      joined[i] = encode[Math.round(this.next() * (1 - share) + decode[joined[i]!]! * share) & 0xffff]!;
    }
    return joined;
  }

  /** The last period of what was heard, made to flow into itself. */
  private learn(): void {
    this.periodLength = 0;
    if (this.heardSamples < historyLength) return;
    const decode = toLinear[this.codec];
    const past = Float64Array.from(this.history, (byte) => decode[byte]!);
    const period = likeliestPeriod(past);
    const from = past.length - period;
    const blended = Math.min(seam, period >> 1);
    for (let i = 0; i < period; i++) {
      const untilEnd = period - i;
      const share = untilEnd > blended ? 0 : 1 - untilEnd / (blended + 1);
      this.period[i] = past[from + i]! * (1 - share) + past[from - period + i]! * share;
    }
    this.periodLength = period;
    this.step = past[past.length - 1]! - past[from - 1]!;
  }
}

/** The lag at which the end of the past is most like what lies before it. */
function likeliestPeriod(past: Float64Array): number {
  let best = longestPeriod;
  let bestLikeness = Number.NEGATIVE_INFINITY;
  for (let lag = shortestPeriod; lag <= longestPeriod; lag++) {
    let product = 0;
    let energy = 1;
    for (let i = past.length - compared; i < past.length; i++) {
      product += past[i]! * past[i - lag]!;
      energy += past[i - lag]! ** 2;
    }
    const likeness = product / Math.sqrt(energy);
    if (likeness > bestLikeness) {
      bestLikeness = likeness;
      best = lag;
    }
  }
  return best;
}

function clipped(sample: number): number {
  return Math.max(-32768, Math.min(32767, sample));
}
