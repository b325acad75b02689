/** Loudness of G.711 frames straight from the bytes: one table look-up per sample. */
import { alawToLinear, ulawToLinear } from './g711.js';

type Law = 'PCMU' | 'PCMA';

const energies = { PCMU: energyTable(ulawToLinear), PCMA: energyTable(alawToLinear) };
/** About -50 dBm0: breath and line noise. */
const quietMeanSquare = 100 * 100;

function energyTable(linear: Int16Array): Float32Array {
  return Float32Array.from(linear, (sample) => sample * sample);
}

/** Mean square of the samples; 0 for no bytes. */
export function meanSquare(bytes: Uint8Array, law: Law, from = 0, to = bytes.length): number {
  const table = energies[law];
  let sum = 0;
  for (let i = from; i < to; i++) sum += table[bytes[i]!]!;
  return to > from ? sum / (to - from) : 0;
}

export function isQuiet(bytes: Uint8Array, law: Law, from = 0, to = bytes.length): boolean {
  return meanSquare(bytes, law, from, to) < quietMeanSquare;
}
