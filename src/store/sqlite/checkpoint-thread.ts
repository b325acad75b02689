import { Worker } from 'node:worker_threads';
import { builtModule } from '../../../config/built.js';

/** So many leave 6 to 28 MB in the log, the more of them the fewer calls share each. */
const everyCommits = 100;

/**
 * Brings what commits left in the write-ahead log into the database file, in a thread of its own: the disk has to be waited for, and calls must
 * not. The log grows meanwhile; should this thread not keep up, the one that writes does it itself (`wal_autocheckpoint`).
 */
export class CheckpointThread {
  private worker: Worker | null = null;
  private commits = 0;
  private isRunning = false;

  constructor(private readonly file: string) {}

  /** Starts the thread now instead of with the first checkpoint. */
  start(): void {
    this.worker ??= this.newWorker();
  }

  committed(): void {
    this.commits += 1;
    if (this.commits < everyCommits || this.isRunning) return;
    this.commits = 0;
    this.isRunning = true;
    this.start();
    this.worker?.postMessage('run');
  }

  /** Resolves when the thread has ended and its connection is closed. */
  async close(): Promise<void> {
    const { worker } = this;
    this.isRunning = true; // no further one
    this.worker = null;
    if (worker === null) return;
    const gone = new Promise((resolve) => worker.once('exit', resolve));
    worker.ref();
    worker.postMessage('close'); // terminating a thread within a statement aborts the process
    await gone;
  }

  private newWorker(): Worker {
    const worker = new Worker(builtModule(import.meta.url, './checkpoint-worker.ts'), {
      workerData: { file: this.file },
      resourceLimits: { maxOldGenerationSizeMb: 32 },
    });
    worker.unref();
    worker.on('message', () => {
      this.isRunning = false;
    });
    worker.on('error', () => {}); // `exit` follows
    worker.on('exit', () => {
      if (this.worker !== worker) return;
      this.worker = null;
      this.isRunning = false;
    });
    return worker;
  }
}
