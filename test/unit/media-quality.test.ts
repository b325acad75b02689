import { describe, expect, it } from 'vitest';
import { burstRatio, meanOpinionScore, transmissionRating } from '../../media/quality.js';

const clean = { lossPercent: 0, burstRatio: 1, delayMs: 0 };

describe('the E-model', () => {
  it.each([
    [0, 4.41],
    [20, 4.4],
    [100, 4.36],
    [177.3, 4.31],
  ])('a clean line of %s ms has %s', (delayMs, score) => {
    expect(Math.round(meanOpinionScore({ ...clean, delayMs }) * 100) / 100).toBe(score);
  });

  it('is R0 for a clean line and bends at 177.3 ms', () => {
    expect(transmissionRating(clean)).toBeCloseTo(93.2, 10);
    const slope = (from: number) =>
      transmissionRating({ ...clean, delayMs: from }) - transmissionRating({ ...clean, delayMs: from + 1 });
    expect(slope(100)).toBeCloseTo(0.024, 6);
    expect(slope(200)).toBeCloseTo(0.134, 6);
  });

  it('takes 95 * Ppl / (Ppl / BurstR + 25.1) off for loss', () => {
    expect(transmissionRating({ ...clean, lossPercent: 5 })).toBeCloseTo(93.2 - 475 / 30.1, 10);
    expect(transmissionRating({ ...clean, lossPercent: 5, burstRatio: 2 })).toBeCloseTo(93.2 - 475 / 27.6, 10);
  });

  it('only falls with more loss and stays within 1 and 4.5', () => {
    let before = 4.5;
    for (let lossPercent = 0; lossPercent <= 100; lossPercent++) {
      const score = meanOpinionScore({ lossPercent, burstRatio: 1, delayMs: 150 });
      expect(score).toBeLessThanOrEqual(before);
      expect(score).toBeGreaterThanOrEqual(1);
      before = score;
    }
    expect(meanOpinionScore({ lossPercent: 100, burstRatio: 5, delayMs: 2000 })).toBe(1);
  });

  it('calls single losses random and runs bursts', () => {
    expect(burstRatio(0, 0, 100)).toBe(1);
    expect(burstRatio(10, 10, 100)).toBe(1);
    expect(burstRatio(10, 2, 100)).toBeCloseTo(4.5, 10);
  });
});
