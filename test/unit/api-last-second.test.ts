import { describe, expect, it } from 'vitest';
import { LastSecond } from '../../src/redis/last-second.js';

/** The most moments that any interval of a second holds, its end excluded. */
function densestSecond(times: readonly number[]): number {
  return Math.max(0, ...times.map((from) => times.filter((at) => at >= from && at < from + 1_000).length));
}

/** Numbers from 0 to 1 that are the same in every run. */
function* numbers(seed: number): Generator<number, never> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state / 2 ** 32;
  }
}

describe('the last second', () => {
  it('lets no more than the limit through across the edge of a second', () => {
    const second = new LastSecond(10);
    const through = (nowMs: number) => Array.from({ length: 20 }, () => second.add(nowMs, 10)).filter(Boolean).length;
    expect(through(950)).toBe(10);
    expect(through(1_000)).toBe(0);
    expect(through(1_949.9)).toBe(0);
    expect(through(1_950)).toBe(10);
  });

  it.each([1, 2, 7, 50])('lets at most %i through in any second, and refuses none that fits', (limit) => {
    const second = new LastSecond(limit);
    const random = numbers(limit);
    const through: number[] = [];
    let nowMs = 0;
    for (let i = 0; i < 3_000; i += 1) {
      // Bursts, pauses and a steady stream.
      nowMs += random.next().value < 0.98 ? random.next().value * 5 : random.next().value * 400;
      const young = through.filter((at) => nowMs - at < 1_000).length;
      const isThrough = second.add(nowMs, limit);
      expect(isThrough).toBe(young < limit);
      if (isThrough) through.push(nowMs);
      expect(second.used(nowMs)).toBe(young + (isThrough ? 1 : 0));
    }
    expect(densestSecond(through)).toBe(limit);
  });

  it('says when one more may come', () => {
    const second = new LastSecond(2);
    expect(second.untilOneLeavesMs(0)).toBe(0);
    second.add(100, 2);
    second.add(400, 2);
    expect(second.untilOneLeavesMs(600)).toBe(500);
    expect(second.add(1_099, 2)).toBe(false);
    expect(second.add(1_100, 2)).toBe(true);
    expect(second.untilOneLeavesMs(1_100)).toBe(300);
  });

  it('goes on with another limit from where it was', () => {
    const second = new LastSecond(4);
    for (const at of [0, 10, 20, 30]) second.add(at, 4);
    expect(second.add(40, 5)).toBe(true);
    expect(second.add(50, 2)).toBe(false);
    expect(second.add(1_029, 2)).toBe(false); // 30 and 40 stay
    expect(second.add(1_030, 2)).toBe(true);
  });
});
