import { Worker } from 'node:worker_threads';
import { builtModule } from '../../../config/built.js';
import { type Execute, Statements } from '../database/database.js';
import { StoreError } from '../database/errors.js';
import type { Entry } from '../journal/entries.js';
import { sqliteQueries } from './connection.js';
import type { BatchAnswer, WriterAnswer, WriterRequest, WriterSettings } from './writer-protocol.js';

interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

type Unnumbered<R> = R extends unknown ? Omit<R, 'id'> : never;

/** A transaction that runs in the thread that writes, statement by statement. */
export interface RemoteTransaction {
  statements: Statements;
  /** Rejects if the commit fails; the transaction is over in any case. */
  end(commit: boolean): Promise<void>;
}

/** The thread that writes, as the thread of calls sees it. A thread that dies is replaced; what it had not answered is `unavailable`. */
export class WriterThread {
  private worker: Worker;
  private readonly waiting = new Map<number, Waiting>();
  private nextId = 1;
  private isClosing = false;
  private deaths = 0;

  constructor(private readonly settings: WriterSettings) {
    this.worker = this.start();
  }

  /** How often the thread died. */
  get replaced(): number {
    return this.deaths;
  }

  /** Writes the entries in one transaction. Rejects with `unavailable` if the database is locked or full; the same batch may be sent again. */
  batch(number: number, entries: readonly Entry[]): Promise<BatchAnswer> {
    return this.ask({ kind: 'batch', number, entries }) as Promise<BatchAnswer>;
  }

  single(sql: string, parameters: readonly unknown[]): Promise<number> {
    return this.ask({ kind: 'single', sql, parameters }) as Promise<number>;
  }

  async begin(): Promise<RemoteTransaction> {
    const transaction = this.nextId; // the number of the next request
    await this.ask({ kind: 'begin' });
    const execute: Execute = (sql, parameters, want) =>
      this.ask({ kind: 'statement', transaction, sql, parameters, want });
    return {
      statements: new Statements(sqliteQueries, execute),
      end: async (commit) => {
        await this.ask({ kind: 'end', transaction, commit });
      },
    };
  }

  /** Resolves when the connection is closed and the thread has ended. */
  async close(): Promise<void> {
    if (this.isClosing) return;
    const { worker } = this;
    const gone = new Promise((resolve) => worker.once('exit', resolve));
    const closed = this.ask({ kind: 'close' });
    this.isClosing = true;
    await closed.catch(() => {}); // it died: its connection is closed as well
    await worker.terminate();
    await gone;
  }

  /** Ends the thread as a crash would; for tests. */
  kill(): Promise<number> {
    return this.worker.terminate();
  }

  private ask(request: Unnumbered<WriterRequest>): Promise<unknown> {
    const id = this.nextId++;
    if (this.isClosing) return Promise.reject(new StoreError('unavailable', 'The server is stopping'));
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      try {
        this.worker.postMessage({ ...request, id });
      } catch (error) {
        this.waiting.delete(id); // a value that cannot be sent to a thread
        reject(error as Error);
      }
      this.worker.ref();
    });
  }

  private start(): Worker {
    const worker = new Worker(builtModule(import.meta.url, './writer-worker.ts'), {
      workerData: this.settings,
      resourceLimits: { maxOldGenerationSizeMb: 512 },
      execArgv: [], // flags of the main program, such as --input-type, may keep a thread from starting
    });
    worker.unref();
    worker.on('message', (told: WriterAnswer) => this.settle(told));
    worker.on('error', () => {}); // `exit` follows
    worker.on('exit', () => {
      if (this.worker !== worker) return;
      const unanswered = [...this.waiting.values()];
      this.waiting.clear();
      if (!this.isClosing) {
        this.deaths += 1;
        this.worker = this.start();
      }
      for (const { reject } of unanswered)
        reject(new StoreError('unavailable', 'The thread that writes the database died and is replaced'));
    });
    return worker;
  }

  private settle(told: WriterAnswer): void {
    const asked = this.waiting.get(told.id);
    if (asked === undefined) return;
    this.waiting.delete(told.id);
    if (this.waiting.size === 0) this.worker.unref(); // nothing to wait for: it must not keep the process alive
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
