import { rm } from 'node:fs/promises';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { MediaSession } from '../../../media/engine.js';
import type { Calls } from '../../store/calls/calls.js';
import type { Call } from '../core/call.js';

/** Recordings of whole calls: one file per call, in a folder per day. */
export class Recordings {
  readonly #folder: string;
  readonly #records: Calls;
  readonly #begun = new WeakSet<Call>();
  readonly #running = new Set<Promise<void>>();

  constructor(folder: string, records: Calls) {
    this.#folder = folder;
    this.#records = records;
  }

  /**
   * Records the call from now to its end, once; an agent that takes over is in the same file. A failed recording is not started
   * again, so a call has one `recording.completed` or one `recording.failed`.
   */
  begin(call: Call, session: MediaSession): void {
    if (this.#begun.has(call)) return;
    this.#begun.add(call);
    const day = new Date().toISOString().slice(0, 10);
    const file = path.join(this.#folder, day, `${call.id}.wav`);
    call.event('recording.started');
    const recording = session.record({ path: file });
    let isPaused = false;
    call.recording = {
      pause: (paused) => {
        if (paused === isPaused) return;
        isPaused = paused;
        recording.pause(paused);
        call.event(paused ? 'recording.paused' : 'recording.resumed');
      },
    };
    const done = recording.ended.then(async ({ durationMs, bytes, error }) => {
      call.recording = null;
      // What was written before a disk error is a recording as well.
      if (bytes > 0) this.#records.recorded(call.id, pathToFileURL(file).href);
      else await discard(file);
      const about = { duration_ms: Math.round(durationMs), bytes };
      if (error === null) this.#records.event(call.id, 'recording.completed', about);
      else this.#records.event(call.id, 'recording.failed', { ...about, message: error });
    });
    this.#running.add(done);
    void done.finally(() => this.#running.delete(done));
  }

  /** Resolves when every file is closed. */
  async settled(): Promise<void> {
    await Promise.all(this.#running);
  }
}

/** Removes the file of a failed recording that has no record. */
export async function discard(file: string): Promise<void> {
  await rm(file, { force: true }).catch(() => {}); // the disk error is already reported
}
