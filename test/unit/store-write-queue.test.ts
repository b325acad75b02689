import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { WriteQueue } from '../../src/store/postgres/write-queue.js';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it('work is done one after the other, in order, whatever becomes of it', async () => {
  const turns = new WriteQueue(1_000);
  const done: string[] = [];
  const all = ['a', 'b', 'c'].map((name) =>
    turns.take(async () => {
      done.push(`${name} begins`);
      await vi.advanceTimersByTimeAsync(50);
      done.push(`${name} ends`);
      if (name === 'b') throw new Error(name);
      return name;
    }),
  );
  expect((await Promise.allSettled(all)).map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(done).toEqual(['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends']);
});

it('what waits too long is refused and never begins; what has begun may take longer', async () => {
  const turns = new WriteQueue(100);
  const slow = turns.take(() => new Promise((resolve) => setTimeout(() => resolve('slow'), 300)));
  const begun = vi.fn(async () => 'late');
  const late = turns.take(begun);
  const refused = expect(late).rejects.toMatchObject({ code: 'unavailable' });
  await vi.advanceTimersByTimeAsync(301);
  await refused;
  expect(await slow).toBe('slow');
  expect(await turns.take(async () => 'next')).toBe('next');
  expect(begun).not.toHaveBeenCalled();
});
