/**
 * The linear part of an echo canceller (ITU-T G.168): an adaptive filter that makes the echo of what was sent, to be subtracted from what is
 * heard. It is a Kalman filter for each frequency (Enzner and Vary, Signal Processing 86, 2006): the step of a frequency follows from what is
 * still uncertain of the echo path and from the power of what cannot be explained, so a caller who speaks over the echo does not spoil the
 * path, and no detector of double talk is needed.
 *
 * A second filter, the shadow, forgets the path within a second. Where it explains more for a while, the path has changed, and the first
 * filter takes its state; where it explains much less, it is set back. A filter that makes the echo louder begins anew.
 */
import type { PlacedSamples } from '../placed-samples.js';
import { Fourier } from './fourier.js';

export const longestBlockMs = 20;
/** What a filter keeps of its path from block to block. */
const keeps = 0.9998;
const shadowKeeps = 0.98;
/** Power of the uncertainty of a path of which nothing is known: its gain is at most 1. */
const unknownPath = 1;
/** Smoothing of the unexplained power of a frequency, and of the energies of both filters. */
const powerSmoothing = 0.5;
const energySmoothing = 0.8;
/** The shadow is better, for so many blocks; it is worse. */
const betterShare = 0.7;
const betterBlocks = 2;
const worseFactor = 2;
/** So many blocks more that were made louder than were made softer, and the path is unknown. */
const louderBlocks = 20;
const louderFactor = 1.1;
/** This share of the power in five lines of the spectrum next to each other is a tone. It says nothing of other frequencies. */
const toneShare = 0.85;

/**
 * Most of an echo comes early. Taps after so many milliseconds learn more slowly: by a factor e for each of the next ones, down to a share.
 * That makes what all taps together get wrong less.
 */
const earlyMs = 40;
const slowerMs = 31;
const leastStep = 0.2;

/** A filter of one call. */
interface Path {
  re: Float64Array;
  im: Float64Array;
  /** Power of what is uncertain, for each frequency. */
  uncertain: Float64Array;
  /** Power of what is left, for each frequency. */
  left: Float64Array;
}

/** Memory of the transforms at one sample rate, which all its filters use in turn. */
class Workspace {
  readonly fourier: Fourier;
  readonly re: Float64Array;
  readonly im: Float64Array;
  readonly sentRe: Float64Array;
  readonly sentIm: Float64Array;
  /** How much of its step each tap takes, by the transform's length. */
  readonly steps: Float64Array;

  constructor(length: number, samplesPerMs: number, taps: number) {
    this.fourier = new Fourier(length);
    this.re = new Float64Array(length);
    this.im = new Float64Array(length);
    this.sentRe = new Float64Array(length / 2 + 1);
    this.sentIm = new Float64Array(length / 2 + 1);
    this.steps = Float64Array.from({ length: taps }, (_, i) => {
      const lateMs = Math.max(0, i / samplesPerMs - earlyMs);
      return Math.max(leastStep, Math.exp(-lateMs / slowerMs)) / length;
    });
  }
}

const workspaces = new Map<number, Workspace>();

function workspaceAt(samplesPerMs: number, length: number, taps: number): Workspace {
  let workspace = workspaces.get(samplesPerMs);
  if (workspace === undefined) {
    workspace = new Workspace(length, samplesPerMs, taps);
    workspaces.set(samplesPerMs, workspace);
  }
  return workspace;
}

export class EchoFilter {
  /** Length of the echo path, in samples. */
  readonly taps: number;
  /** Energies of the last block: as it was heard, what the filter made of the sent audio, and what is left without that. */
  heardEnergy = 0;
  madeEnergy = 0;
  leftEnergy = 0;
  /** What may be left of an echo as loud as the sent audio, since its frequencies were not heard yet. */
  uncertainEnergy = 0;
  private readonly path: Path;
  private readonly shadow: Path;
  private smoothedLeft = 0;
  private smoothedShadowLeft = 0;
  private betterFor = 0;
  private louder = 0;
  private isNew = true;
  private readonly workspace: Workspace;

  /** `length` of the transforms, a power of two and the same for all filters of a sample rate; blocks have at most 20 ms. */
  constructor(
    readonly length: number,
    samplesPerMs: number,
  ) {
    this.taps = length - longestBlockMs * samplesPerMs;
    this.workspace = workspaceAt(samplesPerMs, length, this.taps);
    const path = (): Path => {
      const line = () => new Float64Array(length / 2 + 1);
      return { re: line(), im: line(), uncertain: line().fill(unknownPath), left: line() };
    };
    this.path = path();
    this.shadow = path();
  }

