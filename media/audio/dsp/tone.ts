/** Sine tones, for tests, the carrier simulator and beeps. */

export interface Tone {
  frequencyHz: number;
  durationMs: number;
  /** Peak, 0–32767. */
  amplitude?: number;
  sampleRateHz?: number;
}

export function tone({ frequencyHz, durationMs, amplitude = 8000, sampleRateHz = 8000 }: Tone): Int16Array {
  const samples = new Int16Array(Math.round((durationMs / 1000) * sampleRateHz));
  const step = (2 * Math.PI * frequencyHz) / sampleRateHz;
  for (let i = 0; i < samples.length; i++) samples[i] = Math.round(amplitude * Math.sin(i * step));
  return samples;
}
