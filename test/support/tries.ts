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

type Undo = () => Promise<unknown>;
const currentTry = new AsyncLocalStorage<{ isFurther: boolean; sinceMs: number; undo: Undo[] }>();
const undoOf = new WeakMap<object, Undo[]>();

/** Run before a test that has the process to itself is tried again, such as the end of all calls of an app. */
export const beforeFurtherTries = new Set<Undo>();

/** The test that calls this has been tried before. */
export const isFurtherTry = (): boolean => currentTry.getStore()?.isFurther ?? false;

/** Since when records belong to this try of the test, by `Date.now()`: 0 in its first try. */
export const triedSinceMs = (): number => currentTry.getStore()?.sinceMs ?? 0;

/** Takes away, before the test is tried again, what this try of it has made; does nothing outside of a test. */
export function undoBeforeNextTry(undo: Undo): void {
  currentTry.getStore()?.undo.push(undo);
}

aroundEach(async (runTest, { task }) => {
  const isFurther = (task.result?.retryCount ?? 0) > 0;
  if (isFurther) {
    const left = undoOf.get(task) ?? [];
    for (const undo of [...left.reverse(), ...(task.concurrent ? [] : beforeFurtherTries)])
      await undo().catch(() => undefined);
    await calmMachine();
  }
  const undo: Undo[] = [];
  undoOf.set(task, undo);
  await currentTry.run({ isFurther, sinceMs: isFurther ? Date.now() : 0, undo }, runTest);
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
