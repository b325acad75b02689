/** Conversion between a phone's line and an agent's audio format. Where both are the same, bytes pass unchanged. */
import { endianness } from 'node:os';
import type { AudioFormat } from '../../agents/agent.js';
import type { PhoneCodec } from '../../engine.js';
import { createResampler } from '../dsp/resample.js';
import { bytesOf, readSamples, sampleFormatOf } from '../sample-format.js';
import { ScratchBuffer } from '../scratch-buffer.js';
import { alawToLinear, alawToUlaw, linearToAlaw, linearToUlaw, mapBytes, ulawToAlaw, ulawToLinear } from './g711.js';

export type Transcode = (bytes: Uint8Array) => Uint8Array;

const toLinear = { ulaw: ulawToLinear, alaw: alawToLinear };
const fromLinear = { ulaw: linearToUlaw, alaw: linearToAlaw };

/** Converts the phone's audio to the agent's format. The result is reused by the next call. */
export function phoneToAgent(codec: PhoneCodec, format: AudioFormat): Transcode {
  const { sampleRateHz, encoding: law } = sampleFormatOf[codec];
  if (law !== 'l16' && format.sampleRateHz === sampleRateHz && format.encoding !== 'l16')
    return fromLawToLaw(law, format.encoding);
  const resampler = format.sampleRateHz === sampleRateHz ? null : createResampler(sampleRateHz, format.sampleRateHz);
  const decoded = new ScratchBuffer(Int16Array);
  const bytesOut = new ScratchBuffer(Uint8Array);
  return (bytes) => {
    const samples = readSamples(bytes, codec, decoded);
    const resampled = resampler ? resampler.process(samples) : samples;
    if (format.encoding !== 'l16') return encode(resampled, format.encoding, bytesOut.ofLength(resampled.length));
    return writeL16(resampled, bytesOut.ofLength(resampled.length * 2));
  };
}

/** Converts the agent's audio to the phone's codec. Whole samples; the result is reused by the next call. */
export function agentToPhone(format: AudioFormat, codec: PhoneCodec): Transcode {
  const { sampleRateHz, encoding: law } = sampleFormatOf[codec];
  if (law !== 'l16' && format.sampleRateHz === sampleRateHz && format.encoding !== 'l16')
    return fromLawToLaw(format.encoding, law);
  const resampler = format.sampleRateHz === sampleRateHz ? null : createResampler(format.sampleRateHz, sampleRateHz);
  const decode = toSamples(format);
  const encoded = new ScratchBuffer(Uint8Array);
  return (bytes) => {
    const samples = decode(bytes);
    const resampled = resampler ? resampler.process(samples) : samples;
    return law !== 'l16' ? encode(resampled, law, encoded.ofLength(resampled.length)) : bytesOf(resampled);
  };
}

/** Converts audio that an agent sends in another format than agreed. Whole samples; the result may be kept. */
export function agentToAgent(from: AudioFormat, to: AudioFormat): Transcode {
  const decode = toSamples(from);
  const resampler = from.sampleRateHz === to.sampleRateHz ? null : createResampler(from.sampleRateHz, to.sampleRateHz);
  return (bytes) => {
    const samples = decode(bytes);
    const resampled = resampler ? resampler.process(samples) : samples;
    if (to.encoding !== 'l16') return encode(resampled, to.encoding, new Uint8Array(resampled.length));
    return writeL16(resampled, new Uint8Array(resampled.length * 2));
  };
}

/** The result is reused by the next call. */
function toSamples({ encoding }: AudioFormat): (bytes: Uint8Array) => Int16Array {
  const decoded = new ScratchBuffer(Int16Array);
  return (bytes) => {
    const samples = decoded.ofLength(encoding === 'l16' ? bytes.length >> 1 : bytes.length);
    if (encoding === 'l16') readL16(bytes.subarray(0, samples.length * 2), samples);
    else for (let i = 0; i < bytes.length; i++) samples[i] = toLinear[encoding][bytes[i]!]!;
    return samples;
  };
}

const unchanged: Transcode = (bytes) => bytes;

function fromLawToLaw(from: 'ulaw' | 'alaw', to: 'ulaw' | 'alaw'): Transcode {
  if (from === to) return unchanged;
  const table = from === 'ulaw' ? ulawToAlaw : alawToUlaw;
  const reused = new ScratchBuffer(Uint8Array);
  return (bytes) => {
    const mapped = reused.ofLength(bytes.length);
    mapBytes(bytes, table, mapped);
    return mapped;
  };
}

function encode(samples: Int16Array, law: 'ulaw' | 'alaw', into: Uint8Array): Uint8Array {
  const table = fromLinear[law];
  for (let i = 0; i < samples.length; i++) into[i] = table[samples[i]! & 0xffff]!;
  return into;
}

/** L16 is little-endian: samples in memory have that order too, except on big-endian machines. */
const swapped = endianness() === 'BE';

function writeL16(samples: Int16Array, into: Uint8Array): Uint8Array {
  into.set(bytesOf(samples));
  if (swapped) Buffer.from(into.buffer, into.byteOffset, into.length).swap16();
  return into;
}

function readL16(bytes: Uint8Array, samples: Int16Array): void {
  const into = bytesOf(samples);
  into.set(bytes.length === into.length ? bytes : bytes.subarray(0, into.length));
  if (swapped) Buffer.from(into.buffer, into.byteOffset, into.length).swap16();
}
