import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { builtModule } from '../../../config/built.js';
import { StoreError } from '../database/errors.js';
import type { LongReader, LongReads } from '../database/long-reads.js';
import type { Scope } from '../tenants/scope.js';

export interface LongQuestion {
  id: number;
  name: keyof LongReads;
  asked: unknown[];
}
export type LongAnswer =
  | { id: number; answer: unknown }
  | { id: number; problem: { message: string; isPassing: boolean } };

export interface LongReadLimits {
  /** The time limit from the request to its result. */
  limitMs: number;
  mostWaiting: number;
  /** The limit of one organization, so that no organization fills the queue alone. */
  mostOfOne: number;
}

interface Job extends LongQuestion {
  organizationId: string;
  resolve(answer: unknown): void;
  reject(error: Error): void;
  timer: NodeJS.Timeout;
}

const usualLimits: LongReadLimits = { limitMs: 10_000, mostWaiting: 100, mostOfOne: 10 };

/** Memory of the process that reads, in MB. */
const heapMb = 256;

/**
 * The process that runs long queries one after the other. It starts with the first query. The process of a query that takes too long is
 * killed and replaced; the other queries continue in a new one. A process and not a thread: SQLite cannot be interrupted within a statement,
 * and both drivers abort the whole process when a thread is terminated within one.
 */
export class LongReadProcess implements LongReader {
  private child: ChildProcess | null = null;
  private running: Job | null = null;
  private waiting: Job[] = [];
  private nextId = 1;
  private closed = false;

  constructor(
    private readonly file: string,
    private readonly limits: LongReadLimits = usualLimits,
  ) {}

  /** Rejects with `StoreError` `too_slow`, `too_many` or `unavailable`. */
  ask<N extends keyof LongReads>(
    name: N,
    ...asked: Parameters<LongReads[N]>
  ): Promise<Awaited<ReturnType<LongReads[N]>>> {
    const of = asked[0] as Scope | string;
    const organizationId = typeof of === 'string' ? of : of.organizationId;
    if (this.closed) return Promise.reject(new StoreError('unavailable', 'The server is stopping'));
    const { limitMs, mostWaiting, mostOfOne } = this.limits;
    const all = this.running ? [this.running, ...this.waiting] : this.waiting;
    const own = all.filter((job) => job.organizationId === organizationId);
    if (all.length >= mostWaiting || own.length >= mostOfOne)
      return Promise.reject(new StoreError('too_many', 'Too many long queries are running at once'));
    return new Promise((resolve, reject) => {
      const id = this.nextId++;
      const timer = setTimeout(() => this.giveUp(id), limitMs);
      const resolved = resolve as (answer: unknown) => void;
      this.waiting.push({ id, name, asked, organizationId, resolve: resolved, reject, timer });
      this.next();
    });
  }

  close(): void {
    this.closed = true;
    for (const job of [...(this.running ? [this.running] : []), ...this.waiting])
      this.end(job, () => job.reject(new StoreError('unavailable', 'The server is stopping')));
    this.running = null;
    this.waiting = [];
    this.child?.kill('SIGKILL'); // it cannot write
    this.child = null;
  }

  private next(): void {
    if (this.closed || this.running) return;
    const job = this.waiting.shift();
    if (!job) return;
    this.running = job;
    this.child ??= this.start();
    const question: LongQuestion = { id: job.id, name: job.name, asked: job.asked };
    this.child.send(question, () => {}); // a dead child is reported by `exit`
  }

  private start(): ChildProcess {
    const child = fork(fileURLToPath(builtModule(import.meta.url, './long-read-main.ts')), [this.file], {
      execArgv: [`--max-old-space-size=${heapMb}`],
      serialization: 'advanced', // dates and maps
    });
    child.unref();
    child.channel?.unref();
    child.on('message', (answer) => this.settle(answer as LongAnswer));
    const died = (why: string) => {
      if (this.child !== child) return;
      this.replace(new Error(`The process that reads died: ${why}`));
    };
    child.on('error', ({ message }) => died(message));
    child.on('exit', (code, signal) => died(signal ?? `exit code ${code}`));
    return child;
  }

  private settle(told: LongAnswer): void {
    const job = this.running;
    if (job?.id !== told.id) return;
    this.running = null;
    this.end(job, () => {
      if ('answer' in told) return job.resolve(told.answer);
      const { message, isPassing } = told.problem;
      job.reject(isPassing ? new StoreError('unavailable', message) : new Error(message));
    });
    this.next();
  }

  private giveUp(id: number): void {
    const error = new StoreError('too_slow', `The query takes longer than ${this.limits.limitMs / 1000} s`);
    if (this.running?.id === id) {
      this.replace(error);
      return;
    }
    const job = this.waiting.find((each) => each.id === id);
    this.waiting = this.waiting.filter((each) => each !== job);
    if (job) this.end(job, () => job.reject(error));
  }

  private replace(error: Error): void {
    const { child, running } = this;
    this.child = null;
    this.running = null;
    child?.kill('SIGKILL');
    if (running) this.end(running, () => running.reject(error));
    this.next();
  }

  private end(job: Job, tell: () => void): void {
    clearTimeout(job.timer);
    tell();
  }
}
