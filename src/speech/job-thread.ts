import { Worker } from 'node:worker_threads';

/** What a thread that does jobs posts: once that it is ready, then one message for each job. */
export type ThreadMessage<Made> =
  | { kind: 'ready' }
  | { kind: 'made'; made: Made }
  | { kind: 'failed'; message: string };

export interface JobThreadOptions {
  module: URL;
  workerData?: unknown;
  /** Time limit for starting: loading a voice or a model and running it once. */
  startLimitMs: number;
  /** Time limit of one job once it runs. */
  runLimitMs: number;
  heapLimitMb: number;
  /** One sentence for each failure. */
  says: { failed: string; late: string; lateStart: string };
}

interface Running<Made> {
  resolve(made: Made): void;
  reject(error: Error): void;
  timer: NodeJS.Timeout;
}

/** One thread that does jobs, one at a time. A job that hangs or crashes the thread fails alone: the next job gets a new thread. */
export class JobThread<Work, Made> {
  #worker: Worker | null = null;
  #ready = false;
  #running: Running<Made> | null = null;

  constructor(private readonly options: JobThreadOptions) {}

  get busy(): boolean {
    return this.#running !== null;
  }

  /** Starts the thread ahead of the first job. */
  start(): Worker {
    if (this.#worker !== null) return this.#worker;
    const { module, workerData, heapLimitMb, says } = this.options;
    const worker = new Worker(module, { workerData, resourceLimits: { maxOldGenerationSizeMb: heapLimitMb } });
    worker.unref();
    const died = () => this.#worker === worker && this.#replace(says.failed);
    worker.on('message', (message: ThreadMessage<Made>) => this.#worker === worker && this.#heard(message));
    worker.on('error', died);
    worker.on('exit', died);
    this.#ready = false;
    this.#worker = worker;
    return worker;
  }

  /** Must not be called while the thread is busy. Rejects with an error of one sentence. */
  run(work: Work): Promise<Made> {
    return new Promise((resolve, reject) => {
      const worker = this.start();
      const late = () => this.#replace(this.options.says.lateStart);
      const timer = this.#ready ? this.#limit() : setTimeout(late, this.options.startLimitMs);
      this.#running = { resolve, reject, timer };
      worker.postMessage(work);
    });
  }

  async close(): Promise<void> {
    await this.#replace('The server is stopping.');
  }

  #limit(): NodeJS.Timeout {
    return setTimeout(() => this.#replace(this.options.says.late), this.options.runLimitMs);
  }

  #heard(message: ThreadMessage<Made>): void {
    const running = this.#running;
    if (message.kind === 'ready') {
      this.#ready = true;
      if (running === null) return;
      clearTimeout(running.timer);
      running.timer = this.#limit();
      return;
    }
    this.#end();
    if (message.kind === 'made') running?.resolve(message.made);
    else running?.reject(new Error(message.message));
  }

  #end(): void {
    clearTimeout(this.#running?.timer);
    this.#running = null;
  }

  async #replace(reason: string): Promise<void> {
    const worker = this.#worker;
    const running = this.#running;
    this.#worker = null;
    this.#end();
    running?.reject(new Error(reason));
    await worker?.terminate();
  }
}
