/** Runs in a process of its own, with a connection of its own that cannot write. Ends with the process that started it. */
import { StoreError } from '../database/errors.js';
import { longReads } from '../database/long-reads.js';
import type { LongAnswer, LongQuestion } from './long-read-process.js';
import { ReadOnlyDatabase } from './read-only-database.js';

const reads = longReads(new ReadOnlyDatabase(process.argv[2] ?? ''));

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {}); // sent to the whole group: the parent decides
process.on('disconnect', () => process.exit());
process.on('message', async ({ id, name, asked }: LongQuestion) => {
  let answer: LongAnswer;
  try {
    answer = { id, answer: await (reads[name] as (...asked: unknown[]) => Promise<unknown>)(...asked) };
  } catch (error) {
    const { message } = error as Error;
    answer = { id, problem: { message, isPassing: error instanceof StoreError && error.code === 'unavailable' } };
  }
  process.send?.(answer);
});
