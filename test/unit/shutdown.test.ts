import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Shutdown } from '../../src/shutdown.js';

let steps: string[];
let callsEnd: () => void;
let shutdown: Shutdown;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  steps = [];
  shutdown = new Shutdown({
    refuseCalls: () => void steps.push('refuse'),
    drain: (hangUp) =>
      new Promise((resolve) => {
        steps.push('drain');
        callsEnd = resolve;
        hangUp.addEventListener('abort', () => {
          steps.push('hang up');
          resolve();
        });
      }),
    closeAll: async () => void steps.push('close'),
  });
});
afterEach(() => {
  vi.useRealTimers();
});

it('begins when it is asked for: new calls are refused while the live ones go on', async () => {
  expect(shutdown.isDraining).toBe(false);
  void shutdown.stop(5000);
  await vi.advanceTimersByTimeAsync(4999);
  expect(shutdown.isDraining).toBe(true);
  expect(steps).toEqual(['refuse', 'drain']);
});

it('closes everything as soon as the last call has ended, and leaves no timer', async () => {
  const stopped = shutdown.stop(5000);
  await vi.advanceTimersByTimeAsync(10);
  callsEnd();
  await stopped;
  await shutdown.stopped;
  expect(steps).toEqual(['refuse', 'drain', 'close']);
  expect(vi.getTimerCount()).toBe(0);
});

it('hangs up what is left after the grace period', async () => {
  const stopped = shutdown.stop(5000);
  await vi.advanceTimersByTimeAsync(5000);
  await stopped;
  expect(steps).toEqual(['refuse', 'drain', 'hang up', 'close']);
});

it('a second request shortens the grace period', async () => {
  void shutdown.stop(60_000);
  await vi.advanceTimersByTimeAsync(1000);
  const stopped = shutdown.stop(100);
  await vi.advanceTimersByTimeAsync(100);
  await stopped;
  expect(steps).toEqual(['refuse', 'drain', 'hang up', 'close']);
});

it('a second request does not extend the grace period', async () => {
  void shutdown.stop(1000);
  const stopped = shutdown.stop(60_000);
  await vi.advanceTimersByTimeAsync(1000);
  await stopped;
  expect(steps).toEqual(['refuse', 'drain', 'hang up', 'close']);
});
