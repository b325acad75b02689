/**
 * A test of real time may be tried again. What the try before has left is taken away first, its records are not looked at, and the machine is
 * to have been on time for a second (or some seconds pass).
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { aroundEach } from 'vitest';

const calmForMs = 1000;
const mayBeLateMs = 10;
const longestWaitMs = process.env.TEST_TWICE ? 0 : 8000;

/** Takes away what a try has made since `sinceMs`, by `Date.now()`. */
type Undo = (sinceMs: number) => Promise<unknown>;
interface Try {
  isFurther: boolean;
  sinceMs: number;
  undo: Undo[];
}
const currentTry = new AsyncLocalStorage<Try>();
const triesOf = new WeakMap<object, Try>();

/** Run before a test that has the process to itself is tried again, such as the end of all calls of an app. */
export const beforeFurtherTries = new Set<Undo>();

/** The test that calls this has been tried before. */
export const isFurtherTry = (): boolean => currentTry.getStore()?.isFurther ?? false;

/** Since when records belong to this try of the test, by `Date.now()`: 0 in its first try. */
export const triedSinceMs = (): number => (isFurtherTry() ? (currentTry.getStore()?.sinceMs ?? 0) : 0);

/** Runs before the test is tried again; has no effect outside of a test. */
export function undoBeforeNextTry(undo: Undo): void {
  currentTry.getStore()?.undo.push(undo);
}

aroundEach(async (runTest, { task }) => {
  const last = triesOf.get(task);
  if (last) {
    const undo = [...last.undo.reverse(), ...(task.concurrent ? [] : beforeFurtherTries)];
    for (const each of undo) await each(last.sinceMs).catch(() => undefined); // the test may have done it itself
    await calmMachine();
  }
  const now: Try = { isFurther: last !== undefined, sinceMs: Date.now(), undo: [] };
  triesOf.set(task, now);
  await currentTry.run(now, runTest);
});

async function calmMachine(): Promise<void> {
  const startMs = performance.now();
  for (let nowMs = startMs, lateMs = startMs; nowMs - lateMs < calmForMs && nowMs - startMs < longestWaitMs; ) {
    await sleep(5);
    const wokenMs = performance.now();
    if (wokenMs - nowMs > 5 + mayBeLateMs) lateMs = wokenMs;
    nowMs = wokenMs;
  }
}
