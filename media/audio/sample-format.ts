/**
 * Memory format of a phone's audio between RTP packets and everything that reads or writes it. G.711 stays as received bytes; wideband
 * codecs use linear 16 bit samples in the machine's byte order. Times on such a stream, called a line, are in ticks of an eighth of a
 * millisecond for all codecs: timestamps, gaps, positions in a recording.
 */
import type { PhoneCodec } from '../engine.js';
import {
  alawToLinear,
  alawToUlaw,
  linearToAlaw,
  linearToUlaw,
  mapBytes,
  silenceByte,
  ulawToAlaw,
  ulawToLinear,
} from './codec/g711.js';
import { createResampler } from './dsp/resample.js';
import { Reused } from './scratch-buffer.js';

export const ticksPerMs = 8;

export interface SampleFormat {
  sampleRateHz: number;
  bytesPerMs: number;
  /** The name in the agents' audio formats. */
  encoding: 'ulaw' | 'alaw' | 'l16';
  /** Linear samples: the wideband codecs. */
  linear: boolean;
  silence: number;
}

export const lineOf: Readonly<Record<PhoneCodec, SampleFormat>> = {
  PCMU: { sampleRateHz: 8000, bytesPerMs: 8, encoding: 'ulaw', linear: false, silence: silenceByte.PCMU },
  PCMA: { sampleRateHz: 8000, bytesPerMs: 8, encoding: 'alaw', linear: false, silence: silenceByte.PCMA },
  G722: { sampleRateHz: 16_000, bytesPerMs: 32, encoding: 'l16', linear: true, silence: 0 },
  // Above 12 kHz Opus only carries music. Its decoder and encoder are created for this rate.
  OPUS: { sampleRateHz: 24_000, bytesPerMs: 48, encoding: 'l16', linear: true, silence: 0 },
};

type Law = 'PCMU' | 'PCMA';
const toLinear = { PCMU: ulawToLinear, PCMA: alawToLinear };
const fromLinear = { PCMU: linearToUlaw, PCMA: linearToAlaw };

export function bytesOf(samples: Int16Array): Uint8Array {
  return new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
}

/** `bytes` is linear and begins at an even byte. */
export function samplesOf(bytes: Uint8Array): Int16Array {
  return new Int16Array(bytes.buffer, bytes.byteOffset, bytes.length >> 1);
}

/** A line's bytes as samples at its rate: the same memory when it is linear, else written into `into`. */
export function readLine(bytes: Uint8Array, codec: PhoneCodec, into: Reused<Int16Array>): Int16Array {
  if (lineOf[codec].linear) return samplesOf(bytes);
  const linear = toLinear[codec as Law];
  const samples = into.ofLength(bytes.length);
  for (let i = 0; i < bytes.length; i++) samples[i] = linear[bytes[i]!]!;
  return samples;
}

/** Samples at a line's rate as its bytes, in new memory. */
export function writeLine(samples: Int16Array, codec: PhoneCodec): Uint8Array {
  if (lineOf[codec].linear) return bytesOf(samples.slice());
  const bytes = new Uint8Array(samples.length);
  const table = fromLinear[codec as Law];
  for (let i = 0; i < samples.length; i++) bytes[i] = table[samples[i]! & 0xffff]!;
  return bytes;
}

/** Converts a stream from one codec's line to another's. The result is new memory. */
export function changeLine(from: PhoneCodec, to: PhoneCodec): (bytes: Uint8Array) => Uint8Array {
  if (from === to) return (bytes) => bytes.slice();
  if (lineOf[from].linear || lineOf[to].linear) {
    const resampler = createResampler(lineOf[from].sampleRateHz, lineOf[to].sampleRateHz);
    const samples = new Reused(Int16Array);
    return (bytes) => writeLine(resampler.process(readLine(bytes, from, samples)), to);
  }
  const table = from === 'PCMU' ? ulawToAlaw : alawToUlaw;
  return (bytes) => {
    const mapped = new Uint8Array(bytes.length);
    mapBytes(bytes, table, mapped);
    return mapped;
  };
}

/** Converts 8 kHz audio in μ-law to the line of any codec but A-law. */
export class WideCopy {
  private to: PhoneCodec = 'PCMU';
  private change: (bytes: Uint8Array) => Uint8Array = (bytes) => bytes;
  private readonly law = new Reused(Uint8Array);

  /** Fills `into` from `at` on; `take` fills its buffer with μ-law and returns the number of bytes. Returns the number of bytes on the line. */
  take(into: Uint8Array, at: number, length: number, codec: PhoneCodec, take: (law: Uint8Array) => number): number {
    if (codec !== this.to) {
      this.to = codec;
      this.change = changeLine('PCMU', codec);
    }
    const law = this.law.ofLength((length * ticksPerMs) / lineOf[codec].bytesPerMs);
    const taken = take(law);
    const line = this.change(law.subarray(0, taken));
    into.set(line, at);
    return line.length;
  }
}

/** Converts a line to G.711, for the detectors of keys, fax tones and answering machines. */
export class NarrowCopy {
  private from: PhoneCodec | null = null;
  private change: (bytes: Uint8Array) => Uint8Array = (bytes) => bytes;

  of(bytes: Uint8Array, codec: PhoneCodec): Uint8Array {
    if (!lineOf[codec].linear) return bytes;
    if (codec !== this.from) {
      this.from = codec;
      this.change = changeLine(codec, 'PCMU');
    }
    return this.change(bytes);
  }

  /** The G.711 law of a copy. */
  static lawOf(codec: PhoneCodec): Law {
    return codec === 'PCMA' ? 'PCMA' : 'PCMU';
  }
}
