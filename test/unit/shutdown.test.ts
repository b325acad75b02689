import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Shutdown } from '../../src/shutdown.js';

let steps: string[];
let callsEnd: () => void;
let shutdown: Shutdown;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  steps = [];
  begin(0);
});
afterEach(() => {
  vi.useRealTimers();
});

function begin(noticeMs: number): void {
  const parts = {
    announce: () => void steps.push('announce'),
    refuseCalls: () => void steps.push('refuse'),
    drain: (hangUp: AbortSignal) =>
      new Promise<void>((resolve) => {
        steps.push('drain');
        callsEnd = resolve;
        hangUp.addEventListener('abort', () => {
          steps.push('hang up');
          resolve();
        });
      }),
    closeAll: async () => void steps.push('close'),
  } satisfies ConstructorParameters<typeof Shutdown>[0];
  shutdown = new Shutdown(parts, noticeMs);
}

it('begins when it is asked for: new calls are refused while the live ones go on', async () => {
  expect(shutdown.isDraining).toBe(false);
  void shutdown.stop(5000);
  await vi.advanceTimersByTimeAsync(4999);
  expect(shutdown.isDraining).toBe(true);
  expect(steps).toEqual(['announce', 'refuse', 'drain']);
});

it('closes everything as soon as the last call has ended, and leaves no timer', async () => {
  const stopped = shutdown.stop(5000);
  await vi.advanceTimersByTimeAsync(10);
  callsEnd();
  await stopped;
  await shutdown.stopped;
  expect(steps).toEqual(['announce', 'refuse', 'drain', 'close']);
  expect(vi.getTimerCount()).toBe(0);
});

it('hangs up what is left after the grace period', async () => {
  const stopped = shutdown.stop(5000);
  await vi.advanceTimersByTimeAsync(5000);
  await stopped;
  expect(steps).toEqual(['announce', 'refuse', 'drain', 'hang up', 'close']);
});

it('a second request shortens the grace period', async () => {
  void shutdown.stop(60_000);
  await vi.advanceTimersByTimeAsync(1000);
  const stopped = shutdown.stop(100);
  await vi.advanceTimersByTimeAsync(100);
  await stopped;
  expect(steps).toEqual(['announce', 'refuse', 'drain', 'hang up', 'close']);
});

it('a second request does not extend the grace period', async () => {
  void shutdown.stop(1000);
  const stopped = shutdown.stop(60_000);
  await vi.advanceTimersByTimeAsync(1000);
  await stopped;
  expect(steps).toEqual(['announce', 'refuse', 'drain', 'hang up', 'close']);
});

describe('a notice', () => {
  it('comes before new calls are refused', async () => {
    begin(3000);
    void shutdown.stop(60_000);
    await vi.advanceTimersByTimeAsync(2999);
    expect(steps).toEqual(['announce']);
    expect(shutdown.isDraining).toBe(true);
    await vi.advanceTimersByTimeAsync(1);
    expect(steps).toEqual(['announce', 'refuse', 'drain']);
  });

  it('is cut short by a second request', async () => {
    begin(3000);
    void shutdown.stop(60_000);
    await vi.advanceTimersByTimeAsync(100);
    const stopped = shutdown.stop(0);
    await vi.advanceTimersByTimeAsync(0);
    await stopped;
    expect(steps.slice(0, 2)).toEqual(['announce', 'refuse']);
    expect(steps.at(-1)).toBe('close');
    expect(vi.getTimerCount()).toBe(0);
  });
});
