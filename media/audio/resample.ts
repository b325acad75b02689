/**
 * Sample rate conversion between the phone's 8 kHz and what agents speak, as a stream: a polyphase FIR filter (windowed sinc) that keeps its
 * state between chunks, so that chunk borders cannot be heard. Flat up to 0.425 of the lower rate (3400 Hz of 8 kHz), at least 60 dB down
 * from 0.54 of it on; the speech band of the phone passes and nothing folds back into it.
 */
export interface Resampler {
  /** How much later a sample comes out, in output samples. */
  readonly delaySamples: number;
  /** Any length, an empty one too. The result is overwritten by the next call. */
  process(input: Int16Array): Int16Array;
  /** As new: for audio that does not continue what came before. */
  reset(): void;
}

/** Filter length in samples of the lower rate; the transition band gets narrower with it, the cost higher. */
const LENGTH = 32;
/** Middle of the transition band, as a part of the lower rate. */
const CUTOFF = 0.4815;
/** Kaiser window for 60 dB. */
const KAISER_BETA = 5.65;

/** Both rates in Hz. Equal rates pass the input through, without a copy. */
export function createResampler(fromHz: number, toHz: number): Resampler {
  if (fromHz === toHz) return { delaySamples: 0, process: (input) => input, reset: () => {} };
  const common = greatestCommonDivisor(fromHz, toHz);
  return new PolyphaseResampler(toHz / common, fromHz / common);
}

/** Conceptually: `up` - 1 zeros between the samples, the filter, and of the result every `down`-th sample. */
class PolyphaseResampler implements Resampler {
  readonly delaySamples: number;
  readonly #up: number;
  readonly #down: number;
  /** Per phase the taps of the filter that meet a sample and not a zero, newest sample last. */
  readonly #phases: Float64Array[];
  /** The last samples of the chunk before, then the present chunk. */
  #samples: Float64Array;
  readonly #history: number;
  #output = new Int16Array(0);
  /** Position of the next output sample, relative to the next chunk: sample and phase. */
  #index = 0;
  #phase = 0;

  constructor(up: number, down: number) {
    this.#up = up;
    this.#down = down;
    const halfLength = (LENGTH / 2) * Math.max(up, down);
    this.delaySamples = halfLength / down;
    this.#phases = polyphase(lowPass(halfLength, CUTOFF / Math.max(up, down)), up);
    this.#history = this.#phases[0]!.length - 1;
    this.#samples = new Float64Array(this.#history);
  }

  process(input: Int16Array): Int16Array {
    this.#append(input);
    const samples = this.#samples;
    const output = this.#output;
    let index = this.#index;
    let phase = this.#phase;
    let count = 0;
    while (index < input.length) {
      const sample = Math.round(convolve(this.#phases[phase]!, samples, index));
      output[count++] = Math.max(-32768, Math.min(32767, sample));
      phase += this.#down;
      while (phase >= this.#up) {
        phase -= this.#up;
        index += 1;
      }
    }
    this.#index = index - input.length;
    this.#phase = phase;
    samples.copyWithin(0, input.length, input.length + this.#history);
    return output.subarray(0, count);
  }

  reset(): void {
    this.#samples.fill(0);
    this.#index = 0;
    this.#phase = 0;
  }

  #append(input: Int16Array): void {
    const needed = this.#history + input.length;
    if (this.#samples.length < needed) {
      const longer = new Float64Array(needed);
      longer.set(this.#samples.subarray(0, this.#history));
      this.#samples = longer;
      this.#output = new Int16Array(Math.ceil((input.length * this.#up) / this.#down) + 1);
    }
    this.#samples.set(input, this.#history);
  }
}

/** The hot loop: four sums, since each addition would have to wait for the one before. */
function convolve(taps: Float64Array, samples: Float64Array, at: number): number {
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  for (let i = 0; i < taps.length; i += 4) {
    a += taps[i]! * samples[at + i]!;
    b += taps[i + 1]! * samples[at + i + 1]!;
    c += taps[i + 2]! * samples[at + i + 2]!;
    d += taps[i + 3]! * samples[at + i + 3]!;
  }
  return a + b + (c + d);
}

/** A low-pass filter of 2 × `halfLength` + 1 taps; `cutoff` as a part of the sample rate. */
function lowPass(halfLength: number, cutoff: number): Float64Array {
  const taps = new Float64Array(2 * halfLength + 1);
  for (let i = 0; i < taps.length; i++) {
    const t = i - halfLength;
    const sinc = t === 0 ? 2 * cutoff : Math.sin(2 * Math.PI * cutoff * t) / (Math.PI * t);
    taps[i] = (sinc * bessel(KAISER_BETA * Math.sqrt(1 - (t / halfLength) ** 2))) / bessel(KAISER_BETA);
  }
  return taps;
}

/**
 * The taps of each phase, in the order of the samples they meet, filled up with zeros to a multiple of four. Each phase passes a constant
 * unchanged.
 */
function polyphase(taps: Float64Array, up: number): Float64Array[] {
  const perPhase = Math.ceil(taps.length / up / 4) * 4;
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
