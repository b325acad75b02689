import { linearToUlaw, ulawToLinear } from '../../media/audio/codec/g711.js';
import { createResampler } from '../../media/audio/dsp/resample.js';

/** The output of a decoder: one array per channel, samples from -1 to 1. */
export interface DecodedAudio {
  channelData: Float32Array[];
  sampleRate: number;
}

const phoneHz = 8000;
const leastHz = 4000;
const mostHz = 192_000;
/** Resampled piece by piece, so that the working memory stays small. */
const pieceSamples = 65_536;

/** G.711 μ-law at 8 kHz in memory that all threads and calls share. All channels are mixed. Throws for audio that is empty or odd. */
export function clipOf({ channelData, sampleRate }: DecodedAudio, maxSeconds: number): SharedArrayBuffer {
  const length = channelData[0]?.length ?? 0;
  if (length === 0) throw new Error('The file contains no audio.');
  if (!Number.isInteger(sampleRate) || sampleRate < leastHz || sampleRate > mostHz)
    throw new Error(`The sample rate of ${sampleRate} Hz is not supported.`);
  const used = Math.min(length, maxSeconds * sampleRate);
  const resampler = createResampler(sampleRate, phoneHz);
  const parts: Uint8Array[] = [];
  for (let from = 0; from < used; from += pieceSamples) {
    const piece = mixed(channelData, from, Math.min(pieceSamples, used - from));
    parts.push(toUlaw(resampler.process(piece)));
  }
  // What is still in the filter.
  parts.push(toUlaw(resampler.process(new Int16Array(Math.ceil((resampler.delaySamples * sampleRate) / phoneHz)))));
  const clip = new SharedArrayBuffer(parts.reduce((sum, part) => sum + part.length, 0));
  const bytes = new Uint8Array(clip);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return clip;
}

const quietest = 256;
const keptBefore = 80;
const keptBehind = 1600;

/** Speech without the silence that voices begin with, and with 200 ms of that behind it. */
export function withoutSilence(clip: SharedArrayBuffer): SharedArrayBuffer {
  const bytes = new Uint8Array(clip);
  const loud = (code: number) => Math.abs(ulawToLinear[code] ?? 0) > quietest;
  const first = bytes.findIndex(loud);
  if (first < 0) return clip;
  const from = Math.max(0, first - keptBefore);
  const to = Math.min(bytes.length, bytes.findLastIndex(loud) + keptBehind);
  const trimmed = new SharedArrayBuffer(to - from);
  new Uint8Array(trimmed).set(bytes.subarray(from, to));
  return trimmed;
}

function mixed(channels: readonly Float32Array[], from: number, length: number): Int16Array {
  const samples = new Int16Array(length);
  for (let i = 0; i < length; i += 1) {
    let sum = 0;
    for (const channel of channels) sum += channel[from + i] ?? 0;
    const sample = Math.round((sum / channels.length) * 32_767);
    samples[i] = Math.max(-32_768, Math.min(32_767, Number.isFinite(sample) ? sample : 0));
  }
  return samples;
}

function toUlaw(samples: Int16Array): Uint8Array {
  const bytes = new Uint8Array(samples.length);
  for (let i = 0; i < samples.length; i += 1) bytes[i] = linearToUlaw[(samples[i] ?? 0) & 0xffff] ?? 0xff;
  return bytes;
}
