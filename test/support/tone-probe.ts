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

/**
 * Tenths of a second, those with the purest tone first. A machine that stands still leaves holes in a call of real time: a test that looks for
 * a tone asks for some pure tenths, never for a fixed second.
 */
export function purestTenths(samples: Int16Array, frequencyHz: number, sampleRateHz = 8000): Probe[] {
  const length = sampleRateHz / 10;
  return Array.from({ length: Math.floor(samples.length / length) }, (_, index) =>
    probeTone(samples.subarray(index * length, (index + 1) * length), frequencyHz, sampleRateHz),
  ).sort((a, b) => b.purityDb - a.purityDb);
}

/** How much of this tone is in a piece of audio, by tenths of a second that are nothing but it. */
export function millisecondsOfTone(samples: Int16Array, frequencyHz: number, sampleRateHz = 8000): number {
  return 100 * purestTenths(samples, frequencyHz, sampleRateHz).filter(({ purityDb }) => purityDb > 20).length;
}
