import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { foreignClock, sharedClock } from '../../sip/drachtio/wire-clock.js';

const midnight = Date.UTC(2026, 10, 22);
let atMs = 0;

/** The process has run for `startedMs` when it is this time of day. */
function itIs(time: string, startedMs = 100_000): void {
  vi.setSystemTime(new Date(`2026-11-22T${time}Z`));
  atMs = startedMs;
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: midnight });
  vi.spyOn(performance, 'now').mockImplementation(() => atMs);
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

describe('a server on our machine says when', () => {
  it.each([
    ['a moment ago', '10:00:00.250', '10:00:00.200000', 99_950],
    ['at once', '10:00:00.250', '10:00:00.250000', 100_000],
    ['before midnight', '00:00:00.100', '23:59:59.900000', 99_800],
  ])('it received a message: %s', (_what, now, said, wanted) => {
    itIs(now);
    expect(sharedClock.receivedMs(said)).toBeCloseTo(wanted, 3);
  });

  it.each([
    ['the wall clock was set back', '10:00:00.000', '10:00:05.000000'],
    ['the wall clock was set forward', '11:00:00.000', '10:00:00.000000'],
    ['it says nothing', '10:00:00.000', undefined],
    ['it says nonsense', '10:00:00.000', '10:00'],
  ])('and is not believed when %s', (_what, now, said) => {
    itIs(now);
    expect(sharedClock.receivedMs(said)).toBe(100_000);
    expect(sharedClock.sentMs(said, 99_990)).toBe(99_990);
  });

  it('it sent a message, which cannot be before we handed it over', () => {
    itIs('10:00:00.250');
    expect(sharedClock.sentMs('10:00:00.240000', 99_900)).toBeCloseTo(99_990, 3);
    expect(sharedClock.sentMs('10:00:00.100000', 99_900)).toBe(99_900);
  });
});

it('the clock of another machine is not ours', () => {
  itIs('10:00:00.250');
  expect(foreignClock.receivedMs('09:59:59.000000')).toBe(100_000);
  expect(foreignClock.sentMs('09:59:59.000000', 99_990)).toBe(99_990);
});
