/** The target level of speech: the power of its active frames relative to full scale, as in ITU-T P.56. Voices have -13 to -27 dB. */
export const spokenLevelDb = -20;
/** The largest sample value; the gain is reduced to stay below it. */
const highestPeak = 32_768 * 10 ** (-1 / 20);
const frameSec = 0.02;
/** Frames this far below the loudest frame count as pauses. */
const pauseRatio = 10 ** (-25 / 10);

/** The level of its active frames in dB against full scale (16 bit); -Infinity: silence. */
export function activeLevelDb(samples: Int16Array, sampleRateHz: number): number {
  const length = Math.max(1, Math.round(frameSec * sampleRateHz));
  const powers = new Float64Array(Math.ceil(samples.length / length));
  let loudest = 0;
  for (let frame = 0; frame < powers.length; frame += 1) {
    const to = Math.min(samples.length, (frame + 1) * length);
    let energy = 0;
    for (let at = frame * length; at < to; at += 1) energy += (samples[at] as number) ** 2;
    powers[frame] = energy / length / 32_768 ** 2;
    loudest = Math.max(loudest, powers[frame] as number);
  }
  if (loudest === 0) return Number.NEGATIVE_INFINITY;
  const active = powers.filter((power) => power >= loudest * pauseRatio);
  return 10 * Math.log10(active.reduce((sum, power) => sum + power, 0) / active.length);
}

/** Scales speech to `spokenLevelDb`, in place, by one gain, which is reduced if the peak would clip. Silence stays silence. */
export function levelSpeech(samples: Int16Array, sampleRateHz: number): Int16Array {
  const levelDb = activeLevelDb(samples, sampleRateHz);
  if (!Number.isFinite(levelDb)) return samples;
  let peak = 0;
  for (let at = 0; at < samples.length; at += 1) peak = Math.max(peak, Math.abs(samples[at] as number));
  const gain = Math.min(10 ** ((spokenLevelDb - levelDb) / 20), highestPeak / peak);
  for (let at = 0; at < samples.length; at += 1) samples[at] = Math.round((samples[at] as number) * gain);
  return samples;
}