  /**
   * The sent sample before position `until` meets the last one of the `count` samples in `heard` in the first tap. Writes the echo's samples
   * into `made`, and learns from the difference.
   */
  block(sent: PlacedSamples, until: number, heard: Float64Array, count: number, made: Float64Array): void {
    const { length, workspace, path, shadow } = this;
    const { fourier, re, im } = workspace;
    sent.read(until - length, length, re);
    im.fill(0);
    fourier.transform(re, im);
    const isTone = this.readSent();
    this.makeEchoes();
    const from = length - count;
    let heardEnergy = 0;
    let madeEnergy = 0;
    let left = 0;
    let shadowLeft = 0;
    for (let i = 0; i < count; i++) {
      const now = heard[i]!;
      const echo = re[from + i]! / length;
      const rest = now - echo;
      const shadowRest = now - im[from + i]! / length;
      made[i] = echo;
      heardEnergy += now * now;
      madeEnergy += echo * echo;
      left += rest * rest;
      shadowLeft += shadowRest * shadowRest;
      re[from + i] = rest;
      im[from + i] = shadowRest;
    }
    this.heardEnergy = heardEnergy;
    this.madeEnergy = madeEnergy;
    this.leftEnergy = left;
    if (isTone) return;
    re.fill(0, 0, from);
    im.fill(0, 0, from);
    fourier.transform(re, im);
    this.makeSteps(count / length);
    fourier.transform(im, re);
    // The path is shorter than the transform.
    const { taps } = this;
    const { steps } = workspace;
    for (let i = 0; i < taps; i++) {
      re[i] = re[i]! * steps[i]!;
      im[i] = im[i]! * steps[i]!;
    }
    re.fill(0, taps);
    im.fill(0, taps);
    fourier.transform(re, im);
    add(re, im, path, shadow);
    this.compare(left, shadowLeft);
  }

  /** The path is another one. */
  forget(): void {
    for (const path of [this.path, this.shadow]) {
      path.re.fill(0);
      path.im.fill(0);
      path.uncertain.fill(unknownPath);
    }
    this.louder = 0;
    this.betterFor = 0;
    this.smoothedShadowLeft = this.smoothedLeft;
  }

  /** Where in the path most of its energy is: its strongest tap. Costs one transform. */
  strongestTap(): number {
    const { re } = this.toTaps();
    let strongest = 0;
    for (let i = 1; i < this.taps; i++) if (Math.abs(re[i]!) > Math.abs(re[strongest]!)) strongest = i;
    return strongest;
  }

  /** Moves the path by so many taps, later when positive. What leaves it is lost. Costs two transforms. */
  shift(by: number): void {
    const { re, im } = this.toTaps();
    const { taps, length, workspace, path, shadow } = this;
    for (const line of [re, im]) {
      line.copyWithin(Math.max(0, by), Math.max(0, -by), taps - Math.max(0, by));
      if (by > 0) line.fill(0, 0, by);
      line.fill(0, by > 0 ? taps : taps + by);
      for (let i = 0; i < taps; i++) line[i] = line[i]! / length;
    }
    workspace.fourier.transform(re, im);
    for (const each of [path, shadow]) {
      each.re.fill(0);
      each.im.fill(0);
    }
    add(re, im, path, shadow);
  }

  /** Taps of both paths, `length` times as large. */
  private toTaps(): Workspace {
    const { workspace, path, shadow, length } = this;
    const { re, im } = workspace;
    for (let k = 0; k <= length / 2; k++) pack(re, im, k, path.re[k]!, path.im[k]!, shadow.re[k]!, shadow.im[k]!);
    workspace.fourier.transform(im, re);
    return workspace;
  }

  /** Keeps the spectrum of the sent audio. True when it is a tone. */
  private readSent(): boolean {
    const { re, im, sentRe, sentIm } = this.workspace;
    let total = 0;
    let peak = 0;
    let run = 0;
    for (let k = 0; k < sentRe.length; k++) {
      const real = re[k]!;
      const imaginary = im[k]!;
      sentRe[k] = real;
      sentIm[k] = imaginary;
      const power = real * real + imaginary * imaginary;
      total += power;
      run += power;
      if (k >= 5) run -= re[k - 5]! * re[k - 5]! + im[k - 5]! * im[k - 5]!;
      if (run > peak) peak = run;
    }
    return peak > toneShare * total;
  }

  /** The echo by both paths: that of the first one real, that of the shadow imaginary; `length` times as large. */
  private makeEchoes(): void {
    const { path, shadow, workspace } = this;
    const { fourier, re, im, sentRe, sentIm } = workspace;
    for (let k = 0; k < sentRe.length; k++) {
      const xr = sentRe[k]!;
      const xi = sentIm[k]!;
      const pr = path.re[k]!;
      const pi = path.im[k]!;
      const sr = shadow.re[k]!;
      const si = shadow.im[k]!;
      pack(re, im, k, xr * pr - xi * pi, xr * pi + xi * pr, xr * sr - xi * si, xr * si + xi * sr);
    }
    fourier.transform(im, re);
  }

