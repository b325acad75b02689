import type { DecodedAudio } from './clip.js';

/** Where speech lies: the power of its active frames against full scale, as in ITU-T P.56. Voices come with -13 to -27 dB. */
export const spokenLevelDb = -20;
/** No sample goes above this, however loud the rest should be. */
const highestPeak = 10 ** (-1 / 20);
const frameSec = 0.02;
/** Frames this far below the loudest are pauses. */
const pauseRatio = 10 ** (-25 / 10);

/** The level of its active frames in dB against full scale; -Infinity: silence. Looks at the first channel. */
export function activeLevelDb({ channelData, sampleRate }: DecodedAudio): number {
  const samples = channelData[0] ?? new Float32Array();
  const length = Math.max(1, Math.round(frameSec * sampleRate));
  const powers: number[] = [];
  for (let from = 0; from < samples.length; from += length) {
    let energy = 0;
    const to = Math.min(samples.length, from + length);
    for (let at = from; at < to; at += 1) energy += (samples[at] ?? 0) ** 2;
    powers.push(energy / length);
  }
  const loudest = powers.reduce((most, power) => Math.max(most, power), 0);
  if (loudest === 0) return Number.NEGATIVE_INFINITY;
  const active = powers.filter((power) => power >= loudest * pauseRatio);
  return 10 * Math.log10(active.reduce((sum, power) => sum + power, 0) / active.length);
}

/** Speech at `spokenLevelDb`, in place: one gain for all of it, less where its peak would be cut. Silence stays silence. */
export function levelSpeech(audio: DecodedAudio): DecodedAudio {
  const levelDb = activeLevelDb(audio);
  if (!Number.isFinite(levelDb)) return audio;
  let peak = 0;
  for (const channel of audio.channelData) for (const sample of channel) peak = Math.max(peak, Math.abs(sample));
  const gain = Math.min(10 ** ((spokenLevelDb - levelDb) / 20), highestPeak / peak);
  for (const channel of audio.channelData)
    for (let at = 0; at < channel.length; at += 1) channel[at] = (channel[at] ?? 0) * gain;
  return audio;
}
