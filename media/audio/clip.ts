/** Audio files as clips: decoded once, into memory that all calls share. */
import type { Clip } from '../engine.js';
import { linearToUlaw } from './codec/g711.js';
import { createResampler } from './dsp/resample.js';
import { readWav } from './wav.js';

const phoneRateHz = 8000;
const mostMs = 60 * 60_000;
const leastRateHz = 4000;
const mostRateHz = 192_000;

/** Converts a WAV file (16 bit PCM or G.711, mono or stereo, 4 to 192 kHz) to a clip. Throws an `Error` with one sentence for any other file. */
export function clipFromWav(file: Uint8Array): Clip {
  const { sampleRateHz, channels } = readWav(file);
  if (sampleRateHz < leastRateHz || sampleRateHz > mostRateHz) {
    throw new Error(
      `The WAV file has a sample rate of ${sampleRateHz} Hz; ${leastRateHz} to ${mostRateHz} Hz are supported.`,
    );
  }
  const mono = mixed(channels);
  if ((mono.length / sampleRateHz) * 1000 > mostMs) throw new Error('The WAV file is longer than an hour.');
  const resampler = createResampler(sampleRateHz, phoneRateHz);
  // Trailing silence flushes the samples that the filter still holds.
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
