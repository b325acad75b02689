/** The recordings of a session: both directions of its audio, sent to the disk thread in blocks of one second. Each ends exactly once. */
import type { AgentEcho } from '../../audio/detect/agent-echo.js';
import { DtmfListener } from '../../audio/detect/dtmf-tones.js';
import { UtteranceEndpoint } from '../../audio/detect/utterance-endpoint.js';
import { G711Converter, sampleFormatOf } from '../../audio/sample-format.js';
import {
  MediaError,
  type PhoneCodec,
  type RecordingEnd,
  type RecordOptions,
  type RedactedMedia,
} from '../../engine.js';
import type { SampleRange } from '../../recording/disk-messages.js';
import { MemoryFile, type RecordingStore } from '../../recording/memory-file.js';
import { Recorder } from '../../recording/recorder.js';

const atOnce = 4;
/** Sample rate of a recording that starts with a wideband codec; with G.711 the file keeps 8 kHz. */
const wideRateHz = 16_000;
const narrowRateHz = 8000;
/** What was recorded this long before a key was noticed is silenced too: less than a block waits before it goes to the disk. */
const beforeKeyMs = 250;
/** Silence after the last sign of a key, and after a redacted passage: packets that were under way. */
const afterRedactedMs = 200;
/** Margin that a trimmed recording keeps around the speech. */
const marginMs = 100;

interface Running {
  activity: number;
  paused: boolean;
  recorder: Recorder;
  /** Goes to the disk; what is in memory is not redacted. */
  isStored: boolean;
  words: UtteranceEndpoint | null;
  endsAtMs: number;
  finish(by: RecordingEnd['by']): void;
}

export class SessionRecordings {
  private readonly running: Running[] = [];
  private redacted: RedactedMedia = { audio: false, streams: false, keys: false };
  /** The last stretch without audio; its audio is left out by its time of arrival and by its place in the recording. */
  private silentFromMs = Number.NEGATIVE_INFINITY;
  private silentUntilMs = Number.NEGATIVE_INFINITY;
  /** Of the phone, and of what is sent to it; only while keys are redacted. */
  private keysHeard: { listener: DtmfListener; narrow: G711Converter }[] = [];

  get any(): boolean {
    return this.running.length > 0;
  }

  /** Returns a function that stops the recording. Throws `MediaError` `busy`. */
  begin(
    activity: number,
    options: RecordOptions,
    disk: RecordingStore,
    now: () => number,
    codec: PhoneCodec,
    begunToSpeak: () => void,
    settle: (end: RecordingEnd) => void,
    /** Of what is sent to the phone; for a recording that waits for silence. */
    echo: AgentEcho | null = null,
  ): () => void {
    if (this.running.length >= atOnce) throw new MediaError('busy', `A session has ${atOnce} recordings at most.`);
    const startMs = now();
    const mostMs = options.maxMs ?? Number.POSITIVE_INFINITY;
    const sampleRateHz = sampleFormatOf[codec].linear ? wideRateHz : narrowRateHz;
    const samplesPerMs = sampleRateHz / 1000;
    const channels = options.tracks === 'phone' ? 1 : 2;
    let end: { by: RecordingEnd['by']; durationMs: number } | null = null;
    const files = options.path === null ? new MemoryFile() : disk;
    let file = 0;
    const finish = (by: RecordingEnd['by']) => {
      const at = this.running.indexOf(recording);
      if (at < 0) return;
      this.running.splice(at, 1);
      const wholeMs = recording.recorder.end(now(), mostMs);
      const keep = options.trim && words ? partToKeep(words, wholeMs, samplesPerMs) : null;
      end = { by, durationMs: Math.round(keep ? (keep.to - keep.from) / samplesPerMs : wholeMs) };
      files.close(file, keep);
    };
    const words = options.silence ? new UtteranceEndpoint(startMs, options.silence, begunToSpeak, echo) : null;
    const recording: Running = {
      activity,
      paused: false,
      isStored: options.path !== null,
      recorder: new Recorder(startMs, (index, samples) => files.write(file, index, samples), channels, sampleRateHz),
      words,
      endsAtMs: startMs + mostMs,
      finish,
    };
    this.running.push(recording);
    if (recording.isStored && startMs < this.silentUntilMs)
      recording.recorder.silence(this.silentFromMs, this.silentUntilMs);
    file = files.open(options.path ?? '', { channels, sampleRateHz }, ({ bytes, durationMs, error, wav }) => {
      finish('failed');
      const whole = { by: 'failed' as const, durationMs, ...end };
      settle({
        ...whole,
        ...(error !== null && { durationMs: Math.round(durationMs) }),
        bytes,
        error,
        ...(wav && { wav }),
      });
    });
    return () => finish('stopped');
  }

  /** What no recording has from now on, those that begin later included. */
  redact(what: RedactedMedia, nowMs: number): void {
    const before = this.redacted;
    this.redacted = what;
    if (what.keys !== before.keys)
      this.keysHeard = what.keys
        ? [0, 1].map(() => ({ listener: new DtmfListener(), narrow: new G711Converter() }))
        : [];
    if (what.audio === before.audio) return;
    if (what.audio) this.silence(nowMs - (what.lateMs ?? 0), Number.POSITIVE_INFINITY);
    else this.silence(this.silentFromMs, nowMs + afterRedactedMs + (before.lateMs ?? 0));
  }

  /** A key is pressed at this moment. */
  keySounds(nowMs: number): void {
    if (!this.redacted.keys || this.redacted.audio) return;
    this.silence(nowMs > this.silentUntilMs ? nowMs - beforeKeyMs : this.silentFromMs, nowMs + afterRedactedMs);
  }

  /** While paused, the file gets silence. */
  pause(activity: number, paused: boolean): void {
    for (const recording of this.running) if (recording.activity === activity) recording.paused = paused;
  }

  fromPhone(timestamp: number, payload: Uint8Array, codec: PhoneCodec, nowMs: number): void {
    if (this.running.length === 0) return;
    const silent = this.isSilent(0, payload, codec, nowMs);
    for (const { recorder, words, paused, isStored } of this.running) {
      if (!paused && !(silent && isStored)) recorder.fromPhone(timestamp, payload, codec, nowMs);
      words?.hear(timestamp, payload, codec, nowMs);
    }
  }

  toPhone(timestamp: number, payload: Uint8Array, codec: PhoneCodec, nowMs: number): void {
    const silent = this.isSilent(1, payload, codec, nowMs);
    for (const { recorder, paused, isStored } of this.running)
      if (!paused && !(silent && isStored)) recorder.toPhone(timestamp, payload, codec, nowMs);
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

  private silence(fromMs: number, toMs: number): void {
    this.silentFromMs = fromMs;
    this.silentUntilMs = toMs;
    for (const { recorder, isStored } of this.running) if (isStored) recorder.silence(fromMs, toMs);
  }

  private isSilent(direction: 0 | 1, payload: Uint8Array, codec: PhoneCodec, nowMs: number): boolean {
    const heard = this.keysHeard[direction];
    if (heard) {
      heard.listener.hear(heard.narrow.of(payload, codec), G711Converter.lawOf(codec));
      if (heard.listener.pressed) this.keySounds(nowMs);
    }
    return nowMs < this.silentUntilMs;
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
