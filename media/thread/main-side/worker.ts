/** One media thread as seen by the main thread: starts it, watches it, and reports its end exactly once. */
import { type TransferListItem, Worker } from 'node:worker_threads';
import { builtModule } from '../../../config/built.js';
import { MediaError } from '../../engine.js';
import { type FromThread, type Notice, type Order, ThreadClient, type ThreadLoad } from '../channel.js';
import { noLateCauses } from '../lateness.js';

/** Loading its code takes a moment, and many times that beside other work. */
const startLimitMs = 60_000;
const stopLimitMs = 5000;
/** A thread without a message in this many checks is stuck, and is replaced like a dead one. */
const watchEveryMs = 5000;
const silentLooks = 2;
/** Flags of Node that a media thread takes over: each thread writes a profile of its own. */
const profilerFlags = /^--(cpu|heap)-prof/;

export interface WorkerHooks {
  notice(notice: Notice): void;
  /** The thread died, or was terminated because it hung. Not called after `stop`. */
  died(detail: string): void;
}

export class MediaWorker {
  readonly threadClient: ThreadClient;
  /** Resolves when the thread is ready to open sessions. */
  readonly ready: Promise<void>;
  alive = true;
  load: ThreadLoad = {
    ...{ sessions: 0, eventLoopLagMs: 0, faults: 0, foreignPackets: 0, malformedPackets: 0 },
    late: noLateCauses(),
  };
  private readonly worker: Worker;
  private watch: NodeJS.Timeout | undefined;
  private readonly exited: Promise<void>;
  private stopping = false;
  private heard = true;
  private silent = 0;
  /** Why the thread ended. */
  private failure = 'it ended';

  constructor(name: string, options: { quietMs: number }, hooks: WorkerHooks) {
    this.worker = new Worker(builtModule(import.meta.url, '../entry.ts'), {
      name,
      workerData: options,
      execArgv: process.execArgv.filter((flag) => profilerFlags.test(flag)),
    });
    this.threadClient = new ThreadClient((message, transfer) => this.worker.postMessage(message, transfer));
    this.worker.on('error', (error: unknown) => {
      this.failure = error instanceof Error ? error.message : String(error);
    });
    let settleReady: { resolve(): void; reject(error: Error): void };
    this.ready = new Promise((resolve, reject) => {
      settleReady = { resolve, reject };
    });
    this.ready.catch(() => {}); // an engine that closes early does not await it
    const startTimer = setTimeout(() => this.giveUp(`it did not start within ${startLimitMs / 1000} s`), startLimitMs);
    this.worker.on('message', (message: FromThread) => {
      this.heard = true;
      if (message.kind === 'answer' || message.kind === 'refusal') this.threadClient.settle(message);
      else if (message.kind === 'load') this.load = message.load;
      else if (message.kind === 'ready') {
        clearTimeout(startTimer);
        this.watch = setInterval(() => this.look(), watchEveryMs);
        settleReady.resolve();
      } else hooks.notice(message);
    });
    this.exited = new Promise((resolve) => {
      this.worker.on('exit', () => {
        clearTimeout(startTimer);
        clearInterval(this.watch);
        this.alive = false;
        const error = new MediaError('engine_gone', `The media thread is gone: ${this.failure}.`);
        this.threadClient.fail(error);
        settleReady.reject(error);
        if (!this.stopping) hooks.died(this.failure);
        resolve();
      });
    });
  }

  post(order: Order, transfer: readonly TransferListItem[] = []): void {
    if (this.alive) this.worker.postMessage(order, transfer);
  }

  /** Closes the thread's sessions; a thread that does not end in time is terminated. */
  async stop(): Promise<void> {
    this.stopping = true;
    if (!this.alive) return;
    this.post({ kind: 'shutdown' });
    const limit = setTimeout(() => void this.worker.terminate(), stopLimitMs);
    await this.exited;
    clearTimeout(limit);
  }

  /** Ends the thread as a fatal error in it would. */
  async crash(): Promise<void> {
    await this.worker.terminate();
  }

  private look(): void {
    this.silent = this.heard ? 0 : this.silent + 1;
    this.heard = false;
    if (this.silent >= silentLooks) this.giveUp(`it said nothing for ${(silentLooks * watchEveryMs) / 1000} s`);
  }

  private giveUp(why: string): void {
    this.failure = why;
    void this.worker.terminate();
  }
}
