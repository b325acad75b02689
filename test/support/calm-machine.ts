/** A test of real time is tried again when the machine has been on time for a second, or after a while all the same. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { aroundEach } from 'vitest';

const calmForMs = 1000;
const mayBeLateMs = 10;
const longestWaitMs = process.env.TEST_TWICE ? 0 : 8000;

/** Within a further try of a test: when it began. Records that are older are those of the tries before. */
export const furtherTry = new AsyncLocalStorage<{ beganMs: number }>();

aroundEach(async (runTest, { task }) => {
  if (!task.result?.retryCount) return runTest();
  await calmMachine();
  await furtherTry.run({ beganMs: Date.now() }, runTest);
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
