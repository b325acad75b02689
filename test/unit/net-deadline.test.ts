import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DeadlineError, withDeadline } from '../../net/deadline.js';
import { collectGarbage } from '../support/collect-garbage.js';

const never = () => new Promise<never>(() => {});
const heeds = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }));

describe('a deadline', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it.each([
    ['heeds its signal', heeds],
    ['ignores its signal', never],
  ])('ends work that %s, and says what was waited for', async (_, work) => {
    const waiting = withDeadline(3000, 'the answer of the speech server', null, work);
    const ended = expect(waiting).rejects.toThrow('The answer of the speech server did not come within 3 s.');
    await vi.advanceTimersByTimeAsync(3000);
    await ended;
    await expect(waiting).rejects.toBeInstanceOf(DeadlineError);
  });

  it('ends with the reason of its parent when that is first', async () => {
    const parent = new AbortController();
    const waiting = withDeadline(3000, 'it', parent.signal, never);
    const ended = expect(waiting).rejects.toThrow('hung up');
    parent.abort(new Error('hung up'));
    await ended;
    expect(vi.getTimerCount()).toBe(0);
  });

  it('does not begin work for a parent that is over', async () => {
    const work = vi.fn(never);
    await expect(withDeadline(3000, 'it', AbortSignal.abort(new Error('over')), work)).rejects.toThrow('over');
    expect(work).not.toHaveBeenCalled();
  });

  it.each<[string, (signal: AbortSignal) => Promise<unknown>]>([
    ['is done', async () => 'done'],
    ['fails', async () => Promise.reject(new Error('no'))],
  ])('leaves neither timer nor listener when the work %s', async (_, work) => {
    const parent = new AbortController();
    let inner: AbortSignal | null = null;
    await withDeadline(3000, 'it', parent.signal, (signal) => {
      inner = signal;
      return work(signal);
    }).catch(() => {});
    expect(vi.getTimerCount()).toBe(0);
    expect(getEventListeners(parent.signal, 'abort')).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(10_000);
    expect((inner as AbortSignal | null)?.aborted).toBe(false);
  });
});

describe('when the garbage is collected meanwhile', () => {
  const collecting = async () => {
    for (let round = 0; round < 3; round += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      collectGarbage();
    }
  };
  const endOf = (waiting: Promise<never>, limitMs: number) => {
    const late = new Promise((resolve) => setTimeout(resolve, limitMs, 'it never ended').unref());
    return Promise.race([waiting.catch((error: unknown) => error), late]);
  };

  it('a deadline passes', async () => {
    const call = new AbortController();
    const end = endOf(withDeadline(150, 'it', call.signal, heeds), 5000);
    await collecting();
    expect(await end).toBeInstanceOf(DeadlineError);
  });

  /** The reason for the rule in architecture.test.ts; when this fails on a Node 20, the rule has lost its reason. */
  it.runIf(process.version.startsWith('v20.'))('a timeout of Node 20 inside another signal does not', async () => {
    const call = new AbortController();
    const end = endOf(heeds(AbortSignal.any([call.signal, AbortSignal.timeout(150)])), 1500);
    await collecting();
    expect(await end).toBe('it never ended');
  });
});
