/** The recordings of a session: both directions of its audio, sent to the disk thread in blocks of one second. Each ends exactly once. */

import { UtteranceEndpoint } from '../../audio/detect/utterance-endpoint.js';
import { sampleFormatOf } from '../../audio/sample-format.js';
import { MediaError, type PhoneCodec, type RecordingEnd, type RecordOptions } from '../../engine.js';
import type { DiskConnection } from '../../recording/disk-connection.js';
import type { SampleRange } from '../../recording/disk-messages.js';
import { Recorder } from '../../recording/recorder.js';

const atOnce = 4;
/** Sample rate of a recording that starts with a wideband codec; with G.711 the file keeps 8 kHz. */
const wideRateHz = 16_000;
const narrowRateHz = 8000;
/** Margin that a trimmed recording keeps around the speech. */
const marginMs = 100;

interface Running {
  activity: number;
  paused: boolean;
  recorder: Recorder;
  words: UtteranceEndpoint | null;
  endsAtMs: number;
  finish(by: RecordingEnd['by']): void;
}

export class SessionRecordings {
  private readonly running: Running[] = [];

  get any(): boolean {
    return this.running.length > 0;
  }

  /** Returns a function that stops the recording. Throws `MediaError` `busy`. */
  begin(
    activity: number,
    options: RecordOptions,
    disk: DiskConnection,
    now: () => number,
    codec: PhoneCodec,
    begunToSpeak: () => void,
    settle: (end: RecordingEnd) => void,
  ): () => void {
    if (this.running.length >= atOnce) throw new MediaError('busy', `A session has ${atOnce} recordings at most.`);
    const startMs = now();
    const mostMs = options.maxMs ?? Number.POSITIVE_INFINITY;
    const sampleRateHz = sampleFormatOf[codec].linear ? wideRateHz : narrowRateHz;
    const samplesPerMs = sampleRateHz / 1000;
    const channels = options.tracks === 'phone' ? 1 : 2;
    let end: { by: RecordingEnd['by']; durationMs: number } | null = null;
    let file = 0;
    const finish = (by: RecordingEnd['by']) => {
      const at = this.running.indexOf(recording);
      if (at < 0) return;
      this.running.splice(at, 1);
      const wholeMs = recording.recorder.end(now(), mostMs);
      const keep = options.trim && words ? partToKeep(words, wholeMs, samplesPerMs) : null;
      end = { by, durationMs: Math.round(keep ? (keep.to - keep.from) / samplesPerMs : wholeMs) };
      disk.close(file, keep);
    };
    const words = options.silence ? new UtteranceEndpoint(startMs, options.silence, begunToSpeak) : null;
    const recording: Running = {
      activity,
      paused: false,
      recorder: new Recorder(startMs, (index, samples) => disk.write(file, index, samples), channels, sampleRateHz),
      words,
      endsAtMs: startMs + mostMs,
      finish,
    };
    this.running.push(recording);
    file = disk.open(options.path, { channels, sampleRateHz }, ({ bytes, durationMs, error }) => {
      finish('failed');
      const whole = { by: 'failed' as const, durationMs, ...end };
      settle({ ...whole, ...(error !== null && { durationMs: Math.round(durationMs) }), bytes, error });
    });
    return () => finish('stopped');
  }

  /** While paused, the file gets silence. */
  pause(activity: number, paused: boolean): void {
    for (const recording of this.running) if (recording.activity === activity) recording.paused = paused;
  }

  fromPhone(timestamp: number, payload: Uint8Array, codec: PhoneCodec, nowMs: number): void {
    for (const { recorder, words, paused } of this.running) {
      if (!paused) recorder.fromPhone(timestamp, payload, codec, nowMs);
      words?.hear(timestamp, payload, codec, nowMs);
    }
  }

  toPhone(timestamp: number, payload: Uint8Array, codec: PhoneCodec, nowMs: number): void {
    for (const { recorder, paused } of this.running) if (!paused) recorder.toPhone(timestamp, payload, codec, nowMs);
  }

  /** Called after each slot. */
  tick(nowMs: number): void {
    // Backwards, since a recording that finishes leaves the list.
    for (let i = this.running.length - 1; i >= 0; i--) {
      const recording = this.running[i]!;
      if (nowMs >= recording.endsAtMs) recording.finish('limit');
      else if (recording.words?.tick(nowMs)) recording.finish('silence');
      else recording.recorder.tick(nowMs);
    }
  }

  close(): void {
    for (const recording of [...this.running]) recording.finish('closed');
  }
}

function partToKeep({ firstMs, lastMs }: UtteranceEndpoint, wholeMs: number, samplesPerMs: number): SampleRange {
  if (firstMs === null || lastMs === null) return { from: 0, to: 0 };
  return {
    from: Math.round(Math.max(0, firstMs - marginMs) * samplesPerMs),
    to: Math.round(Math.min(wholeMs, lastMs + marginMs) * samplesPerMs),
  };
}
