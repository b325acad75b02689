import { Worker } from 'node:worker_threads';
import { StoreError } from '../database/errors.js';
import type { Entry } from './entries.js';
import type { BatchAnswer, WriterAnswer, WriterData, WriterRequest } from './writer-protocol.js';

interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

const died = 'The thread that writes the database died and is replaced';

type Unnumbered<R> = R extends unknown ? Omit<R, 'id'> : never;

/** The first replacement comes at once; each further one, unless the thread has answered meanwhile, after twice the time. */
const firstPauseMs = 100;
const longestPauseMs = 5_000;
/** So many deaths without an answer between them are a fault that an operator must see. */
const toleratedDeaths = 5;

/** The thread that writes, as the thread of calls sees it. A thread that dies is replaced; what it had not answered is `unavailable`. */
export class WriterThread {
  /** null: it died, and its replacement waits. */
  private worker: Worker | null;
  private readonly waiting = new Map<number, Waiting>();
  /** Of the next request. */
  protected nextId = 1;
  private dies: Int32Array = new Int32Array(0);
  private isClosing = false;
  private deaths = 0;
  private deathsInARow = 0;
  private lastError = 'no error was reported';
  private pause: NodeJS.Timeout | null = null;

  /** `module`: what runs in the thread, with `settings` as its data. `onDeath`: called with the reason whenever the thread has died by itself. */
  constructor(
    private readonly module: URL,
    private readonly settings: object,
    private readonly onDeath: (reason: string) => void = () => {},
  ) {
    this.worker = this.start();
  }

  /** How often the thread died. */
  get replaced(): number {
    return this.deaths;
  }

  /** A sentence, if the thread dies again and again; null otherwise. */
  get problem(): string | null {
    if (this.deathsInARow < toleratedDeaths) return null;
    return `The thread that writes the database died ${this.deathsInARow} times in a row (${this.lastError}); records wait in memory.`;
  }

  /** Writes the entries in one transaction. Rejects with `unavailable` if the database is locked or full; the same batch may be sent again. */
  batch(instanceId: string, number: number, entries: readonly Entry[]): Promise<BatchAnswer> {
    return this.ask({ kind: 'batch', instanceId, number, entries }) as Promise<BatchAnswer>;
  }

  /** Resolves when the connection is closed and the thread has ended. */
  async close(): Promise<void> {
    if (this.isClosing) return;
    const { worker } = this;
    if (this.pause !== null) clearTimeout(this.pause);
    if (worker === null) {
      this.isClosing = true;
      return;
    }
    const gone = new Promise((resolve) => worker.once('exit', resolve));
    const closed = this.ask({ kind: 'close' });
    this.isClosing = true;
    await closed.catch(() => {}); // it died: its connection is closed as well
    worker.ref();
    await gone;
  }

  /** Ends the thread between two statements, as an error would; for tests. (Terminated within a statement, it would take the process with it.) */
  async kill(): Promise<void> {
    const { worker } = this;
    if (worker === null) return;
    const gone = new Promise((resolve) => worker.once('exit', resolve));
    Atomics.store(this.dies, 0, 1);
    worker.postMessage({ id: 0, kind: 'wake' } satisfies WriterRequest);
    await gone;
  }

  protected ask(request: Unnumbered<WriterRequest>): Promise<unknown> {
    const id = this.nextId++;
    const { worker } = this;
    if (this.isClosing) return Promise.reject(new StoreError('unavailable', 'The server is stopping'));
    if (worker === null) return Promise.reject(new StoreError('unavailable', died));
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      try {
        worker.postMessage({ ...request, id });
      } catch (error) {
        this.waiting.delete(id); // a value that cannot be sent to a thread
        reject(error as Error);
      }
      worker.ref();
    });
  }

  private start(): Worker {
    this.dies = new Int32Array(new SharedArrayBuffer(4));
    const worker = new Worker(this.module, {
      workerData: { ...this.settings, dies: this.dies } satisfies WriterData,
      resourceLimits: { maxOldGenerationSizeMb: 512 },
      execArgv: [], // flags of the main program, such as --input-type, may keep a thread from starting
    });
    worker.unref();
    worker.on('message', (told: WriterAnswer) => this.settle(told));
    let reason = 'it ended without an error';
    worker.on('error', ({ message }) => {
      reason = message; // `exit` follows
    });
    worker.on('exit', () => {
      if (this.worker !== worker) return;
      this.worker = null;
      const unanswered = [...this.waiting.values()];
      this.waiting.clear();
      if (!this.isClosing) this.replaceAfterDeath(reason);
      for (const { reject } of unanswered) reject(new StoreError('unavailable', died));
    });
    return worker;
  }

  private replaceAfterDeath(reason: string): void {
    this.deaths += 1;
    this.deathsInARow += 1;
    this.lastError = reason;
    this.onDeath(reason);
    if (this.deathsInARow === 1) {
      this.worker = this.start();
      return;
    }
    const pauseMs = Math.min(longestPauseMs, firstPauseMs * 2 ** (this.deathsInARow - 2));
    this.pause = setTimeout(() => {
      this.pause = null;
      this.worker = this.start();
    }, pauseMs);
  }

  private settle(told: WriterAnswer): void {
    const asked = this.waiting.get(told.id);
    if (asked === undefined) return;
    this.waiting.delete(told.id);
    this.deathsInARow = 0;
    if (this.waiting.size === 0) this.worker?.unref(); // nothing to wait for: it must not keep the process alive
    if ('value' in told) {
      asked.resolve(told.value);
      return;
    }
    const { message, code, isPassing } = told.problem;
    asked.reject(
      isPassing
        ? new StoreError('unavailable', message)
        : Object.assign(new Error(message), code === null ? {} : { code }),
    );
  }
}
