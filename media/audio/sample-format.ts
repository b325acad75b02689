/**
 * Memory format of a phone's audio between RTP packets and everything that reads or writes it. G.711 stays as received bytes; wideband
 * codecs use linear 16 bit samples in the machine's byte order. Times on such a stream are in ticks of an eighth of a millisecond for all
 * codecs: timestamps, gaps, positions in a recording.
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
import { ScratchBuffer } from './scratch-buffer.js';

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

export const sampleFormatOf: Readonly<Record<PhoneCodec, SampleFormat>> = {
  PCMU: { sampleRateHz: 8000, bytesPerMs: 8, encoding: 'ulaw', linear: false, silence: silenceByte.PCMU },
  PCMA: { sampleRateHz: 8000, bytesPerMs: 8, encoding: 'alaw', linear: false, silence: silenceByte.PCMA },
  G722: { sampleRateHz: 16_000, bytesPerMs: 32, encoding: 'l16', linear: true, silence: 0 },
  // Above 12 kHz Opus only carries music. Its decoder and encoder are created for this rate.
  OPUS: { sampleRateHz: 24_000, bytesPerMs: 48, encoding: 'l16', linear: true, silence: 0 },
};

type Law = 'PCMU' | 'PCMA';
const toLinear = { PCMU: ulawToLinear, PCMA: alawToLinear };
const fromLinear = { PCMU: linearToUlaw, PCMA: linearToAlaw };

/** The linear samples of G.711's bytes, by their value; null: samples of the codec are linear already. */
export function linearOf(codec: PhoneCodec): Int16Array | null {
  return codec === 'PCMU' || codec === 'PCMA' ? toLinear[codec] : null;
}

export function bytesOf(samples: Int16Array): Uint8Array {
  return new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
}

/** `bytes` is linear and begins at an even byte. */
export function samplesOf(bytes: Uint8Array): Int16Array {
  return new Int16Array(bytes.buffer, bytes.byteOffset, bytes.length >> 1);
}

/** Linear samples of these bytes: the same memory when they are linear, else written into `into`. */
export function readSamples(bytes: Uint8Array, codec: PhoneCodec, into: ScratchBuffer<Int16Array>): Int16Array {
  if (sampleFormatOf[codec].linear) return samplesOf(bytes);
  const linear = toLinear[codec as Law];
  const samples = into.ofLength(bytes.length);
  for (let i = 0; i < bytes.length; i++) samples[i] = linear[bytes[i]!]!;
  return samples;
}

/** Linear samples as bytes of the codec's format, in new memory. */
export function writeSamples(samples: Int16Array, codec: PhoneCodec): Uint8Array {
  if (sampleFormatOf[codec].linear) return bytesOf(samples.slice());
  const bytes = new Uint8Array(samples.length);
  const table = fromLinear[codec as Law];
  for (let i = 0; i < samples.length; i++) bytes[i] = table[samples[i]! & 0xffff]!;
  return bytes;
}

/** Converts a stream from one codec's sample format to another's. The result is new memory. */
export function sampleConverter(from: PhoneCodec, to: PhoneCodec): (bytes: Uint8Array) => Uint8Array {
  if (from === to) return (bytes) => bytes.slice();
  if (sampleFormatOf[from].linear || sampleFormatOf[to].linear) {
    const resampler = createResampler(sampleFormatOf[from].sampleRateHz, sampleFormatOf[to].sampleRateHz);
    const samples = new ScratchBuffer(Int16Array);
    return (bytes) => writeSamples(resampler.process(readSamples(bytes, from, samples)), to);
  }
  const table = from === 'PCMU' ? ulawToAlaw : alawToUlaw;
  return (bytes) => {
    const mapped = new Uint8Array(bytes.length);
    mapBytes(bytes, table, mapped);
    return mapped;
  };
}

/** Converts audio in the sample format of one codec, μ-law by default, to that of any other codec. */
export class FormatConverter {
  private to: PhoneCodec;
  private change: (bytes: Uint8Array) => Uint8Array = (bytes) => bytes;
  private readonly source = new ScratchBuffer(Uint8Array);

  constructor(private readonly from: PhoneCodec = 'PCMU') {
    this.to = from;
  }

  /** Fills `into` from `at` on; `take` fills its buffer with the source and returns the number of bytes. Returns the number of bytes in `into`. */
  take(into: Uint8Array, at: number, length: number, codec: PhoneCodec, take: (source: Uint8Array) => number): number {
    if (codec !== this.to) {
      this.to = codec;
      this.change = sampleConverter(this.from, codec);
    }
    const source = this.source.ofLength(
      (length * sampleFormatOf[this.from].bytesPerMs) / sampleFormatOf[codec].bytesPerMs,
    );
    const taken = take(source);
    const converted = this.change(source.subarray(0, taken));
    into.set(converted, at);
    return converted.length;
  }
}

/** Converts a phone's audio to G.711, for the detectors of keys, fax tones and answering machines. */
export class G711Converter {
  private from: PhoneCodec | null = null;
  private change: (bytes: Uint8Array) => Uint8Array = (bytes) => bytes;

  of(bytes: Uint8Array, codec: PhoneCodec): Uint8Array {
    if (!sampleFormatOf[codec].linear) return bytes;
    if (codec !== this.from) {
      this.from = codec;
      this.change = sampleConverter(codec, 'PCMU');
    }
    return this.change(bytes);
  }

  /** The G.711 law of the result. */
  static lawOf(codec: PhoneCodec): Law {
    return codec === 'PCMA' ? 'PCMA' : 'PCMU';
  }
}
