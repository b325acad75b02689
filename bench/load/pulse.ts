/**
 * The sound that the load generator's calls carry: a soft tone, and now and then a pulse that survives μ-law, resampling and a codec. Pulses
 * take turns in sign, so that a delay of up to two intervals has one meaning.
 */
import { linearToUlaw, silenceByte } from '../../media/audio/codec/g711.js';

export const packetSamples = 160;
const toneHz = 400;
const toneAmplitude = 1500;
const pulseAmplitude = 24_000;
const pulseSamples = 8;
/** Middle of the packet: a filter's delay leaves it inside. */
const pulseAt = 76;
/** Where in its packet the top of a sent pulse is, in ms. */
export const pulseTopMs = (pulseAt + pulseSamples / 2) / 8;
/** Half of a pulse, far above the tone. */
const leastTop = 12_000;

function packet(sign: number): Uint8Array {
  return Uint8Array.from({ length: packetSamples }, (_, i) => {
    const tone = toneAmplitude * Math.sin((2 * Math.PI * toneHz * i) / 8000);
    const into = i - pulseAt;
    const inPulse = into >= 0 && into <= pulseSamples;
    const sample = inPulse && sign !== 0 ? sign * pulseAmplitude * Math.sin((Math.PI * into) / pulseSamples) : tone;
    return linearToUlaw[Math.round(sample) & 0xffff]!;
  });
}

export const plainPacket = packet(0);
export const silentPacket = new Uint8Array(packetSamples).fill(silenceByte.PCMU);
/** By sign: the one that rises, the one that falls. */
export const pulsePackets: readonly [Uint8Array, Uint8Array] = [packet(1), packet(-1)];

export interface Top {
  /** In ms from the beginning of the audio. */
  atMs: number;
  /** Index into `pulsePackets`. */
  kind: 0 | 1;
}

/** The top of a pulse in μ-law bytes, or null. Inverted bytes: a smaller low part is a louder sample. */
export function topInUlaw(bytes: Uint8Array, from: number, to: number): Top | null {
  let best = -1;
  let loudest = quietestTop;
  let last = -1;
  for (let i = from; i < to; i++) {
    const loudness = bytes[i]! & 0x7f;
    if (loudness > loudest) continue;
    if (loudness < loudest || best < 0) best = i;
    loudest = loudness;
    last = i;
  }
  if (best < 0) return null;
  // Equal bytes at the top: its middle.
  return { atMs: ((best + last) / 2 - from) / 8, kind: bytes[best]! & 0x80 ? 0 : 1 };
}

const quietestTop = linearToUlaw[leastTop]! & 0x7f;

/** The same in signed 16 bit samples. */
export function topInLinear(bytes: Uint8Array, sampleRateHz: number): Top | null {
  const samples = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let best = -1;
  let loudest = leastTop;
  for (let i = 0; i + 1 < bytes.length; i += 2) {
    const loudness = Math.abs(samples.getInt16(i, true));
    if (loudness <= loudest) continue;
    loudest = loudness;
    best = i;
  }
  if (best < 0) return null;
  return { atMs: (best / 2 / sampleRateHz) * 1000, kind: samples.getInt16(best, true) > 0 ? 0 : 1 };
}
