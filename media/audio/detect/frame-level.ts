/** Loudness of frames, computed from the line's bytes: with G.711 one table look-up per sample. */
import type { PhoneCodec } from '../../engine.js';
import { alawToLinear, ulawToLinear } from '../codec/g711.js';
import { sampleFormatOf, samplesOf } from '../sample-format.js';

const energies = { PCMU: energyTable(ulawToLinear), PCMA: energyTable(alawToLinear) };
/** About -50 dBm0: breath and line noise. */
const quietMeanSquare = 100 * 100;

function energyTable(linear: Int16Array): Float32Array {
  return Float32Array.from(linear, (sample) => sample * sample);
}

/** Mean square of the samples; 0 for no bytes. */
export function meanSquare(bytes: Uint8Array, codec: PhoneCodec, from = 0, to = bytes.length): number {
  if (sampleFormatOf[codec].linear) return meanSquareOf(samplesOf(bytes), from >> 1, to >> 1);
  const table = energies[codec as keyof typeof energies];
  let sum = 0;
  for (let i = from; i < to; i++) sum += table[bytes[i]!]!;
  return to > from ? sum / (to - from) : 0;
}

export function isQuiet(bytes: Uint8Array, codec: PhoneCodec, from = 0, to = bytes.length): boolean {
  if (sampleFormatOf[codec].linear) return meanSquare(bytes, codec, from, to) < quietMeanSquare;
  const table = energies[codec as keyof typeof energies];
  let left = quietMeanSquare * (to - from);
  if (left === 0) return true;
  // A loud frame is known after a few samples.
  for (let i = from; i < to && left > 0; i++) left -= table[bytes[i]!]!;
  return left > 0;
}

function meanSquareOf(samples: Int16Array, from: number, to: number): number {
  let sum = 0;
  for (let i = from; i < to; i++) sum += samples[i]! * samples[i]!;
  return to > from ? sum / (to - from) : 0;
}
