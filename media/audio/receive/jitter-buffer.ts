/**
 * The caller's audio as an even stream, for an agent that asked for it (`jitter_buffer_ms`): a frame leaves every 20 ms. The buffer waits for as
 * long as nearly all audio of the last seconds needed, bridges what is later still with the last periods, and shortens pauses and speech when
 * it holds more than it needs. No clock of its own.
 */
import type { PhoneCodec } from '../../engine.js';
import { isQuiet } from '../detect/frame-level.js';
import { HeldNotes } from '../detect/held-notes.js';
import { AudioQueue } from '../playout/audio-queue.js';
import { GapBridge } from '../playout/gap-bridge.js';
import {
  hearableMs,
  heardAtOnceMs,
  likenessInSpeech,
  SearchBudget,
  SpeechPace,
  shorten,
  shorteningReadsMs,
} from '../playout/shortening.js';
import { readSamples, sampleConverter, sampleFormatOf } from '../sample-format.js';
import { ScratchBuffer } from '../scratch-buffer.js';
import { ArrivalDelay } from './arrival-delay.js';

export const bufferedFrameMs = 20;
/** What the thread and the timer need. */
const leastDelayMs = 5;
/** Before the caller's jitter is known. */
const firstDelayMs = 40;
/** With this much more than is needed, audio is left out; whole frames, so that the rest is less than this. */
const slackMs = bufferedFrameMs + 5;
/** More than this is not held: a phone that sends faster than the clock would be heard ever later, and fill the memory. */
const mostHeldMs = 2000;
/** After this long without audio nobody speaks to the agent: the stream ends, until there is audio again. */
const idleAfterMs = 500;
const bridgedFromMs = 160;
const roomMs = 240;
const dropsPerFrame = 4;

const linear = new ScratchBuffer(Int16Array);
/** Of all buffers of the thread. */
const searches = new SearchBudget();

export class JitterBuffer {
  /** Frames that had to be bridged or replaced by silence, because nothing was there. */
  underruns = 0;
  /** Left out again. */
  shortenedMs = 0;
  /** When the next frame leaves; Infinity: when there is audio again. */
  dueMs = Number.POSITIVE_INFINITY;
  private audio: AudioQueue;
  private frame: Uint8Array;
  private bytesPerMs: number;
  private readonly arrivals = new ArrivalDelay();
  private gap: GapBridge | null = null;
  private notes = new HeldNotes();
  private readonly pace = new SpeechPace();
  private owed = 0;
  private owedSinceMs = 0;
  private heardMs = Number.NEGATIVE_INFINITY;
  private lastAtMs = Number.NEGATIVE_INFINITY;
  /** Position of the next frame in the stream to the agent. */
  private atMs = 0;

  /** `mostMs`: the longest that audio waits for later audio. */
  constructor(
    private codec: PhoneCodec,
    private readonly mostMs: number,
    /** Valid during the call; `atMs` counts from the start of the stream. */
    private readonly deliver: (bytes: Uint8Array, atMs: number) => void,
  ) {
    this.bytesPerMs = sampleFormatOf[codec].bytesPerMs;
    this.audio = this.emptyQueue();
    this.frame = new Uint8Array(bufferedFrameMs * this.bytesPerMs);
  }

  /** Whether the frame that is due is there. */
  get ready(): boolean {
    return this.audio.queued >= this.frame.length;
  }

  private get targetMs(): number {
    return Math.min(this.mostMs, Math.max(leastDelayMs, this.arrivals.spreadMs));
  }

  /** 20 ms of the caller's audio of the position `atMs` in its stream. Returns how long it will wait here. */
  push(bytes: Uint8Array, atMs: number, nowMs: number): number {
    const { arrivals } = this;
    if (atMs < this.lastAtMs) arrivals.reset();
    // Silence in place of what was not sent comes late, when that is known: this is no jitter.
    if (!isQuiet(bytes, this.codec)) arrivals.arrived(atMs, nowMs);
    this.lastAtMs = atMs;
    this.heardMs = nowMs;
    this.audio.append(bytes);
    const excess = this.audio.queued - mostHeldMs * this.bytesPerMs;
    if (excess > 0) this.leaveOut(excess);
    const queued = this.audio.queued - bytes.length;
    if (this.dueMs === Number.POSITIVE_INFINITY) {
      this.atMs = Math.max(this.atMs, atMs);
      this.dueMs = nowMs + Math.min(this.mostMs, firstDelayMs);
    }
    const waitMs = queued / this.bytesPerMs + this.dueMs - nowMs;
    const delayMs = nowMs + waitMs - arrivals.earliestMs(atMs);
    const excessMs = delayMs - this.targetMs;
    if (this.owed === 0 && excessMs >= slackMs) {
      this.owed = Math.floor(excessMs / bufferedFrameMs) * this.frame.length;
      this.owedSinceMs = 0;
      this.pace.begin();
      this.notes.interrupted();
      this.hear(this.audio.last(Math.min(this.audio.played, hearableMs(searches) * this.bytesPerMs)));
    }
    return Math.max(0, waitMs);
  }

