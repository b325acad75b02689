/** How much of one frequency is in a piece of audio (Goertzel). */

export interface Probe {
  /** Peak amplitude of that frequency. */
  amplitude: number;
  /** Its power over that of everything else, in dB. */
  purityDb: number;
}

export function probeTone(samples: Int16Array, frequencyHz: number, sampleRateHz = 8000): Probe {
  const step = (2 * Math.PI * frequencyHz) / sampleRateHz;
  let real = 0;
  let imaginary = 0;
  let total = 0;
  for (let i = 0; i < samples.length; i++) {
    real += samples[i]! * Math.cos(i * step);
    imaginary += samples[i]! * Math.sin(i * step);
    total += samples[i]! ** 2;
  }
  const amplitude = (2 * Math.hypot(real, imaginary)) / samples.length;
  const power = (amplitude ** 2 / 2) * samples.length;
  return { amplitude, purityDb: 10 * Math.log10(power / Math.max(1, total - power)) };
}
