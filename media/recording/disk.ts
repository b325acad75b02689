/** The disk thread as seen by the main thread: started with the first recording, ended with the engine. */
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import { builtModule } from '../../config/built.js';

const stopLimitMs = 5000;

export class Disk {
  alive = true;
  private readonly worker: Worker;
  private readonly exited: Promise<void>;

  constructor(onDied: (detail: string) => void) {
    this.worker = new Worker(builtModule(import.meta.url, './disk-entry.ts'), { name: 'disk', execArgv: [] });
    let failure = 'it ended';
    this.worker.on('error', (error: unknown) => {
      failure = error instanceof Error ? error.message : String(error);
    });
    this.exited = new Promise((resolve) => {
      this.worker.on('exit', () => {
        const died = this.alive;
        this.alive = false;
        if (died) onDied(failure);
        resolve();
      });
    });
  }

  /** Creates a port to the disk thread, for a media thread. */
  connect(): MessagePort {
    const { port1, port2 } = new MessageChannel();
    this.worker.postMessage(port1, [port1]);
    return port2;
  }

  /** Closes the files; a thread that hangs is terminated after a time limit. */
  async stop(): Promise<void> {
    if (!this.alive) return;
    this.alive = false;
    this.worker.postMessage(null);
    const limit = setTimeout(() => void this.worker.terminate(), stopLimitMs);
    await this.exited;
    clearTimeout(limit);
  }
}
