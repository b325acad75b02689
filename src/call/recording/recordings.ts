import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { uuidv7 } from 'uuidv7';
import type { MediaSession, RecordingEnd, RecordOptions } from '../../../media/engine.js';
import type { Logger } from '../../log.js';
import type { RecordingRecords } from '../../store/calls/recordings.js';
import type { MadeRecording } from '../../webhook/request-bodies.js';
import type { Call } from '../core/call.js';
import { discard } from './call-recording.js';

/** A running recording. */
export interface PartialRecording {
  /** The facts that are known from the start. */
  readonly begun: MadeRecording;
  readonly file: string;
  /** Resolves when the file is complete and in the records. Never rejects. */
  readonly made: Promise<MadeRecording & { by: RecordingEnd['by'] }>;
  stop(): void;
  /** While paused, the file gets silence. */
  pause(paused: boolean): void;
}

export interface PartialRecordingsOptions {
  folder: string;
  records: RecordingRecords;
  log: Logger;
  /** The public base URL of our HTTP listener. */
  publicUrl(): string;
}

/** Recordings of parts of a call (`record`, `dial`, conferences), each with a file, a record and a URL of its own. */
export class PartialRecordings {
  private readonly running = new Set<Promise<unknown>>();

  constructor(private readonly options: PartialRecordingsOptions) {}

  /** `session`: a media session, or a conference. */
  begin(
    call: Pick<Call, 'id' | 'event'>,
    session: Pick<MediaSession, 'record'>,
    source: 'record' | 'dial' | 'conference' | 'start' | 'api',
    rules: Omit<RecordOptions, 'path'>,
    id = uuidv7(),
  ): PartialRecording {
    const { folder, publicUrl } = this.options;
    const token = randomBytes(16).toString('base64url');
    const startedAt = new Date();
    const file = path.join(folder, startedAt.toISOString().slice(0, 10), `${call.id}.${id}.wav`);
    const begun: MadeRecording = {
      id,
      url: `${publicUrl()}/recordings/${id}/${token}`,
      durationMs: 0,
      startedAt,
      channels: rules.tracks === 'phone' ? 1 : 2,
      error: null,
    };
    call.event('recording.started', { recording_id: id, source });
    const recording = session.record({ ...rules, path: file });
    const made = recording.ended.then(async (end) => {
      // What was written before a disk error can be read as well.
      const unknown = end.bytes === 0 ? null : await this.keep({ id, token, call, file, startedAt }, end);
      const isKept = end.bytes > 0 && unknown === null;
      if (!isKept) await discard(file);
      const error = end.error ?? unknown;
      const { durationMs, bytes } = isKept ? end : { durationMs: 0, bytes: 0 };
      const about = {
        ...{ recording_id: id, source, duration_ms: Math.round(durationMs), bytes },
        ...(isKept && { recording_url: begun.url }),
      };
      if (error === null) call.event('recording.completed', about);
      else call.event('recording.failed', { ...about, message: error });
      return { ...begun, durationMs: error === null ? end.durationMs : 0, error, by: end.by };
    });
    this.running.add(made);
    void made.then(() => this.running.delete(made));
    return { begun, file, made, stop: () => void recording.stop(), pause: (paused) => recording.pause(paused) };
  }

  /** Resolves when every file is closed. */
  async settled(): Promise<void> {
    await Promise.all(this.running);
  }

  /** Writes the record. Returns null, or why it could not be written. */
  private async keep(
    take: { id: string; token: string; call: Pick<Call, 'id'>; file: string; startedAt: Date },
    { durationMs, bytes }: RecordingEnd,
  ): Promise<string | null> {
    const { id, token, call, file, startedAt: createdAt } = take;
    try {
      const about = { id, token, callId: call.id, durationMs: Math.round(durationMs), bytes, createdAt };
      await this.options.records.add({ ...about, file: pathToFileURL(file).href });
      return null;
    } catch (error) {
      this.options.log.error({ err: error, call_id: call.id, recording_id: id }, 'a recording has no record');
      return 'The recording could not be noted in the database.';
    }
  }
}
