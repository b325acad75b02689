import { linearToUlaw } from '../../media/audio/codec/g711.js';
import { createResampler } from '../../media/audio/dsp/resample.js';

/** Decoded audio, one array per channel: 16 bit samples, or samples from -1 to 1. */
export interface DecodedAudio {
  channels: readonly (Int16Array | Float32Array)[];
  sampleRateHz: number;
}

/** Of clips for G.711, and of wide clips for G.722 and Opus. */
export const clipHz = { narrow: 8000, wide: 16_000 };
const leastHz = 4000;
const mostHz = 192_000;
/** Resampled piece by piece, so that the working memory stays small. */
const pieceSamples = 65_536;

/** 16 bit samples at another rate, all channels mixed. Throws for audio that is empty or has an unusual rate. */
export function monoSamples({ channels, sampleRateHz }: DecodedAudio, toHz: number, maxSeconds: number): Int16Array {
  const length = channels[0]?.length ?? 0;
  if (length === 0) throw new Error('The file contains no audio.');
  if (!Number.isInteger(sampleRateHz) || sampleRateHz < leastHz || sampleRateHz > mostHz)
    throw new Error(`The sample rate of ${sampleRateHz} Hz is not supported.`);
  const used = Math.min(length, maxSeconds * sampleRateHz);
  const resampler = createResampler(sampleRateHz, toHz);
  const parts: Int16Array[] = [];
  for (let from = 0; from < used; from += pieceSamples)
    parts.push(resampler.process(mixed(channels, from, Math.min(pieceSamples, used - from))).slice());
  // The rest of the filter's output.
  parts.push(resampler.process(new Int16Array(Math.ceil((resampler.delaySamples * sampleRateHz) / toHz))));
  const samples = new Int16Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    samples.set(part, at);
    at += part.length;
  }
  return samples;
}

/** In memory that all threads and calls share: G.711 μ-law, or the samples themselves for a wide clip. */
export function clipOf(samples: Int16Array, isWide: boolean): SharedArrayBuffer {
  if (isWide) {
    const shared = new SharedArrayBuffer(samples.length * 2);
    new Int16Array(shared).set(samples);
    return shared;
  }
  const clip = new SharedArrayBuffer(samples.length);
  const bytes = new Uint8Array(clip);
  for (let i = 0; i < samples.length; i += 1) bytes[i] = linearToUlaw[(samples[i] ?? 0) & 0xffff] ?? 0xff;
  return clip;
}

const quietest = 256;
const keptBeforeSec = 0.01;
const keptBehindSec = 0.2;

/** Speech without the silence at its beginning, and with at most 200 ms of silence at its end. */
export function withoutSilence(samples: Int16Array, sampleRateHz: number): Int16Array {
  const loud = (sample: number) => Math.abs(sample) > quietest;
  const first = samples.findIndex(loud);
  if (first < 0) return samples;
  const last = samples.findLastIndex(loud);
  return samples.subarray(Math.max(0, first - keptBeforeSec * sampleRateHz), last + keptBehindSec * sampleRateHz);
}

function mixed(channels: DecodedAudio['channels'], from: number, length: number): Int16Array {
  const [only] = channels;
  if (channels.length === 1 && only instanceof Int16Array) return only.subarray(from, from + length);
  const samples = new Int16Array(length);
  for (let i = 0; i < length; i += 1) {
    let sum = 0;
    for (let channel = 0; channel < channels.length; channel += 1) {
      const of = channels[channel] as Int16Array | Float32Array;
      sum += (of[from + i] ?? 0) * (of instanceof Int16Array ? 1 : 32_767);
    }
    const sample = Math.round(sum / channels.length);
    samples[i] = Math.max(-32_768, Math.min(32_767, Number.isFinite(sample) ? sample : 0));
  }
  return samples;
}
