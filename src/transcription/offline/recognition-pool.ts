import type { AudioFile } from '../engine.js';
import {
  type RecognitionThread,
  type RecognitionThreadData,
  type RecognizedSpeech,
  recognitionThread,
} from './recognition-thread.js';

export interface RecognitionPoolOptions extends RecognitionThreadData {
  threads: number;
  /** The number of files that may wait for a thread; as many more that yield. */
  mostWaiting: number;
  /** The time limit of one file on its thread. */
  runLimitMs: number;
  /** The module that the threads run; for tests. */
  module?: URL;
}

/** Too much waits already: nothing was begun. */
export class RecognitionBusy extends Error {
  constructor() {
    super('Too much speech waits to be recognized.');
    this.name = 'RecognitionBusy';
  }
}

interface Waiting {
  run(thread: RecognitionThread): void;
  fail(error: Error): void;
}

/**
 * Threads that recognize speech, first come, first served. Files that yield wait for all others, and leave one of several threads to them.
 * Files fail independently: one that hangs loses its thread alone.
 */
export class RecognitionPool {
  readonly #threads: RecognitionThread[];
  readonly #queue = new Set<Waiting>();
  readonly #yielding = new Set<Waiting>();
  #isClosed = false;

  constructor(private readonly options: RecognitionPoolOptions) {
    const { threads, runLimitMs, module, folder, engine } = options;
    this.#threads = Array.from({ length: threads }, () => recognitionThread({ folder, engine }, runLimitMs, module));
  }

  /** Loads the models ahead of the first file. */
  start(): void {
    if (!this.#isClosed) for (const thread of this.#threads) thread.start();
  }

  /** Rejects with `RecognitionBusy`, with the reason of `signal` at once when it aborts, or with an error of one sentence. */
  recognize(file: AudioFile, signal: AbortSignal, isYielding = false): Promise<RecognizedSpeech> {
    const queue = isYielding ? this.#yielding : this.#queue;
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      if (this.#isClosed) return reject(new Error('The server is stopping.'));
      const idle = this.#idleThreads > (isYielding ? this.#keptIdle : 0);
      if (!idle && queue.size >= this.options.mostWaiting) return reject(new RecognitionBusy());
      const cancelled = new SharedArrayBuffer(4);
      const onAbort = () => {
        Atomics.store(new Int32Array(cancelled), 0, 1);
        queue.delete(waiting);
        reject(signal.reason);
      };
      const waiting: Waiting = {
        run: (thread) => {
          const next = () => {
            signal.removeEventListener('abort', onAbort);
            this.#next();
          };
          const made = thread.run({ ...file, cancelled });
          made.then(resolve, reject);
          made.then(next, next);
        },
        fail: (error) => {
          signal.removeEventListener('abort', onAbort);
          reject(error);
        },
      };
      signal.addEventListener('abort', onAbort, { once: true });
      queue.add(waiting);
      this.#next();
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const queue of [this.#queue, this.#yielding]) {
      for (const waiting of queue) waiting.fail(new Error('The server is stopping.'));
      queue.clear();
    }
    await Promise.all(this.#threads.map((thread) => thread.close()));
  }

  get #idleThreads(): number {
    return this.#threads.reduce((count, thread) => count + (thread.busy ? 0 : 1), 0);
  }

  /** The threads that files which yield leave idle. */
  get #keptIdle(): number {
    return this.#threads.length > 1 ? 1 : 0;
  }

  #next(): void {
    for (const thread of this.#threads) {
      if (thread.busy) continue;
      const queue = this.#queue.size > 0 ? this.#queue : this.#yielding;
      const [first] = queue;
      if (this.#isClosed || first === undefined) return;
      if (queue === this.#yielding && this.#idleThreads <= this.#keptIdle) return;
      queue.delete(first);
      first.run(thread);
    }
  }
}
