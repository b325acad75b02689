/** How a tone came across, as a phone recorded it. */
import { readWav } from '../../media/audio/wav.js';
import { purestTenths } from './tone-probe.js';

export interface HeardTone {
  /** Of what was said, in dB. */
  levelDb: number;
  purityDb: number;
}

/** Of the five purest tenths of a second: packets that a busy machine lost or delayed do not count. */
export function heardTone(recording: Uint8Array, frequencyHz: number, amplitude: number): HeardTone {
  const { sampleRateHz, channels } = readWav(recording);
  const purest = purestTenths(channels[0]!, frequencyHz, sampleRateHz).slice(0, 5);
  const median = (values: number[]) => values.sort((a, b) => a - b)[2]!;
  const levelDb = 20 * Math.log10(median(purest.map((probe) => probe.amplitude)) / amplitude);
  return { levelDb, purityDb: median(purest.map((probe) => probe.purityDb)) };
}
