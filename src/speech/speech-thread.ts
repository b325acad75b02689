import { Worker } from 'node:worker_threads';
import { builtModule } from '../../config/built.js';
import type { OfflineText, SpeechWarning } from './offline-voice.js';

/** `say`: a text for the offline voice. `speech`: audio of a speech server. `file`: any other audio, whose loudness is kept. */
export type SpeechWork =
  | ({ kind: 'say' } & OfflineText)
  | { kind: 'speech'; bytes: Uint8Array }
  | { kind: 'file'; bytes: Uint8Array };

export interface MadeClip {
  /** G.711 μ-law at 8 kHz; null if there is nothing to play; the warning says why. */
  clip: SharedArrayBuffer | null;
  warning: SpeechWarning | null;
}

export type WorkerMessage = { kind: 'ready' } | { kind: 'made'; made: MadeClip } | { kind: 'failed'; message: string };

interface Running {
  resolve(made: MadeClip): void;
  reject(error: Error): void;
  timer: NodeJS.Timeout;
}

/** Time limit for starting: loading the voice and running it once. */
const startLimitMs = 20_000;

/** One thread that makes clips, one at a time. A job that hangs or crashes the thread fails alone: the next job gets a new thread. */
export class SpeechThread {
  #worker: Worker | null = null;
  #ready = false;
  #running: Running | null = null;

  /** `runLimitMs`: time limit of one job once it runs. `module`: the module that the thread runs. */
  constructor(
    private readonly runLimitMs: number,
    private readonly module: URL = builtModule(import.meta.url, './worker.ts'),
  ) {}

  get busy(): boolean {
    return this.#running !== null;
  }

  /** Starts the thread, which loads its voice, ahead of the first job. */
  start(): Worker {
    if (this.#worker !== null) return this.#worker;
    const worker = new Worker(this.module, { resourceLimits: { maxOldGenerationSizeMb: 512 } });
    worker.unref();
    const died = () => this.#worker === worker && this.#replace('The audio could not be prepared.');
    worker.on('message', (message: WorkerMessage) => this.#worker === worker && this.#heard(message));
    worker.on('error', died);
    worker.on('exit', died);
    this.#ready = false;
    this.#worker = worker;
    return worker;
  }

  /** Must not be called while the thread is busy. Rejects with an error of one sentence. */
  run(work: SpeechWork): Promise<MadeClip> {
    return new Promise((resolve, reject) => {
      const worker = this.start();
      const late = () => this.#replace('The voice did not start in time.');
      const timer = this.#ready ? this.#limit() : setTimeout(late, startLimitMs);
      this.#running = { resolve, reject, timer };
      worker.postMessage(work);
    });
  }

  async close(): Promise<void> {
    await this.#replace('The server is stopping.');
  }

  #limit(): NodeJS.Timeout {
    return setTimeout(() => this.#replace('The audio could not be prepared in time.'), this.runLimitMs);
  }

  #heard(message: WorkerMessage): void {
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
