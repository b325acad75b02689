import { availableParallelism } from 'node:os';
import { type MadeClip, type SpeechThread, type SpeechWork, speechThread } from './speech-thread.js';

export interface SpeechPoolOptions {
  threads: number;
  /** A job that waits for a thread fails this long after its clip was due. */
  waitLimitMs: number;
  /** The time limit of one job on its thread. */
  runLimitMs: number;
  /** The module that the threads run; for tests. */
  module?: URL;
}

/** When a text has waited this long, or makes others wait this long, the fastest voice speaks it. */
const patienceMs = 800;
/** Assumed time for one sentence until it was measured: the default voice on a slow core. */
const firstEstimateMs = 100;
/** The maximum queue length; more jobs could not finish in time. */
const mostWaiting = 1000;

/** One clip that is being made. */
export class SpeechJob {
  readonly made: Promise<MadeClip>;
  settle!: (made: MadeClip | Promise<MadeClip>) => void;
  fail!: (error: Error) => void;
  timer: NodeJS.Timeout | null = null;
  /** Start of the waiting time, not before the request. */
  readonly askedAtMs = performance.now();

  constructor(
    readonly work: SpeechWork,
    /** When the caller starts to wait for it, by `performance.now()`. */
    public dueAtMs: number,
  ) {
    this.made = new Promise((resolve, reject) => {
      this.settle = resolve;
      this.fail = reject;
    });
    this.made.catch(() => {}); // prevents an unhandled rejection if there is no waiter
  }

  get waitsSinceMs(): number {
    return Math.max(this.askedAtMs, this.dueAtMs);
  }
}

/**
 * Threads that make clips in order of their due time. Jobs fail independently: one that waits too long leaves the queue, and one that hangs
 * loses its thread, without effect on other jobs.
 */
export class SpeechPool {
  readonly #threads: SpeechThread[];
  readonly #queue = new Set<SpeechJob>();
  #closed = false;
  /** The running mean duration of a job that the fastest voice did not take. */
  #jobMs = firstEstimateMs;

  constructor(private readonly options: SpeechPoolOptions) {
    const { threads, runLimitMs, module } = options;
    this.#threads = Array.from({ length: threads }, () => speechThread(runLimitMs, module));
  }

  /** Starts the threads, which load their voices, ahead of the first job. */
  start(): void {
    if (!this.#closed) for (const thread of this.#threads) thread.start();
  }

  /** `dueAtMs`: when a caller starts to wait for it, by `performance.now()`. `made` rejects with one sentence. */
  make(work: SpeechWork, dueAtMs: number): SpeechJob {
    const job = new SpeechJob(work, dueAtMs);
    if (this.#closed) job.fail(new Error('The server is stopping.'));
    else if (this.#queue.size >= mostWaiting) job.fail(new Error('Too many audio files wait to be prepared.'));
    else {
      this.#queue.add(job);
      this.#limit(job);
      this.#next();
    }
    return job;
  }

  /** Moves a job forward when a caller needs it sooner. */
  hurry(job: SpeechJob, dueAtMs: number): void {
    if (dueAtMs >= job.dueAtMs) return;
    job.dueAtMs = dueAtMs;
    if (this.#queue.has(job)) this.#limit(job);
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const job of this.#queue) this.#leave(job).fail(new Error('The server is stopping.'));
    await Promise.all(this.#threads.map((thread) => thread.close()));
  }

  #limit(job: SpeechJob): void {
    if (job.timer !== null) clearTimeout(job.timer);
    const { waitLimitMs } = this.options;
    const expire = () =>
      this.#leave(job).fail(new Error(`The audio could not be prepared within ${waitLimitMs / 1000} s.`));
    job.timer = setTimeout(expire, job.waitsSinceMs + waitLimitMs - performance.now());
  }

  /** How long the last of the waiting callers would wait, if the fastest voice took none. */
  #backlogMs(nowMs: number): number {
    let due = 0;
    for (const job of this.#queue) if (job.dueAtMs <= nowMs) due += 1;
    return (due * this.#jobMs) / this.#threads.length;
  }

  #took(jobMs: number): void {
    this.#jobMs += (jobMs - this.#jobMs) / 8;
  }

  #leave(job: SpeechJob): SpeechJob {
    this.#queue.delete(job);
    if (job.timer !== null) clearTimeout(job.timer);
    job.timer = null;
    return job;
  }

  #next(): void {
    for (const thread of this.#threads) {
      if (this.#closed || this.#queue.size === 0) return;
      if (thread.busy) continue;
      const first = [...this.#queue].reduce((soonest, job) => (job.dueAtMs < soonest.dueAtMs ? job : soonest));
      const { work, waitsSinceMs } = this.#leave(first);
      const startedAtMs = performance.now();
      const hurried = startedAtMs - waitsSinceMs > patienceMs || this.#backlogMs(startedAtMs) > patienceMs;
      const made = thread.run(work.kind === 'say' ? { ...work, hurried } : work);
      first.settle(made);
      if (!hurried) made.then(() => this.#took(performance.now() - startedAtMs)).catch(() => {});
      const free = () => this.#next();
      made.then(free, free);
    }
  }
}

/** One core is left for calls; more threads help only if many callers need new clips at once. */
const mostThreads = 4;

/** `speech` for synthesized speech, `files` for audio files, so that a long file does not delay speech. Threads start with the first job. */
export function openSpeechPools(cores = availableParallelism()): { speech: SpeechPool; files: SpeechPool } {
  const threads = Math.min(mostThreads, Math.max(1, cores - 1));
  return {
    speech: new SpeechPool({ threads, waitLimitMs: 10_000, runLimitMs: 5000 }),
    files: new SpeechPool({ threads: 1, waitLimitMs: 10_000, runLimitMs: 10_000 }),
  };
}
