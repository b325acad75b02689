/** Runs in a thread of its own, with a connection of its own that cannot write. */
import { parentPort, workerData } from 'node:worker_threads';
import { Database } from './database.js';
import { StoreError } from './errors.js';
import type { LongAnswer, LongQuestion } from './long-read-thread.js';
import { longReads } from './long-reads.js';

const reads = longReads(Database.openReadOnly((workerData as { file: string }).file));

parentPort?.on('message', ({ id, name, asked }: LongQuestion) => {
  let answer: LongAnswer;
  try {
    answer = { id, answer: (reads[name] as (...asked: unknown[]) => unknown)(...asked) };
  } catch (error) {
    const { message } = error as Error;
    answer = { id, problem: { message, isPassing: error instanceof StoreError && error.code === 'unavailable' } };
  }
  parentPort?.postMessage(answer);
});
