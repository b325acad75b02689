import { describe, expect, it } from 'vitest';
import type { Recognizer } from '../../src/transcription/offline/sherpa.js';
import { spokenText } from '../../src/transcription/offline/spoken-text.js';
import { spokenWindows } from '../../src/transcription/offline/spoken-windows.js';

/** Samples of a rate of 100 Hz: hundredths of a second. */
const windows = (parts: [start: number, length: number][], audio = 10_000) =>
  spokenWindows(
    parts.map(([start, length]) => ({ start, length })),
    audio,
    100,
  ).map(({ start, length }) => [start, start + length]);

describe('windows of audio to recognize', () => {
  it('have audio before and behind what was spoken, within the file', () => {
    expect(windows([[500, 200]])).toEqual([[470, 720]]);
    expect(windows([[10, 90]], 110)).toEqual([[0, 110]]);
    expect(windows([])).toEqual([]);
  });

  it('join parts with a short pause, and leave a long one out', () => {
    const joined = [[470, 980]];
    expect(
      windows([
        [500, 200],
        [740, 220],
      ]),
    ).toEqual(joined);
    const apart = [
      [470, 720],
      [770, 920],
    ];
    expect(
      windows([
        [500, 200],
        [800, 100],
      ]),
    ).toEqual(apart);
  });

  it('are at most 20 s long when parts are joined, and share nothing but a pause', () => {
    expect(
      windows([
        [0, 1500],
        [1510, 600],
        [2115, 300],
      ]),
    ).toEqual([
      [0, 1510],
      [1500, 2435],
    ]);
  });
});

describe('the words of audio', () => {
  const samples = new Float32Array(16_000 * 10).map((_, i) => i);
  const recognizer = (textOf: Recognizer['textOf']): Recognizer => ({
    spokenParts: () => [
      { start: 16_000, length: 32_000 },
      { start: 96_000, length: 16_000 },
    ],
    textOf,
  });

  it('are those of its windows, in order', () => {
    const at = (window: Float32Array) => `${Math.round((window[0] ?? 0) / 160) / 100}s`;
    expect(spokenText(recognizer(at), samples, () => false)).toBe('0.7s 5.7s');
  });

  it('are looked for once more, from a little later, where the model answers nothing', () => {
    const asked: number[] = [];
    const mute = (window: Float32Array) => {
      asked.push(window[0] ?? 0);
      return window[0] === 14_400 ? 'later' : '';
    };
    expect(spokenText(recognizer(mute), samples, () => false)).toBe('later');
    expect(asked).toEqual([11_200, 14_400, 91_200, 94_400]);
  });

  it('stop between two windows when nobody waits any more', () => {
    let left = 1;
    const cancelled = () => left-- <= 0;
    expect(() =>
      spokenText(
        recognizer(() => 'x'),
        samples,
        cancelled,
      ),
    ).toThrow('cancelled');
  });
});
