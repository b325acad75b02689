import { describe, expect, it } from 'vitest';
import { tone } from '../../media/audio/dsp/tone.js';
import { type Utterance, Utterances, utteranceHz } from '../../src/transcription/utterances.js';

/** Milliseconds of a tone (above 0) and of silence (below 0), one after the other. */
function audioOf(...parts: number[]): Int16Array {
  return Int16Array.from(
    parts.flatMap((ms) =>
      ms > 0
        ? [...tone({ frequencyHz: 500, durationMs: ms, sampleRateHz: utteranceHz })]
        : Array<number>(-ms * 16).fill(0),
    ),
  );
}

function utterancesOf(samples: Int16Array, chunkMs = 500, startMs = 0): Utterance[] {
  const said: Utterance[] = [];
  const side = new Utterances((utterance) => said.push(utterance));
  const step = chunkMs * 16;
  for (let at = 0; at < samples.length; at += step) side.hear(samples.slice(at, at + step), startMs + at / 16);
  side.flush();
  return said;
}

/** Start and duration, to the next 20 ms. */
const times = (said: Utterance[]) =>
  said.map(({ startMs, durationMs }) => [Math.round(startMs / 20) * 20, Math.round(durationMs / 20) * 20]);

describe('utterances', () => {
  it.each([
    ['nothing', [-5000], []],
    ['one, with silence around it', [-1000, 1000, -2000], [[800, 1400]]],
    ['one from the beginning on', [1000, -2000], [[0, 1200]]],
    [
      'two, where the pause is long enough',
      [-500, 1000, -900, 600, -2000],
      [
        [300, 1400],
        [2200, 1000],
      ],
    ],
    ['one, where the pause is short', [-500, 1000, -500, 600, -2000], [[300, 2500]]],
    ['one that the end of the call breaks off', [-500, 900], [[300, 1100]]],
    ['one that ends just before the end of the call', [-500, 900, -100], [[300, 1200]]],
    ['none for a click', [-500, 60, -2000], []],
  ])('%s', (_name, parts, expected) => {
    for (const chunkMs of [20, 500, 1000])
      expect(times(utterancesOf(audioOf(...parts), chunkMs)), `chunks of ${chunkMs} ms`).toEqual(
        expected.map(([start = 0, duration = 0]) => [start, duration]),
      );
  });

  it('have the samples of their time', () => {
    const [said] = utterancesOf(audioOf(-1000, 1000, -2000));
    const { samples } = said as Utterance;
    expect([...samples.subarray(0, 198 * 16)].every((sample) => sample === 0)).toBe(true);
    expect(samples.findLastIndex((sample) => Math.abs(sample) > 4000) / 16).toBeCloseTo(1200, -1);
  });

  it('end at any pause after 12 s, and at 20 s without one; nothing is lost between them', () => {
    const withPause = utterancesOf(audioOf(-500, 9000, -400, 4000, -400, 3000, -2000));
    expect(withPause.map(({ durationMs }) => Math.round(durationMs / 1000))).toEqual([14, 3]);
    const without = utterancesOf(audioOf(-500, 30_000, -2000));
    expect(without.map(({ durationMs }) => Math.round(durationMs / 1000))).toEqual([20, 10]);
    const [first, second] = without as [Utterance, Utterance];
    expect(second.startMs).toBeLessThanOrEqual(first.startMs + first.durationMs);
  });

  it('end where audio is missing', () => {
    const said: Utterance[] = [];
    const side = new Utterances((utterance) => said.push(utterance));
    side.hear(audioOf(1000), 0);
    side.hear(audioOf(1000), 11_000);
    side.flush();
    expect(times(said)).toEqual([
      [0, 1000],
      [11_000, 1000],
    ]);
  });
});
