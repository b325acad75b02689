/**
 * Whether what is heard is an echo of what was sent: the share of its energy that a short filter makes of the sent audio (least squares), at the
 * delay where both resemble each other most. Both are looked at below 1 kHz, where a voice has most of its energy: 2 kHz samples. A voice of its
 * own is explained by a fifth (median) and rarely by half, an echo by nine tenths and more, in rooms and with G.711 on both ways.
 *
 * The delay comes from the cross-correlation, by Fourier transforms of partly whitened spectra (a voice resembles itself after each of its pitch
 * periods; whitening tells these apart from the delay).
 */
import { Fourier } from '../dsp/fourier.js';

/** Samples of 8 kHz for one of 2 kHz. */
export const decimation = 4;
export const echoRateHz = 8000 / decimation;
/** Length of the filter: the bulk of an echo's energy, of a line's hybrid or a room, arrives within it. */
const tapCount = 24;
/** The filter begins this long before the delay that was found. */
const tapsBefore = 4;
/** The parts of the Fourier transform: the heard and the sent audio of the longest search. */
const transformed = 2048;
/** Delays that are tried with the filter, and how far apart they are. */
const candidateCount = 2;
const candidateSpacing = 12;
/** More than this share at one delay needs no other candidate. */
const certainShare = 0.85;
/** Half the width of a tone's line in the spectrum of 200 ms, in Hz. */
const lineHz = 12;
/** This share of the energy in one line is a tone, and no voice. */
const toneShare = 0.85;

export interface Explained {
  /** Of the energy of what was heard, 0 to 1. */
  share: number;
  /** In samples of 2 kHz. */
  delay: number;
}

const fourier = new Fourier(transformed);
const spectrumRe = new Float64Array(transformed);
const spectrumIm = new Float64Array(transformed);
const heardLine = new Float64Array(transformed);
const sentLine = new Float64Array(transformed);
const matrix = new Float64Array(tapCount * tapCount);
const cross = new Float64Array(tapCount);
const solved = new Float64Array(tapCount);
const heardPower = new Float64Array(transformed / 2 + 1);

/**
 * The audio of a ring of 8 kHz samples from `from` (in its samples) on, at 2 kHz, without its mean and 64 times as large. The filter is three
 * means over four samples in a row: -30 dB at what aliases to 500 Hz. `ring.length` is a power of two.
 */
function decimate(ring: Int16Array, from: number, count: number, into: Float64Array): void {
  const mask = ring.length - 1;
  let before = 0;
  let level = 0;
  for (let i = 0; i < count; i++) {
    const at = from + i * decimation;
    // Taps 1, 3, 6, 10, 12 and back.
    const sum =
      ring[at & mask]! +
      ring[(at - 9) & mask]! +
      3 * (ring[(at - 1) & mask]! + ring[(at - 8) & mask]!) +
      6 * (ring[(at - 2) & mask]! + ring[(at - 7) & mask]!) +
      10 * (ring[(at - 3) & mask]! + ring[(at - 6) & mask]!) +
      12 * (ring[(at - 4) & mask]! + ring[(at - 5) & mask]!);
    level = sum - before + 0.9 * level;
    before = sum;
    into[i] = i === 0 ? 0 : level;
  }
}

/** One piece of what was heard, and the audio that was sent before and during it. One at a time for the thread: its buffers are shared. */
export class EchoSearch {
  private count = 0;
  private mostDelay = 0;
  private energy = 0;

  /** `count` samples of 2 kHz that end at `until`, a position in both rings, and delays of at most `mostDelay`; together at most 2000. */
  load(heard: Int16Array, sent: Int16Array, until: number, count: number, mostDelay: number): void {
    this.count = count;
    this.mostDelay = mostDelay;
    decimate(heard, until - count * decimation, count, heardLine);
    const lead = mostDelay + tapCount;
    decimate(sent, until - (count + lead) * decimation, count + lead, sentLine);
    let energy = 0;
    for (let i = 0; i < count; i++) energy += heardLine[i]! ** 2;
    this.energy = energy;
  }

  /** The share at this delay. */
  at(delay: number): number {
    const { count, energy } = this;
    /** Index of the sent sample of the first tap for the first heard one. */
    const base = Math.min(this.mostDelay + tapCount - delay + tapsBefore, this.mostDelay + tapCount);
    if (energy <= 0 || base < tapCount) return 0;
    for (let tap = 0; tap < tapCount; tap += 4) {
      let r0 = 0;
      let r1 = 0;
      let r2 = 0;
      let r3 = 0;
      let c0 = 0;
      let c1 = 0;
      let c2 = 0;
      let c3 = 0;
      // The sample of one tap is that of the next one a step later.
      let s1 = sentLine[base - tap - 1]!;
      let s2 = sentLine[base - tap - 2]!;
      let s3 = sentLine[base - tap - 3]!;
      for (let i = 0; i < count; i++) {
        const now = sentLine[base + i]!;
        const heard = heardLine[i]!;
        const s0 = sentLine[base + i - tap]!;
        r0 += now * s0;
        r1 += now * s1;
        r2 += now * s2;
        r3 += now * s3;
        c0 += heard * s0;
        c1 += heard * s1;
        c2 += heard * s2;
        c3 += heard * s3;
        s3 = s2;
        s2 = s1;
        s1 = s0;
      }
      matrix[tap] = r0;
      matrix[tap + 1] = r1;
      matrix[tap + 2] = r2;
      matrix[tap + 3] = r3;
      cross[tap] = c0;
      cross[tap + 1] = c1;
      cross[tap + 2] = c2;
      cross[tap + 3] = c3;
    }
    // Each further row is the one before it, a sample earlier.
    for (let row = 1; row < tapCount; row++) {
      for (let column = row; column < tapCount; column++) {
        matrix[row * tapCount + column] =
          matrix[(row - 1) * tapCount + column - 1]! +
          sentLine[base - row]! * sentLine[base - column]! -
          sentLine[base + count - row]! * sentLine[base + count - column]!;
      }
    }
    return explainedEnergy() / energy;
  }

