/**
 * A short sound that can be recognized after codecs and losses: a chirp through the telephone band. Its round trip is that of the audio,
 * through every buffer on the way.
 */

export const sampleRateHz = 8000;
export const markerMs = 60;
const amplitude = 12_000;
const softSamples = 40;
const [lowHz, highHz] = [500, 3000];
/** A correlation of 1 is the marker itself; other sounds stay below 0.4. */
const leastLikeness = 0.55;
/** The search stops at this correlation. */
const certainLikeness = 0.9;
/** Audio below this level per sample counts as line noise. */
const leastPower = 30 ** 2;

/** Rising and falling chirps alternate, so that a delay of up to nearly two intervals is unambiguous. */
export const markers: readonly [Int16Array, Int16Array] = [chirp(lowHz, highHz), chirp(highHz, lowHz)];

export interface FoundMarker {
  /** Index of its first sample. */
  at: number;
  /** Correlation, 0 to 1. */
  likeness: number;
}

/** Searches for a marker that begins in `samples[from..to)`; null: there is none. */
export function findMarker(marker: Int16Array, samples: Int16Array, from: number, to: number): FoundMarker | null {
  const length = marker.length;
  const last = Math.min(to, samples.length - length + 1);
  const markerNorm = Math.sqrt(energy(marker, 0, length));
  let running = from < last ? energy(samples, from, length) : 0;
  let best: FoundMarker | null = null;
  for (let at = from; at < last; at++) {
    if (best !== null && best.likeness > certainLikeness && at > best.at + length) break;
    if (running > leastPower * length) {
      let product = 0;
      for (let i = 0; i < length; i++) product += marker[i]! * samples[at + i]!;
      const likeness = product / (markerNorm * Math.sqrt(running));
      if (likeness > (best?.likeness ?? leastLikeness)) best = { at, likeness };
    }
    running += (samples[at + length] ?? 0) ** 2 - samples[at]! ** 2;
  }
  return best;
}

function energy(samples: Int16Array, from: number, length: number): number {
  let sum = 0;
  for (let i = from; i < from + length; i++) sum += samples[i]! ** 2;
  return sum;
}

/** A linear sweep with constant level and soft ends: a lost packet removes only its share of the energy. */
function chirp(fromHz: number, toHz: number): Int16Array {
  const samples = new Int16Array((markerMs / 1000) * sampleRateHz);
  const seconds = markerMs / 1000;
  for (let i = 0; i < samples.length; i++) {
    const t = i / sampleRateHz;
    const phase = 2 * Math.PI * (fromHz * t + ((toHz - fromHz) * t * t) / (2 * seconds));
    const fromEnd = Math.min(i, samples.length - 1 - i) / softSamples;
    const window = fromEnd < 1 ? 0.5 - 0.5 * Math.cos(Math.PI * fromEnd) : 1;
    samples[i] = Math.round(amplitude * window * Math.sin(phase));
  }
  return samples;
}
