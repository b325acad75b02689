import { expect, it } from 'vitest';
import { correlations } from '../../media/audio/dsp/correlation.js';

it.each([
  [1, 5, 1],
  [2, -12, 1],
  [4, 7, 2],
  [1, -9, 3],
])('correlates every %i. sample at four distances from %i on, %i apart', (step, distance, spacing) => {
  const signal = Float64Array.from({ length: 120 }, (_, i) => Math.round(1000 * Math.sin(i * i * 0.07)));
  const found = [...correlations(signal, 20, 84, step, distance, spacing)];
  const expected = [0, 1, 2, 3].map((n) => {
    let sum = 0;
    for (let i = 20; i < 84; i += step) sum += signal[i]! * signal[i + distance + n * spacing]!;
    return sum;
  });
  expect(found).toEqual(expected);
});
