/** Runs in a thread of its own, with a connection of its own that cannot write. */
import { parentPort, workerData } from 'node:worker_threads';
import { StoreError } from '../database/errors.js';
import { longReads } from '../database/long-reads.js';
import type { LongAnswer, LongQuestion } from './long-read-thread.js';
import { ReadOnlyDatabase } from './read-only-database.js';

const reads = longReads(new ReadOnlyDatabase((workerData as { file: string }).file));

parentPort?.on('message', async ({ id, name, asked }: LongQuestion) => {
  let answer: LongAnswer;
  try {
    answer = { id, answer: await (reads[name] as (...asked: unknown[]) => Promise<unknown>)(...asked) };
  } catch (error) {
    const { message } = error as Error;
    answer = { id, problem: { message, isPassing: error instanceof StoreError && error.code === 'unavailable' } };
  }
  parentPort?.postMessage(answer);
});
