import type { SpeechSpan } from './sherpa.js';

/** Audio kept around a spoken part: the detector reports the first sound late, and a model guesses badly at cut words. */
const before = 0.3;
const behind = 0.2;
/** Parts with a shorter pause between them are recognized together, as long as they fit into one window: a sentence helps its words. */
const joinedPauseSec = 0.6;
const longestWindowSec = 20;

/**
 * The windows of audio to recognize, in samples: the spoken parts with a little audio around them, joined where pauses are short. They share
 * nothing but a pause, and end within the audio. Silence of seconds is never in them: the model answers nothing for it.
 */
export function spokenWindows(parts: readonly SpeechSpan[], audioSamples: number, sampleRateHz: number): SpeechSpan[] {
  const windows: { from: number; to: number }[] = [];
  for (const { start, length } of parts) {
    const last = windows.at(-1);
    const end = start + length;
    const isNear =
      last !== undefined &&
      start - last.to <= joinedPauseSec * sampleRateHz &&
      end - last.from <= longestWindowSec * sampleRateHz;
    if (isNear) last.to = end;
    else windows.push({ from: start, to: end });
  }
  return windows.map(({ from, to }, index) => {
    const previousTo = windows[index - 1]?.to ?? 0;
    const nextFrom = windows[index + 1]?.from ?? audioSamples;
    const first = Math.max(previousTo, from - Math.round(before * sampleRateHz), 0);
    const end = Math.min(nextFrom, to + Math.round(behind * sampleRateHz), audioSamples);
    return { start: first, length: Math.max(0, end - first) };
  });
}