  /** Delivers the frame that is due. */
  slot(nowMs: number): void {
    const { audio, frame } = this;
    searches.slot();
    if (audio.queued === 0 && nowMs - this.heardMs >= idleAfterMs) {
      this.end();
      return;
    }
    this.dueMs += bufferedFrameMs;
    if (this.owed > 0) this.dropQuiet();
    if (!(this.owed > 0 && this.takeShortened())) this.takeWhole();
    if (this.owed > 0) this.hear(frame);
    const { atMs } = this;
    this.atMs += bufferedFrameMs;
    this.deliver(frame, atMs);
  }

  changeCodec(codec: PhoneCodec): void {
    if (codec === this.codec) return;
    const { audio } = this;
    const change = sampleConverter(this.codec, codec);
    this.owed = 0;
    this.codec = codec;
    this.bytesPerMs = sampleFormatOf[codec].bytesPerMs;
    this.audio = this.emptyQueue();
    if (audio.queued > 0) this.audio.append(change(audio.bytes.subarray(audio.from, audio.to)));
    this.frame = new Uint8Array(bufferedFrameMs * this.bytesPerMs);
    this.gap = null;
    this.notes.reset();
  }

  private end(): void {
    this.dueMs = Number.POSITIVE_INFINITY;
    this.owed = 0;
    this.gap?.stop();
    this.arrivals.reset();
    this.notes.reset();
  }

  private takeWhole(): void {
    const { audio, frame } = this;
    const filled = Math.min(frame.length, audio.queued);
    for (let i = 0; i < filled; i++) frame[i] = audio.bytes[audio.from + i]!;
    audio.advance(filled);
    if (filled > 0 && this.gap?.active) {
      this.gap.end(frame, 0, filled);
      audio.correctPlayed(frame, 0, filled);
    }
    if (filled === frame.length) return;
    this.underruns += 1;
    // What is late is bridged now, and heard later.
    this.owed = 0;
    if (!this.bridge(filled)) frame.fill(sampleFormatOf[this.codec].silence, filled);
  }

  private bridge(from: number): boolean {
    const { audio, frame } = this;
    if (audio.played < bridgedFromMs * this.bytesPerMs) return false;
    this.gap ??= new GapBridge(this.codec);
    if (!this.gap.active && !this.gap.begin(audio.last(audio.played))) return false;
    return this.gap.fill(frame, from, frame.length - from);
  }

  private dropQuiet(): void {
    const { audio, frame } = this;
    this.owedSinceMs += bufferedFrameMs;
    for (let drops = 0; drops < dropsPerFrame && this.owed > 0; drops++) {
      const count = Math.min(this.owed, frame.length);
      if (audio.queued < count + frame.length) return;
      if (!isQuiet(audio.bytes, this.codec, audio.from, audio.from + count)) return;
      this.leaveOut(count);
    }
  }

  private takeShortened(): boolean {
    const { audio, frame, pace, bytesPerMs } = this;
    if (this.notes.kind !== 'speech') return false;
    pace.played(bufferedFrameMs);
    const most = Math.floor(pace.mostMs * bytesPerMs);
    const read = Math.min(audio.queued, frame.length + shorteningReadsMs * bytesPerMs);
    if (most === 0 || read <= frame.length || !searches.take()) return false;
    const line = audio.bytes.subarray(audio.from, audio.from + read);
    const removed = shorten(
      line,
      this.codec,
      frame.length,
      this.owed,
      most,
      likenessInSpeech(this.owedSinceMs),
      frame,
      0,
    );
    if (removed === 0) return false;
    this.leaveOut(removed);
    pace.leftOut(removed / bytesPerMs);
    audio.advance(frame.length);
    audio.correctPlayed(frame, 0, frame.length);
    return true;
  }

  private leaveOut(count: number): void {
    this.audio.leaveOut(count);
    this.owed = Math.max(0, this.owed - count);
    this.shortenedMs += count / this.bytesPerMs;
  }

  private hear(bytes: Uint8Array): void {
    this.notes.hear(readSamples(bytes, this.codec, linear), sampleFormatOf[this.codec].sampleRateHz);
  }

  private emptyQueue(): AudioQueue {
    return new AudioQueue(heardAtOnceMs * this.bytesPerMs, roomMs * this.bytesPerMs);
  }
}
