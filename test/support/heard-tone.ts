/** How a tone came across, as a phone recorded it. */
import { readWav } from '../../media/audio/wav.js';
import { probeTone } from './tone-probe.js';

export interface HeardTone {
  /** Of what was said, in dB. */
  levelDb: number;
  purityDb: number;
}

/** Of tenths of the second and third second, the five purest: packets that a busy machine lost or delayed do not count. */
export function heardTone(recording: Uint8Array, frequencyHz: number, amplitude: number): HeardTone {
  const { sampleRateHz, channels } = readWav(recording);
  const tenth = sampleRateHz / 10;
  const probes = Array.from({ length: 15 }, (_, index) => {
    const from = sampleRateHz + index * tenth;
    return probeTone(channels[0]!.subarray(from, from + tenth), frequencyHz, sampleRateHz);
  });
  const purest = probes.sort((a, b) => b.purityDb - a.purityDb).slice(0, 5);
  const median = (values: number[]) => values.sort((a, b) => a - b)[2]!;
  const levelDb = 20 * Math.log10(median(purest.map((probe) => probe.amplitude)) / amplitude);
  return { levelDb, purityDb: median(purest.map((probe) => probe.purityDb)) };
}
