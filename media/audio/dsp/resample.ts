/**
 * Sample rate conversion between the phone's 8 kHz and the agents' rates, as a stream: a polyphase FIR filter (windowed sinc) that keeps its
 * state between chunks, so that chunk borders are inaudible. Flat up to 0.425 of the lower rate (3400 Hz of 8 kHz), at least 60 dB down
 * from 0.54 of it: the phone's speech band passes and nothing aliases into it.
 */
import { blockSamples, Taps } from './convolve.js';

export interface Resampler {
  /** Delay of the output, in output samples. */
  readonly delaySamples: number;
  /** Any length, including 0. The result is overwritten by the next call. */
  process(input: Int16Array): Int16Array;
  /** Clears the state, for audio that does not continue the earlier audio. */
  reset(): void;
}

/** Filter length in samples of the lower rate; a longer filter has a narrower transition band and costs more. */
const LENGTH = 32;
/** Middle of the transition band, as a fraction of the lower rate. */
const CUTOFF = 0.4815;
/** Kaiser window for 60 dB. */
const KAISER_BETA = 5.65;

/** Both rates in Hz. Equal rates pass the input through, without a copy. */
export function createResampler(fromHz: number, toHz: number): Resampler {
  if (fromHz === toHz) return { delaySamples: 0, process: (input) => input, reset: () => {} };
  const common = greatestCommonDivisor(fromHz, toHz);
  return new PolyphaseResampler(toHz / common, fromHz / common);
}

/** Conceptually: inserts `up` - 1 zeros between samples, filters, and keeps every `down`-th sample. */
class PolyphaseResampler implements Resampler {
  readonly delaySamples: number;
  readonly #up: number;
  readonly #down: number;
  readonly #taps: Taps;
  /** The last samples of the previous chunk. */
  readonly #history: Int16Array;
  #output = new Int16Array(0);
  /** Position of the next output sample, relative to the next chunk: sample and phase. */
  #index = 0;
  #phase = 0;

  constructor(up: number, down: number) {
    this.#up = up;
    this.#down = down;
    this.delaySamples = ((LENGTH / 2) * Math.max(up, down)) / down;
    this.#taps = tapsFor(up, down);
    this.#history = new Int16Array(this.#taps.length - 1);
  }

  process(input: Int16Array): Int16Array {
    const most = Math.ceil((input.length * this.#up) / this.#down) + 1;
    if (this.#output.length < most) this.#output = new Int16Array(most);
    let count = 0;
    for (let at = 0; at < input.length; at += blockSamples) {
      const block = input.length <= blockSamples ? input : input.subarray(at, at + blockSamples);
      const filtered = this.#taps.filter(this.#history, block, this.#index, this.#phase, this.#down);
      this.#output.set(filtered, count);
      count += filtered.length;
      const phase = this.#phase + filtered.length * this.#down;
      this.#phase = phase % this.#up;
      this.#index += Math.floor(phase / this.#up) - block.length;
    }
    return this.#output.subarray(0, count);
  }

  reset(): void {
    this.#history.fill(0);
    this.#index = 0;
    this.#phase = 0;
  }
}

const known = new Map<string, Taps>();

/** One filter for all calls of a thread. */
function tapsFor(up: number, down: number): Taps {
  const name = `${up}/${down}`;
  let taps = known.get(name);
  if (!taps) {
    const longer = Math.max(up, down);
    taps = new Taps(polyphase(lowPass((LENGTH / 2) * longer, CUTOFF / longer), up));
    known.set(name, taps);
  }
  return taps;
}

/** A low-pass filter of 2 × `halfLength` + 1 taps; `cutoff` as a fraction of the sample rate. */
function lowPass(halfLength: number, cutoff: number): Float64Array {
  const taps = new Float64Array(2 * halfLength + 1);
  for (let i = 0; i < taps.length; i++) {
    const t = i - halfLength;
    const sinc = t === 0 ? 2 * cutoff : Math.sin(2 * Math.PI * cutoff * t) / (Math.PI * t);
    taps[i] = (sinc * bessel(KAISER_BETA * Math.sqrt(1 - (t / halfLength) ** 2))) / bessel(KAISER_BETA);
  }
  return taps;
}

/** The taps that meet samples rather than zeros, per phase and in the order of the samples. Each phase passes a constant unchanged. */
function polyphase(taps: Float64Array, up: number): Float64Array[] {
  const perPhase = Math.ceil(taps.length / up);
  return Array.from({ length: up }, (_, phase) => {
    const own = new Float64Array(perPhase);
    for (let i = 0; i < perPhase; i++) own[perPhase - 1 - i] = taps[phase + i * up] ?? 0;
    const gain = own.reduce((sum, each) => sum + each, 0);
    return own.map((each) => each / gain);
  });
}

/** Modified Bessel function of the first kind, order 0, by its power series. */
function bessel(x: number): number {
  let sum = 1;
  let term = 1;
  for (let k = 1; term > sum * 1e-12; k++) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}
