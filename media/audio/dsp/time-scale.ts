/**
 * Shortens speech without changing its pitch (waveform similarity overlap-add): leaves out one or more pitch periods where the audio after
 * the cut continues the audio before it, and blends both. Works on linear samples.
 */
import { ScratchBuffer } from '../scratch-buffer.js';
import { correlations, distancesAtOnce } from './correlation.js';

/** One period of 400 Hz to two of 100 Hz. */
const shortestCutMs = 2.5;
const longestCutMs = 20;
/** Over this time both sides of a cut are blended and compared. */
const blendMs = 8;
/** Cuts are tried at these distances from the start of the frame. */
const triedEveryMs = 4;

export interface SpeechCut {
  /** First sample of the blend. */
  at: number;
  /** Samples that are left out. */
  length: number;
  /** Normalized correlation of both sides, -1 to 1. */
  likeness: number;
}

/** How much audio beyond its frame a cut of the longest length reads. */
export const cutReadsMs = longestCutMs + blendMs;

/**
 * The best cut within the first `frame` samples of `audio`. It removes at most `most` of `owed` samples, and leaves nothing or at least the
 * shortest cut to remove later. null when no cut fits.
 */
export function bestCut(
  audio: Int16Array,
  frame: number,
  owed: number,
  sampleRateHz: number,
  most = owed,
): SpeechCut | null {
  const rate = sampleRateHz / 1000;
  const blend = Math.round(blendMs * rate);
  const shortest = Math.round(shortestCutMs * rate);
  const longest = Math.min(Math.round(longestCutMs * rate), owed, most, audio.length - frame);
  if (longest < shortest && longest < owed) return null;
  /** Wideband: every second or third sample at every second or third length, then the neighbours. */
  const stride = Math.max(1, Math.floor(sampleRateHz / 8000));
  const search = new CutSearch(audio, blend, stride, owed, shortest, longest);
  let best: SpeechCut | null = null;
  for (let at = 0; at + blend <= frame; at += Math.round(triedEveryMs * rate)) {
    const here = search.at(at);
    if (here !== null && (best === null || here.likeness > best.likeness)) best = here;
  }
  return best;
}

/** Writes `frame` samples from `audio` without the cut. */
export function writeCut(
  audio: Int16Array,
  cut: SpeechCut,
  frame: number,
  sampleRateHz: number,
  into: Int16Array,
): void {
  const { at, length } = cut;
  const blend = Math.round((blendMs * sampleRateHz) / 1000);
  for (let i = 0; i < at; i++) into[i] = audio[i]!;
  for (let i = 0; i < blend; i++) {
    const share = (i + 1) / (blend + 1);
    into[at + i] = Math.round(audio[at + i]! * (1 - share) + audio[at + length + i]! * share);
  }
  for (let i = at + blend; i < frame; i++) into[i] = audio[i + length]!;
}

const read = new ScratchBuffer(Float64Array);
const sums = new ScratchBuffer(Float64Array);

/** Cuts at one place. One search at a time: its memory is shared. */
class CutSearch {
  private readonly samples: Float64Array;
  /** At each sample the energy of the samples before it, of every `step`-th one. */
  private readonly energies: Float64Array;
  private readonly step: number;
  private length = 0;
  private likeness = Number.NEGATIVE_INFINITY;

  constructor(
    audio: Int16Array,
    private readonly blend: number,
    private readonly stride: number,
    private readonly owed: number,
    private readonly shortest: number,
    private readonly longest: number,
  ) {
    const step = 2 * stride;
    this.step = step;
    // The last four lengths reach beyond the audio.
    const samples = read.ofLength(audio.length + distancesAtOnce * stride);
    samples.set(audio);
    samples.fill(0, audio.length);
    const energies = sums.ofLength(samples.length + step);
    energies.fill(0, 0, step);
    for (let i = 0; i < samples.length; i++) energies[i + step] = energies[i]! + samples[i]! * samples[i]!;
    this.samples = samples;
    this.energies = energies;
  }

  /** The best cut at `at`, or null. */
  at(at: number): SpeechCut | null {
    const { stride, owed, shortest, longest } = this;
    this.likeness = Number.NEGATIVE_INFINITY;
    for (let length = Math.min(shortest, longest); length <= longest; length += distancesAtOnce * stride)
      this.try(at, length, stride);
    if (longest === owed) this.try(at, owed, 0);
    if (this.likeness === Number.NEGATIVE_INFINITY) return null;
    const coarse = this.length;
    if (stride > 1) this.try(at, Math.max(shortest, coarse - stride + 1), 1);
    if (stride > 2) this.try(at, coarse + 1, 1);
    return { at, length: this.length, likeness: this.likeness };
  }

  /** Compares four lengths from `length` on, `spacing` apart, with the best so far. */
  private try(at: number, length: number, spacing: number): void {
    const { samples, energies, blend, owed, shortest, longest } = this;
    const products = correlations(samples, at, at + blend, this.step, length, spacing);
    const before = energies[at + blend]! - energies[at]!;
    for (let n = 0; n < distancesAtOnce; n++) {
      const tried = length + n * spacing;
      const rest = owed - tried;
      if (tried > longest || (rest > 0 && rest < shortest)) continue;
      const after = energies[at + tried + blend]! - energies[at + tried]!;
      const likeness = products[n]! / Math.sqrt((before + 1) * (after + 1));
      if (likeness <= this.likeness) continue;
      this.likeness = likeness;
      this.length = tried;
    }
  }
}
