/**
 * Tells tones, keys and music from speech. A note that is held repeats itself 50 to 90 ms later, whatever its pitch; so do chords and the two
 * tones of a key. A voice does not, since its pitch glides. The mean likeness over a fifth of a second is 0.2 to 0.5 for voices and 0.6 to 1
 * for music and tones. No clock of its own.
 */

import { correlations, distancesAtOnce } from '../dsp/correlation.js';

/** The rate at which the audio is compared. */
const comparedHz = 4000;
const stepMs = 20;
const windowSamples = 128;
const shortestLag = 200;
const lagsEnd = 360;
const historySamples = windowSamples + lagsEnd - 1;
const offsetKept = 0.8;
/** About -47 dBm0 after the high-pass: quieter audio says nothing. */
const leastMeanSquare = 120 * 120;
/** Comparisons before a verdict, and the least weight of the newest. */
const leastCompared = 10;
const newestWeight = 0.1;
/** With a verdict, only every third step is compared, and weighs as much as three: a comparison costs as much as a quarter of a call. */
const stepsWithVerdict = 3;
const newestWithVerdict = 1 - (1 - newestWeight) ** stepsWithVerdict;
const speechBelow = 0.53;
/** A verdict of speech holds up to this likeness: a long vowel. */
const speechUpTo = 0.75;
/** Before there is a verdict: tones and keys are above this, most voices below. */
const notesFrom = 0.8;
/** What was heard this long ago says nothing about now. */
const forgetMs = 1500;

export type SoundKind = 'unknown' | 'speech' | 'notes';

export class HeldNotes {
  private readonly past = new Float64Array(historySamples);
  private filled = 0;
  private compared = 0;
  private isSpeech = false;
  private likeness = 0;
  private silentMs = 0;
  /** Steps, and their duration, since the last comparison. */
  private steps = 0;
  private stepsMs = 0;
  private before = 0;
  private passed = 0;

  /** `speech` and `notes` need a fifth of a second of sound. */
  get kind(): SoundKind {
    if (this.compared < leastCompared) return 'unknown';
    return this.isSpeech ? 'speech' : 'notes';
  }

  /** What was heard so far sounds like notes, though it may be too short for a verdict. */
  get leansToNotes(): boolean {
    return this.compared < leastCompared ? this.likeness >= notesFrom : !this.isSpeech;
  }

  /** Some audio was not heard: what comes is not compared with what was before, but the verdict stays. */
  interrupted(): void {
    this.filled = 0;
    this.before = 0;
    this.passed = 0;
    this.isSpeech &&= this.likeness < speechBelow;
  }

  /** The audio does not continue what was heard before. */
  reset(): void {
    this.filled = 0;
    this.compared = 0;
    this.isSpeech = false;
    this.likeness = 0;
    this.silentMs = 0;
    this.before = 0;
    this.passed = 0;
  }

  /** The next audio, linear, in steps of 20 ms or less. */
  hear(samples: Int16Array, sampleRateHz: number): void {
    const every = sampleRateHz / comparedHz;
    const stepSamples = (stepMs * sampleRateHz) / 1000;
    for (let at = 0; at < samples.length; at += stepSamples)
      this.step(samples, at, Math.min(samples.length, at + stepSamples), every);
  }

  private step(samples: Int16Array, from: number, to: number, every: number): void {
    const { past } = this;
    const count = Math.floor((to - from) / every);
    past.copyWithin(0, count);
    for (let i = 0; i < count; i++) {
      let sum = 0;
      for (let j = 0; j < every; j++) sum += samples[from + i * every + j]!;
      const level = sum / every;
      // A high-pass at 140 Hz: a constant offset is no tone.
      this.passed = level - this.before + offsetKept * this.passed;
      this.before = level;
      past[historySamples - count + i] = this.passed;
    }
    this.filled = Math.min(historySamples, this.filled + count);
    if (this.filled < historySamples) return;
    const hasVerdict = this.compared >= leastCompared;
    this.steps += 1;
    this.stepsMs += (to - from) / (every * (comparedHz / 1000));
    if (hasVerdict && this.steps < stepsWithVerdict) return;
    const { stepsMs } = this;
    this.steps = 0;
    this.stepsMs = 0;
    const likeness = this.compare();
    if (likeness === null) {
      this.silentMs += stepsMs;
      if (this.silentMs < forgetMs) return;
      this.reset();
      return;
    }
    this.silentMs = 0;
    this.compared += 1;
    const weight = hasVerdict ? newestWithVerdict : Math.max(newestWeight, 1 / this.compared);
    this.likeness += (likeness - this.likeness) * weight;
    this.isSpeech = this.compared >= leastCompared && this.likeness < (this.isSpeech ? speechUpTo : speechBelow);
  }

  /** The greatest likeness of the last 32 ms with audio 50 to 90 ms earlier; null for silence. */
  private compare(): number | null {
    const { past } = this;
    const from = historySamples - windowSamples;
    let energy = 0;
    for (let i = from; i < historySamples; i++) energy += past[i]! * past[i]!;
    if (energy < leastMeanSquare * windowSamples) return null;
    let earlier = 0;
    for (let i = from - shortestLag; i < historySamples - shortestLag; i++) earlier += past[i]! * past[i]!;
    let best = 0;
    for (let lag = shortestLag; lag < lagsEnd; lag += distancesAtOnce) {
      // The farthest of four first; every second product is enough.
      const products = correlations(past, from, historySamples, 2, 1 - lag - distancesAtOnce);
      for (let n = distancesAtOnce - 1; n >= 0; n--) {
        const likeness = (2 * products[n]!) / Math.sqrt(energy * earlier + 1);
        if (likeness > best) best = likeness;
        // The window one lag earlier moves back by one sample.
        const start = from - lag - distancesAtOnce + n;
        const entering = start < 0 ? 0 : past[start]!;
        const leaving = past[start + windowSamples]!;
        earlier += entering * entering - leaving * leaving;
      }
    }
    return best;
  }
}
