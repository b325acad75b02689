import { Worker } from 'node:worker_threads';
import { builtModule } from '../../config/built.js';
import type { FliteVoice } from './flite.js';

export type SpeechJob = { id: number } & (
  | { kind: 'say'; text: string; voice: FliteVoice }
  | { kind: 'decode'; bytes: Uint8Array }
);
export type SpeechAnswer = { id: number; clip: SharedArrayBuffer } | { id: number; error: string };

type Work = { kind: 'say'; text: string; voice: FliteVoice } | { kind: 'decode'; bytes: Uint8Array };

interface Waiting {
  resolve(clip: SharedArrayBuffer): void;
  reject(error: Error): void;
  timer: NodeJS.Timeout;
}

const limitMs = 20_000;
const mostWaiting = 200;

/** The thread that makes clips of texts and files. A job that hangs, or kills it, costs only the jobs of that moment: it is replaced. */
export class SpeechThread {
  private worker: Worker | null = null;
  private readonly waiting = new Map<number, Waiting>();
  private nextId = 1;
  private closed = false;

  /** Ahead of the first job: the thread starts and loads its voice. */
  start(): void {
    if (!this.closed) this.current();
  }

  /** A clip of G.711 μ-law. Rejects with one sentence. */
  make(work: Work): Promise<SharedArrayBuffer> {
    if (this.closed) return Promise.reject(new Error('The server is stopping.'));
    if (this.waiting.size >= mostWaiting) return Promise.reject(new Error('Too many audio files wait to be prepared.'));
    const id = this.nextId++;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.replace('The audio could not be prepared in time.'), limitMs);
      this.waiting.set(id, { resolve, reject, timer });
      this.current().postMessage({ id, ...work });
    });
  }

  async close(): Promise<void> {
    this.closed = true;
    const worker = this.worker;
    this.fail('The server is stopping.');
    await worker?.terminate();
  }

  private current(): Worker {
    if (this.worker !== null) return this.worker;
    const worker = new Worker(builtModule(import.meta.url, './worker.ts'), {
      resourceLimits: { maxOldGenerationSizeMb: 512 },
    });
    worker.unref();
    worker.on('message', (answer: SpeechAnswer) => this.settle(answer));
    const died = () => {
      if (this.worker === worker) this.fail('The audio could not be prepared.');
    };
    worker.on('error', died);
    worker.on('exit', died);
    this.worker = worker;
    return worker;
  }

  private settle(answer: SpeechAnswer): void {
    const waiting = this.waiting.get(answer.id);
    if (waiting === undefined) return;
    this.waiting.delete(answer.id);
    clearTimeout(waiting.timer);
    if ('clip' in answer) waiting.resolve(answer.clip);
    else waiting.reject(new Error(answer.error));
  }

  private replace(reason: string): void {
    void this.worker?.terminate();
    this.fail(reason);
  }

  private fail(reason: string): void {
    this.worker = null;
    for (const { reject, timer } of this.waiting.values()) {
      clearTimeout(timer);
      reject(new Error(reason));
    }
    this.waiting.clear();
  }
}
