/**
 * Loaded into the gateway before its program (`--import`): at SIGUSR2 it writes heap snapshots of the main thread and of each worker into the
 * folder `BENCH_HEAP_FOLDER`, and then the file `written`.
 */
import { createWriteStream, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { getHeapSnapshot } from 'node:v8';
import threads, { isMainThread } from 'node:worker_threads';

const folder = process.env.BENCH_HEAP_FOLDER ?? '';
const running = new Set<threads.Worker>();

class KnownWorker extends threads.Worker {
  constructor(...given: ConstructorParameters<typeof threads.Worker>) {
    super(...given);
    running.add(this);
    this.once('exit', () => running.delete(this));
  }
}

async function write(): Promise<void> {
  await pipeline(getHeapSnapshot(), createWriteStream(path.join(folder, 'main.heapsnapshot')));
  for (const worker of running) {
    const snapshot = await worker.getHeapSnapshot();
    await pipeline(snapshot, createWriteStream(path.join(folder, `worker-${worker.threadId}.heapsnapshot`)));
  }
  writeFileSync(path.join(folder, 'written'), '');
}

if (isMainThread) {
  threads.Worker = KnownWorker;
  syncBuiltinESMExports();
  process.on('SIGUSR2', () => {
    write().catch((error: unknown) => process.stderr.write(`heap snapshot: ${error}\n`));
  });
}
