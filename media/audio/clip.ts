/** Audio files as clips: decoded once, then in the one memory that all calls play from. */
import type { Clip } from '../engine.js';
import { linearToUlaw } from './codec/g711.js';
import { createResampler } from './dsp/resample.js';
import { readWav } from './wav.js';

const phoneRateHz = 8000;
const mostMs = 60 * 60_000;
const leastRateHz = 4000;
const mostRateHz = 192_000;

/** A WAV file (16 bit PCM or G.711, mono or stereo, any usual rate) as a clip. Throws an `Error` with one sentence when it is none. */
export function clipFromWav(file: Uint8Array): Clip {
  const { sampleRateHz, channels } = readWav(file);
  if (sampleRateHz < leastRateHz || sampleRateHz > mostRateHz) {
    throw new Error(`The WAV file has a sample rate of ${sampleRateHz} Hz.`);
  }
  const mono = mixed(channels);
  if ((mono.length / sampleRateHz) * 1000 > mostMs) throw new Error('The WAV file is longer than an hour.');
  const resampler = createResampler(sampleRateHz, phoneRateHz);
  // What the filter holds back comes out with as much silence behind.
  const tail = Math.ceil((resampler.delaySamples * sampleRateHz) / phoneRateHz);
  const padded = new Int16Array(mono.length + tail);
  padded.set(mono);
  const samples = resampler.process(padded).subarray(Math.round(resampler.delaySamples));
  const clip = new SharedArrayBuffer(samples.length);
  const bytes = new Uint8Array(clip);
  for (let i = 0; i < samples.length; i++) bytes[i] = linearToUlaw[samples[i]! & 0xffff]!;
  return clip;
}

function mixed(channels: Int16Array[]): Int16Array {
  const [left, right] = channels;
  if (!left) return new Int16Array(0);
  return right ? left.map((sample, i) => (sample + right[i]!) >> 1) : left;
}