  /** The delay that explains most. */
  find(): Explained {
    const { count, mostDelay } = this;
    const lead = mostDelay + tapCount;
    spectrumRe.fill(0);
    spectrumIm.fill(0);
    for (let i = 0; i < count; i++) spectrumRe[i] = heardLine[i]!;
    for (let i = 0; i < count + lead; i++) spectrumIm[i] = sentLine[i]!;
    fourier.transform(spectrumRe, spectrumIm);
    crossSpectrum();
    fourier.transform(spectrumIm, spectrumRe);
    const best: Explained = { share: 0, delay: 0 };
    for (let n = 0; n < candidateCount && best.share < certainShare; n++) {
      const delay = strongest(lead, mostDelay);
      const share = this.at(delay);
      if (share > best.share) {
        best.share = share;
        best.delay = delay;
      }
    }
    return best;
  }

  /**
   * The last search's piece was a tone. It resembles a tone that was sent at any delay, and says nothing of an echo: an agent that echoes what it
   * hears returns the caller's tones as well.
   */
  get isTone(): boolean {
    let total = 0;
    let peak = 0;
    let peakAt = 0;
    for (let k = 0; k <= transformed / 2; k++) {
      const power = heardPower[k]!;
      total += power;
      if (power <= peak) continue;
      peak = power;
      peakAt = k;
    }
    const width = Math.ceil((lineHz * transformed) / echoRateHz);
    let line = 0;
    for (let k = Math.max(0, peakAt - width); k <= Math.min(transformed / 2, peakAt + width); k++)
      line += heardPower[k]!;
    return line >= toneShare * total;
  }
}

/** Both spectra are in one, since both signals are real: the product of one and the other's conjugate, whitened in part. */
function crossSpectrum(): void {
  let total = 0;
  for (let k = 0; k < transformed; k++) total += spectrumRe[k]! ** 2 + spectrumIm[k]! ** 2;
  const floor = (0.01 * total) / transformed;
  for (let k = 0, mirror = 0; k <= transformed / 2; k++, mirror = transformed - k) {
    const heardRe = (spectrumRe[k]! + spectrumRe[mirror]!) / 2;
    const heardIm = (spectrumIm[k]! - spectrumIm[mirror]!) / 2;
    const sentRe = (spectrumIm[k]! + spectrumIm[mirror]!) / 2;
    const sentIm = (spectrumRe[mirror]! - spectrumRe[k]!) / 2;
    const ofHeard = heardRe ** 2 + heardIm ** 2;
    heardPower[k] = ofHeard;
    const power = (sentRe ** 2 + sentIm ** 2 + floor) * (ofHeard + floor);
    // The fourth root of the power: half of the whitening of both.
    const weight = 1 / Math.sqrt(Math.sqrt(power));
    const re = weight * (sentRe * heardRe + sentIm * heardIm);
    const im = weight * (sentIm * heardRe - sentRe * heardIm);
    spectrumRe[k] = re;
    spectrumIm[k] = im;
    spectrumRe[mirror] = re;
    spectrumIm[mirror] = -im;
  }
}

/** The delay with the largest correlation, of either sign; it and its neighbours are not found again. */
function strongest(lead: number, mostDelay: number): number {
  let best = -1;
  let bestAt = lead;
  for (let at = lead - mostDelay; at <= lead; at++) {
    const value = Math.abs(spectrumRe[at]!);
    if (value <= best) continue;
    best = value;
    bestAt = at;
  }
  spectrumRe.fill(0, Math.max(0, bestAt - candidateSpacing), bestAt + candidateSpacing);
  return lead - bestAt;
}

/** Solves the normal equations by Cholesky's method in place; the upper half of `matrix` becomes the factor. */
function explainedEnergy(): number {
  let trace = 0;
  for (let i = 0; i < tapCount; i++) trace += matrix[i * tapCount + i]!;
  const ridge = (1e-3 * trace) / tapCount + 1;
  let explained = 0;
  for (let row = 0; row < tapCount; row++) {
    let diagonal = matrix[row * tapCount + row]! + ridge;
    for (let k = 0; k < row; k++) diagonal -= matrix[k * tapCount + row]! ** 2;
    const root = Math.sqrt(Math.max(diagonal, 1e-9));
    for (let column = row + 1; column < tapCount; column++) {
      let sum = matrix[row * tapCount + column]!;
      for (let k = 0; k < row; k++) sum -= matrix[k * tapCount + row]! * matrix[k * tapCount + column]!;
      matrix[row * tapCount + column] = sum / root;
    }
    matrix[row * tapCount + row] = root;
    let value = cross[row]!;
    for (let k = 0; k < row; k++) value -= matrix[k * tapCount + row]! * solved[k]!;
    solved[row] = value / root;
    explained += solved[row]! ** 2;
  }
  return explained;
}
