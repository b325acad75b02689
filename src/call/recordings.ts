import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { MediaSession } from '../../media/engine.js';
import type { Calls } from '../store/calls.js';
import type { Call } from './call.js';

/** Recordings of calls: one file per call, by day, and what their records say of them. */
export class Recordings {
  readonly #folder: string;
  readonly #records: Calls;
  readonly #running = new Map<string, Promise<void>>();

  constructor(folder: string, records: Calls) {
    this.#folder = folder;
    this.#records = records;
  }

  /** Records the call from now to its end, once: another agent that takes over is in the same file. */
  begin(call: Call, session: MediaSession): void {
    if (this.#running.has(call.id)) return;
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
    const done = recording.ended.then(({ durationMs, bytes, error }) => {
      this.#running.delete(call.id);
      call.recording = null;
      // What was written before the disk refused is a recording too.
      if (bytes > 0) this.#records.recorded(call.id, pathToFileURL(file).href);
      if (error === null) {
        this.#records.event(call.id, 'recording.completed', { duration_ms: Math.round(durationMs), bytes });
      } else this.#records.event(call.id, 'recording.failed', { message: error, bytes });
    });
    this.#running.set(call.id, done);
  }

  /** Resolves when every file is closed. */
  async settled(): Promise<void> {
    await Promise.all(this.#running.values());
  }
}
