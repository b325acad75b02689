/**
 * The sound that the load generator's calls carry: a soft voice, and now and then a pulse that survives μ-law, resampling and a codec. Pulses
 * take turns in sign, so that a delay of up to two intervals has one meaning. A voice and not a tone: the gateway leaves tones untouched, so a
 * delay that stands in one is not taken out of it.
 */
import { linearToUlaw, silenceByte } from '../../media/audio/codec/g711.js';

export const packetSamples = 160;
const pulseAmplitude = 24_000;
const pulseSamples = 8;
/** Middle of the packet: a filter's delay leaves it inside. */
const pulseAt = 76;
/** Where in its packet the top of a sent pulse is, in ms. */
export const pulseTopMs = (pulseAt + pulseSamples / 2) / 8;
/** Half of a pulse, far above the voice. */
const leastTop = 12_000;

/** Two seconds, then the same again. */
const voicePackets = 100;
const voiceAmplitude = 3000;
/** Lowest and highest pitch of the voice, in samples between two strokes of its cords. */
const [shortestPeriod, longestPeriod] = [60, 84];
/** Resonances of an open vowel: Hz, and ms until one has faded to a third. */
const formants: readonly (readonly [number, number])[] = [
  [700, 4],
  [1220, 3],
  [2600, 2],
];

/** A vowel whose pitch rises and falls three times in the two seconds: no period of it is quite the next one. */
function vowel(): Float64Array {
  const samples = new Float64Array(voicePackets * packetSamples);
  for (let stroke = 0; stroke < samples.length; ) {
    const swing = 0.5 + 0.5 * Math.sin((2 * Math.PI * 3 * stroke) / samples.length);
    for (let i = 0; i < 4 * longestPeriod; i++) {
      let sum = 0;
      for (const [hz, fadeMs] of formants) sum += Math.exp(-i / (8 * fadeMs)) * Math.sin((2 * Math.PI * hz * i) / 8000);
      samples[(stroke + i) % samples.length]! += sum / formants.length;
    }
    stroke += Math.round(shortestPeriod + (longestPeriod - shortestPeriod) * swing);
  }
  const loudest = samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
  return samples.map((sample) => (sample * voiceAmplitude) / loudest);
}

const voice = vowel();

function packet(index: number, sign: number): Uint8Array {
  return Uint8Array.from({ length: packetSamples }, (_, i) => {
    const into = i - pulseAt;
    const inPulse = into >= 0 && into <= pulseSamples && sign !== 0;
    const sample = inPulse
      ? sign * pulseAmplitude * Math.sin((Math.PI * into) / pulseSamples)
      : voice[index * packetSamples + i]!;
    return linearToUlaw[Math.round(sample) & 0xffff]!;
  });
}

const packetsOf = (sign: number) => Array.from({ length: voicePackets }, (_, index) => packet(index, sign));
const [plain, rising, falling] = [packetsOf(0), packetsOf(1), packetsOf(-1)];

export const silentPacket = new Uint8Array(packetSamples).fill(silenceByte.PCMU);
/** The voice's packet `count`, beginning again after two seconds. */
export const voicePacket = (count: number): Uint8Array => plain[count % voicePackets]!;
/** The same with a pulse in its middle, of kind 0 that rises or 1 that falls. */
export const pulsePacket = (count: number, kind: 0 | 1): Uint8Array =>
  (kind === 0 ? rising : falling)[count % voicePackets]!;

export interface Top {
  /** In ms from the beginning of the audio. */
  atMs: number;
  /** As in `pulsePacket`. */
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
  // With equal bytes at the top, the middle one.
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