  /** From the spectra of what is left to the steps of both paths; `fresh`: the share of the block in the transform. */
  private makeSteps(fresh: number): void {
    const { path, shadow, length, isNew } = this;
    const { re, im, sentRe, sentIm } = this.workspace;
    const half = length / 2;
    let uncertain = 0;
    const [forgets, shadowForgets] = [1 - keeps ** 2, 1 - shadowKeeps ** 2];
    const { re: pr, im: pi, uncertain: pu, left: pl } = path;
    const { re: sr, im: si, uncertain: su, left: sl } = shadow;
    for (let k = 0; k <= half; k++) {
      const mirror = k === 0 ? 0 : length - k;
      const a = re[k]!;
      const b = im[k]!;
      const c = re[mirror]!;
      const d = im[mirror]!;
      const er = (a + c) / 2;
      const ei = (b - d) / 2;
      const fr = (b + d) / 2;
      const fi = (c - a) / 2;
      const before = isNew ? 0 : powerSmoothing;
      const left = before * pl[k]! + (1 - before) * (er * er + ei * ei);
      const shadowLeft = before * sl[k]! + (1 - before) * (fr * fr + fi * fi);
      pl[k] = left;
      sl[k] = shadowLeft;
      const xr = sentRe[k]!;
      const xi = sentIm[k]!;
      const power = xr * xr + xi * xi;
      const u = pu[k]!;
      uncertain += power * u;
      const v = su[k]!;
      const gain = u / (power * u + left / fresh + 1);
      const shadowGain = v / (power * v + shadowLeft / fresh + 1);
      pu[k] = (1 - forgets) * (1 - fresh * gain * power) * u + forgets * (pr[k]! * pr[k]! + pi[k]! * pi[k]!);
      su[k] =
        (1 - shadowForgets) * (1 - fresh * shadowGain * power) * v +
        shadowForgets * (sr[k]! * sr[k]! + si[k]! * si[k]!);
      pack(
        re,
        im,
        k,
        gain * (xr * er + xi * ei),
        gain * (xr * ei - xi * er),
        shadowGain * (xr * fr + xi * fi),
        shadowGain * (xr * fi - xi * fr),
      );
    }
    this.isNew = false;
    this.uncertainEnergy = (2 * fresh * uncertain) / length;
  }

  /** Which of both filters is right. */
  private compare(left: number, shadowLeft: number): void {
    const { path, shadow } = this;
    this.smoothedLeft += (1 - energySmoothing) * (left - this.smoothedLeft);
    this.smoothedShadowLeft += (1 - energySmoothing) * (shadowLeft - this.smoothedShadowLeft);
    this.louder = left > louderFactor * this.heardEnergy ? this.louder + 1 : Math.max(0, this.louder - 1);
    if (this.louder >= louderBlocks) this.forget();
    else if (this.smoothedShadowLeft < betterShare * this.smoothedLeft) {
      this.betterFor += 1;
      if (this.betterFor < betterBlocks) return;
      path.re.set(shadow.re);
      path.im.set(shadow.im);
      path.uncertain.set(shadow.uncertain);
      this.smoothedLeft = this.smoothedShadowLeft;
      this.betterFor = 0;
    } else {
      this.betterFor = 0;
      if (this.smoothedShadowLeft <= worseFactor * this.smoothedLeft) return;
      shadow.re.set(path.re);
      shadow.im.set(path.im);
      this.smoothedShadowLeft = this.smoothedLeft;
    }
  }
}

/** Puts the spectra of two real signals into one, at this frequency and its mirror: the first signal real, the second imaginary. */
function pack(
  re: Float64Array,
  im: Float64Array,
  k: number,
  firstRe: number,
  firstIm: number,
  secondRe: number,
  secondIm: number,
): void {
  const mirror = k === 0 ? 0 : re.length - k;
  re[k] = firstRe - secondIm;
  im[k] = firstIm + secondRe;
  if (mirror === k || k === 0) return;
  re[mirror] = firstRe + secondIm;
  im[mirror] = secondRe - firstIm;
}

/** Adds the spectra of two real signals, packed into one, to both paths. */
function add(re: Float64Array, im: Float64Array, first: Path, second: Path): void {
  const half = re.length / 2;
  for (let k = 0; k <= half; k++) {
    const mirror = k === 0 ? 0 : re.length - k;
    first.re[k] = first.re[k]! + (re[k]! + re[mirror]!) / 2;
    first.im[k] = first.im[k]! + (im[k]! - im[mirror]!) / 2;
    second.re[k] = second.re[k]! + (im[k]! + im[mirror]!) / 2;
    second.im[k] = second.im[k]! + (re[mirror]! - re[k]!) / 2;
  }
}
