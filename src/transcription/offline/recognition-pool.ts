import {
  type RecognitionThread,
  type RecognitionThreadData,
  type RecognitionWork,
  type RecognizedSpeech,
  recognitionThread,
} from './recognition-thread.js';

export interface RecognitionPoolOptions extends RecognitionThreadData {
  threads: number;
  /** The number of files that may wait for a thread. */
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

/** Threads that recognize speech, first come, first served. Files fail independently: one that hangs loses its thread alone. */
export class RecognitionPool {
  readonly #threads: RecognitionThread[];
  readonly #queue = new Set<Waiting>();
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
  recognize(file: Omit<RecognitionWork, 'cancelled'>, signal: AbortSignal): Promise<RecognizedSpeech> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      if (this.#isClosed) return reject(new Error('The server is stopping.'));
      const idle = this.#threads.some((thread) => !thread.busy);
      if (!idle && this.#queue.size >= this.options.mostWaiting) return reject(new RecognitionBusy());
      const cancelled = new SharedArrayBuffer(4);
      const onAbort = () => {
        Atomics.store(new Int32Array(cancelled), 0, 1);
        this.#queue.delete(waiting);
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
      this.#queue.add(waiting);
      this.#next();
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const waiting of this.#queue) waiting.fail(new Error('The server is stopping.'));
    this.#queue.clear();
    await Promise.all(this.#threads.map((thread) => thread.close()));
  }

  #next(): void {
    for (const thread of this.#threads) {
      const [first] = this.#queue;
      if (this.#isClosed || first === undefined) return;
      if (thread.busy) continue;
      this.#queue.delete(first);
      first.run(thread);
    }
  }
}
