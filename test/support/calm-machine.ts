/** A test of real time is tried again when the machine has been on time for a second, or after a while all the same. */
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach } from 'vitest';

const calmForMs = 1000;
const mayBeLateMs = 10;
const longestWaitMs = process.env.TEST_TWICE ? 0 : 8000;

beforeEach(async ({ task }) => {
  if (!task.result?.retryCount) return;
  const startMs = performance.now();
  for (let nowMs = startMs, lateMs = startMs; nowMs - lateMs < calmForMs && nowMs - startMs < longestWaitMs; ) {
    await sleep(5);
    const wokenMs = performance.now();
    if (wokenMs - nowMs > 5 + mayBeLateMs) lateMs = wokenMs;
    nowMs = wokenMs;
  }
});
