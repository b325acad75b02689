/** The level of a piece of audio, and its strongest frequency. */
import { Fourier } from '../../../media/audio/dsp/fourier.js';
import { sampleRateHz } from './marker.js';

export interface Loudness {
  /** Mean level of the frames that are not silent; 0 dBFS is the largest sample. null: all silent. */
  levelDbfs: number | null;
  /** Share of frames that are not silent, 0-100. */
  activePercent: number;
  /** null: all silent. */
  frequencyHz: number | null;
}

const windowSamples = 1024;
const silenceDbfs = -50;
/** Enough audio for the figure. */
const maxWindows = 400;
const fourier = new Fourier(windowSamples);
const hann = Float64Array.from(
  { length: windowSamples },
  (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * i) / windowSamples),
);

/** Analyses at most the last 51 s. */
export function listen(samples: Int16Array): Loudness {
  const count = Math.floor(samples.length / windowSamples);
  const spectrum = new Float64Array(windowSamples / 2);
  let power = 0;
  let active = 0;
  const first = Math.max(0, count - maxWindows);
  for (let index = first; index < count; index++) {
    const window = samples.subarray(index * windowSamples, (index + 1) * windowSamples);
    const windowPower = meanPower(window);
    if (decibels(windowPower) < silenceDbfs) continue;
    active += 1;
    power += windowPower;
    addSpectrum(window, spectrum);
  }
  return {
    levelDbfs: active === 0 ? null : decibels(power / active),
    activePercent: count === 0 ? 0 : (active / (count - first)) * 100,
    frequencyHz: active === 0 ? null : peakHz(spectrum),
  };
}

/** Whether a packet of audio is not silence. */
export function isSound(samples: Int16Array): boolean {
  return samples.length > 0 && decibels(meanPower(samples)) > silenceDbfs;
}

function meanPower(samples: Int16Array): number {
  let sum = 0;
  for (const sample of samples) sum += sample * sample;
  return sum / samples.length;
}

function decibels(power: number): number {
  return power === 0 ? Number.NEGATIVE_INFINITY : 10 * Math.log10(power / 32768 ** 2);
}

function peakHz(spectrum: Float64Array): number {
  let peak = 2;
  for (let bin = 2; bin < spectrum.length - 1; bin++) if (spectrum[bin]! > spectrum[peak]!) peak = bin;
  const [left, middle, right] = [spectrum[peak - 1]!, spectrum[peak]!, spectrum[peak + 1] ?? 0].map((p) =>
    Math.log(p + 1),
  ) as [number, number, number];
  const curve = left - 2 * middle + right;
  const offset = curve === 0 ? 0 : (0.5 * (left - right)) / curve; // the maximum of the parabola through three bins
  return ((peak + offset) * sampleRateHz) / windowSamples;
}

/** Adds the power spectrum under a Hann window. */
function addSpectrum(samples: Int16Array, into: Float64Array): void {
  const real = Float64Array.from(samples, (sample, i) => sample * hann[i]!);
  const imaginary = new Float64Array(windowSamples);
  fourier.transform(real, imaginary);
  for (let bin = 0; bin < into.length; bin++) into[bin] = into[bin]! + real[bin]! ** 2 + imaginary[bin]! ** 2;
}
