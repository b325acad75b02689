import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type CallFunds, watchFunds } from '../../src/call/core/funding.js';
import { Admissions } from '../../src/call/routing/admission.js';
import { StoreError } from '../../src/store/database/errors.js';
import type { Admission } from '../../src/store/journal/entries.js';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** A hold of a minute; `extend` says what each request for more gets. */
function watched(extend: (before: number) => Promise<number>) {
  const seen: [string, number][] = [];
  const startMs = performance.now();
  const at = () => Math.round((performance.now() - startMs) / 1000);
  let fundedSec = 60;
  const funds: CallFunds = {
    graceSec: 30,
    get fundedSec() {
      return fundedSec;
    },
    async extend() {
      fundedSec = await extend(fundedSec);
      return fundedSec;
    },
  };
  const stop = watchFunds(funds, {
    answeredAtMs: startMs,
    onExhausted: () => seen.push(['exhausted', at()]),
    onUnfunded: () => seen.push(['unfunded', at()]),
    onGraceOver: () => seen.push(['grace over', at()]),
    guarded: (handle) => handle,
  });
  return { seen, stop };
}
const locked = () => Promise.reject(new StoreError('unavailable', 'locked'));

describe('a hold', () => {
  it('that cannot be asked for is not an empty balance: the call goes on for the grace', async () => {
    const { seen } = watched(locked);
    await vi.advanceTimersByTimeAsync(59_000);
    expect(seen).toEqual([]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(seen).toEqual([
      ['unfunded', 60],
      ['grace over', 90],
    ]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('that is answered within the grace goes on as if nothing had happened', async () => {
    const startMs = performance.now();
    const { seen, stop } = watched((before) =>
      performance.now() - startMs < 75_000 ? locked() : Promise.resolve(before + 60),
    );
    await vi.advanceTimersByTimeAsync(110_000);
    expect(seen).toEqual([['unfunded', 60]]);
    stop();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('that is not extended because nothing is left ends with what is paid for', async () => {
    const { seen } = watched((before) => Promise.resolve(before));
    await vi.advanceTimersByTimeAsync(120_000);
    expect(seen).toEqual([['exhausted', 60]]);
  });

  it('sets no timer when its answer comes after the end of the call', async () => {
    let answer: (sec: number) => void = () => {};
    const { seen, stop } = watched(() => new Promise((resolve) => (answer = resolve)));
    await vi.advanceTimersByTimeAsync(56_000);
    stop();
    answer(120);
    await vi.advanceTimersByTimeAsync(300_000);
    expect(seen).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('the admission of a call', () => {
  const call = { organizationId: 'o', mode: 'live', direction: 'inbound', fromNumber: 'x', toNumber: 'y' } as const;
  function begun(of: { isPaid: boolean; answer: Promise<Admission> }) {
    const admissions = new Admissions(
      {
        organizations: { get: () => ({ limits: { concurrent_calls: null }, isMetered: of.isPaid }) },
        funds: {
          rateOf: () => (of.isPaid ? { microcentsPerMinute: 1, initialIncrementSec: 60, incrementSec: 60 } : null),
          held: () => null,
        },
        calls: { beginAdmitted: () => ({ id: 'c', admission: of.answer }) },
      } as unknown as ConstructorParameters<typeof Admissions>[0],
      { warn: () => {} },
    );
    const { admission } = admissions.begin({ ...call, phoneNumberId: 'n', endpointId: null });
    return { admissions, admission };
  }
  const never = new Promise<Admission>(() => {});

  it('is not waited for longer than 250 ms: the call goes on from memory, and that is counted', async () => {
    const { admissions, admission } = begun({ isPaid: false, answer: never });
    let isSettled = false;
    void admission.then(() => {
      isSettled = true;
    });
    await vi.advanceTimersByTimeAsync(249);
    expect(isSettled).toBe(false);
    await vi.advanceTimersByTimeAsync(2);
    expect(await admission).toEqual({ funds: null, refusal: null });
    expect([admissions.fromMemory, admissions.isDegraded]).toEqual([1, true]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(admissions.isDegraded).toBe(false);
  });

  it('is refused as overload after 2 s if the call has to be paid for', async () => {
    const { admissions, admission } = begun({ isPaid: true, answer: never });
    await vi.advanceTimersByTimeAsync(2_001);
    expect((await admission).refusal).toMatchObject({ cause: 'overload', source: 'system' });
    expect(admissions.fromMemory).toBe(0);
  });

  it('leaves no timer when it is answered', async () => {
    const { admission } = begun({
      isPaid: false,
      answer: Promise.resolve({ kind: 'full', concurrentCalls: 1 }),
    });
    expect((await admission).refusal).toMatchObject({ cause: 'concurrency_limit' });
    expect(vi.getTimerCount()).toBe(0);
  });
});
