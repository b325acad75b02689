/** Another program that computes now and then: a process for each core, all at the same time. */

import { fork } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const everyMs = 500;

/** For `burstMs` in every half second. Returns what ends it. */
export function startBursts(burstMs: number): () => void {
  const program = fileURLToPath(import.meta.url);
  const children = Array.from({ length: availableParallelism() }, () => fork(program, [String(burstMs)]));
  return () => {
    for (const child of children) child.kill();
  };
}

async function compute(burstMs: number): Promise<never> {
  for (;;) {
    // By the clock of the machine, so that all begin together.
    await sleep(everyMs - (Date.now() % everyMs));
    const untilMs = performance.now() + burstMs;
    while (performance.now() < untilMs);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.on('disconnect', () => process.exit());
  await compute(Number(process.argv[2]));
}
