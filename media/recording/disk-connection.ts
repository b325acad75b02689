/** A media thread's connection to the disk thread. */
import type { MessagePort } from 'node:worker_threads';
import type { FromDisk, SampleRange, ToDisk, WavForm } from './disk-messages.js';
import type { FileEnd, RecordingStore } from './memory-file.js';

/** The most blocks of one second on their way to the disk; further blocks are dropped and become silence in the file. */
const waitingAtMost = 30;
const closeLimitMs = 10_000;

interface OpenFile {
  waiting: number;
  dropped: number;
  timer: NodeJS.Timeout | null;
  onClosed(end: FileEnd): void;
}

export class DiskConnection implements RecordingStore {
  private readonly files = new Map<number, OpenFile>();
  private nextId = 1;
  private gone = false;

  constructor(private readonly port: MessagePort) {
    port.on('message', (message: FromDisk) => this.receive(message));
    port.on('close', () => this.lose('The disk thread is gone.'));
    // The port must not keep an otherwise idle media thread alive.
    port.unref();
  }

  /** `onClosed` is called exactly once, also when the file cannot be opened. */
  open(path: string, form: WavForm, onClosed: OpenFile['onClosed']): number {
    const id = this.nextId++;
    this.files.set(id, { waiting: 0, dropped: 0, timer: null, onClosed });
    if (this.gone) this.settle(id, nothing('The disk thread is gone.'));
    else this.say({ kind: 'open', id, path, form });
    return id;
  }

  write(id: number, index: number, samples: Int16Array): void {
    const file = this.files.get(id);
    if (!file) return;
    if (file.waiting >= waitingAtMost) {
      file.dropped += 1;
      return;
    }
    file.waiting += 1;
    this.say({ kind: 'block', id, index, samples }, [samples.buffer as ArrayBuffer]);
  }

  close(id: number, keep: SampleRange | null = null): void {
    const file = this.files.get(id);
    if (!file || file.timer) return;
    this.say({ kind: 'close', id, keep });
    const late = nothing('The disk thread did not close the recording in time.');
    file.timer = setTimeout(() => this.settle(id, late), closeLimitMs);
  }

  /** Closes the open files, waits for that within the time limit of closing, then closes the port. */
  async end(): Promise<void> {
    const open = [...this.files.keys()];
    await Promise.all(
      open.map((id) => {
        const file = this.files.get(id);
        if (!file) return null;
        this.close(id);
        const { onClosed } = file;
        return new Promise<void>((resolve) => {
          file.onClosed = (end) => {
            onClosed(end);
            resolve();
          };
        });
      }),
    );
    this.port.close();
  }

  private receive(message: FromDisk): void {
    const file = this.files.get(message.id);
    if (!file) return;
    if (message.kind === 'written') file.waiting -= 1;
    else {
      const dropped = file.dropped > 0 ? `The disk was too slow: ${file.dropped} s are missing.` : null;
      const { bytes, durationMs, error } = message;
      this.settle(message.id, { bytes, durationMs, error: error ?? dropped });
    }
  }

  private lose(error: string): void {
    this.gone = true;
    for (const id of [...this.files.keys()]) this.settle(id, nothing(error));
  }

  private settle(id: number, end: FileEnd): void {
    const file = this.files.get(id);
    if (!file) return;
    this.files.delete(id);
    if (file.timer) clearTimeout(file.timer);
    file.onClosed(end);
  }

  private say(message: ToDisk, transfer: ArrayBuffer[] = []): void {
    this.port.postMessage(message, transfer);
  }
}

function nothing(error: string): FileEnd {
  return { bytes: 0, durationMs: 0, error };
}
