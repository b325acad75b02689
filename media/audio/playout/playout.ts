/** The playout queue of an agent: audio that the phone has not heard yet, in order, with marks between. No timer and no clock. */
import type { PhoneCodec } from '../../engine.js';
import { isQuiet } from '../detect/frame-level.js';
import { HeldNotes } from '../detect/held-notes.js';
import { ToneListener } from '../detect/steady-tone.js';
import { readSamples, sampleConverter, sampleFormatOf } from '../sample-format.js';
import { ScratchBuffer } from '../scratch-buffer.js';
import { GapBridge } from './gap-bridge.js';
import type { PhoneAudio } from './phone-audio.js';
import { PlayedAudio } from './played-audio.js';
import { likenessInSpeech, likenessInTone, SearchBudget, shorten, shorteningReadsMs } from './shortening.js';
import { StandingDelay } from './standing-delay.js';

/** Shared by all queues of the thread. */
const linear = new ScratchBuffer(Int16Array);
const ahead = new ScratchBuffer(Uint8Array);
const searches = new SearchBudget();

/** The most audio that an agent may queue; the rest is discarded. */
export const playoutLimitMs = 10 * 60_000;
/** Water marks of the `high` level. */
const highWaterMs = 0.9 * playoutLimitMs;
const lowWaterMs = 0.8 * playoutLimitMs;
/** Excess audio is removed in pauses and by shortening speech; sounds that allow neither are cut after this long. */
const patienceMs = 3000;
/** One tone for this long is no key and no melody: whole periods of it can be left out. */
const steadyToneMs = 1000;
/** The most that is cut from a sound at once. */
const cutAtMostMs = 1000;
/** Slots move by no less than this. */
const leastNearerMs = 1.5;
/** In a pause, up to this many frames are dropped for each one kept. */
const dropsPerFrame = 4;
/** Length of the memory of what was played: enough to recognize notes and to continue a word. */
const playedMs = 160;
/** After an event that may leave a standing delay, so many frames are listened to. */
const framesListened = 60;
/** After this many slots without audio, the next audio is a new utterance. */
const utteranceSlots = 25;

interface Chunk {
  bytes: Uint8Array;
  /** Bytes already played. */
  from: number;
  itemId: string | undefined;
}

export interface HeardPosition {
  /** The item that was playing. */
  itemId?: string;
  heardMs: number;
  /** Of the whole queue. */
  droppedMs: number;
  /** The item that was playing and those queued after it, in order. */
  items: HeardItem[];
}

export interface HeardItem {
  /** null when the agent names no items. */
  itemId: string | null;
  heardMs: number;
  droppedMs: number;
}

/** Fill level of a queue: `high` until it is `normal` again; `full`: audio was discarded. */
export type QueueLevel = 'normal' | 'high' | 'full';

export class Playout implements PhoneAudio {
  /** A mark was reached: by playing, or (`cleared`) by `clear`. */
  onMark: (name: string, cleared: boolean) => void = () => {};
  /** The level of the queue changed. */
  onLevel: (level: QueueLevel) => void = () => {};
  trimmedMs = 0;
  private level: QueueLevel = 'normal';
  private readonly entries: (Chunk | string)[] = [];
  private head = 0;
  private queuedBytes = 0;
  private itemId: string | undefined;
  private itemHeardBytes = 0;
  private readonly standing = new StandingDelay();
  /** Excess bytes to be removed, and the playing time since that was noticed. */
  private owed = 0;
  private owedSinceMs = 0;
  private drySlots = utteranceSlots;
  private nearerMs = 0;
  private played: PlayedAudio;
  private gap: GapBridge | null = null;
  private notes: HeldNotes | null = null;
  /** Listens to notes while they are late; null otherwise. */
  private tone: ToneListener | null = null;
  /** Frames that are still listened to, and whether the last one was. */
  private listening = 0;
  private listened = false;

  private bytesPerMs: number;

  constructor(private codec: PhoneCodec) {
    this.bytesPerMs = sampleFormatOf[codec].bytesPerMs;
    this.played = new PlayedAudio(playedMs * this.bytesPerMs);
  }

  get queuedMs(): number {
    return this.queuedBytes / this.bytesPerMs;
  }

  get realTime(): boolean {
    return this.standing.paced;
  }

  /** Takes ownership of the bytes, which are in the phone's codec. Returns the number of bytes that did not fit. */
  push(bytes: Uint8Array, itemId?: string): number {
    const room = playoutLimitMs * this.bytesPerMs - this.queuedBytes;
    const fitting = bytes.length <= room ? bytes : bytes.subarray(0, Math.max(0, room));
    if (fitting.length > 0) {
      // Without item ids, the heard time counts from the start of the utterance.
      if (this.queuedBytes === 0 && itemId === undefined) this.itemHeardBytes = 0;
      this.entries.push({ bytes: fitting, from: 0, itemId });
      this.queuedBytes += fitting.length;
      this.standing.queued(fitting.length / this.bytesPerMs);
    }
    if (this.level === 'normal' && this.queuedMs > highWaterMs) this.watchLevel();
    if (fitting.length < bytes.length && this.level !== 'full') {
      this.level = 'full';
      this.onLevel('full');
    }
    return bytes.length - fitting.length;
  }

  /** The last pushed audio arrived this much earlier than needed. */
  spare(ms: number): void {
    this.standing.spare(ms);
  }

  takeNearerMs(): number {
    const ms = this.nearerMs;
    this.nearerMs = 0;
    return ms;
  }

  mark(name: string): void {
    if (this.queuedBytes === 0) this.onMark(name, false);
    else this.entries.push(name);
  }

  /** Fills `into` from `at` on; returns the number of bytes of audio. Marks that are passed are reached. */
  take(into: Uint8Array, at: number, length: number): number {
    searches.slot();
    if (this.owed > 0) this.dropQuiet(length);
    const filled = this.owed > 0 && this.takeShortened(into, at, length) ? length : this.takeWhole(into, at, length);
    if (this.queuedBytes === 0) this.reachMarks(false);
    if (this.level !== 'normal') this.watchLevel();
    if (filled > 0) this.notePlayed(into, at, filled);
    this.hearTone(into, at, filled);
    this.watchStanding(filled, length);
    return filled;
  }

  /** Fills a gap in mid-word from `at` on with the last periods, fading; false when silence is right. */
  bridge(into: Uint8Array, at: number, length: number): boolean {
    if (!this.played.isFull) return false;
    this.gap ??= new GapBridge(this.codec);
    if (!this.gap.active && !this.gap.begin(this.played.last(this.played.length))) return false;
    return this.gap.fill(into, at, length);
  }

  /** Empties the queue at once. The result's `heardMs` is that of the item that was playing. */
  clear(): HeardPosition {
    const head = this.entries[this.head];
    if (this.itemId === undefined && typeof head === 'object') this.itemId = head.itemId;
    const heard: HeardPosition = {
      heardMs: this.itemHeardBytes / this.bytesPerMs,
      droppedMs: this.queuedMs,
      items: this.itemsLeft(),
    };
    if (this.itemId !== undefined) heard.itemId = this.itemId;
    this.queuedBytes = 0;
    this.itemHeardBytes = 0;
    this.itemId = undefined;
    this.owed = 0;
    this.gap?.stop();
    this.standing.cleared();
    this.reachMarks(true);
    this.watchLevel();
    return heard;
  }

  private itemsLeft(): HeardItem[] {
    const items: HeardItem[] = [];
    const heardMs = this.itemHeardBytes / this.bytesPerMs;
    if (heardMs > 0) items.push({ itemId: this.itemId ?? null, heardMs, droppedMs: 0 });
    for (let i = this.head; i < this.entries.length; i++) {
      const chunk = this.entries[i]!;
      if (typeof chunk === 'string') continue;
      const itemId = chunk.itemId ?? null;
      if (items.at(-1)?.itemId !== itemId) items.push({ itemId, heardMs: 0, droppedMs: 0 });
      items.at(-1)!.droppedMs += (chunk.bytes.length - chunk.from) / this.bytesPerMs;
    }
    return items;
  }

  private watchLevel(): void {
    const { queuedMs, level } = this;
    const next = queuedMs > highWaterMs ? 'high' : queuedMs < lowWaterMs ? 'normal' : level;
    if (next === level || (level === 'full' && next === 'high')) return;
    this.level = next;
    this.onLevel(next);
  }

  /** Our thread stalled for this long: queued audio is that much late. */
  missed(ms: number): void {
    if (this.owed === 0) this.owedSinceMs = 0;
    this.owed += ms * this.bytesPerMs;
    this.standing.passed(ms);
    this.listen();
  }

  /** The phone's codec changed: converts the queued audio. */
  changeCodec(codec: PhoneCodec): void {
    if (codec === this.codec) return;
    const change = sampleConverter(this.codec, codec);
    const grown = sampleFormatOf[codec].bytesPerMs / this.bytesPerMs;
    this.codec = codec;
    this.bytesPerMs *= grown;
    this.itemHeardBytes *= grown;
    this.owed *= grown;
    this.queuedBytes = 0;
    for (let i = this.head; i < this.entries.length; i++) {
      const entry = this.entries[i]!;
      if (typeof entry === 'string') continue;
      entry.bytes = change(entry.bytes.subarray(entry.from));
      entry.from = 0;
      this.queuedBytes += entry.bytes.length;
    }
    this.played = new PlayedAudio(playedMs * this.bytesPerMs);
    this.gap = null;
    this.notes?.reset();
    this.standing.cleared();
  }

  private takeWhole(into: Uint8Array, at: number, length: number): number {
    let filled = 0;
    while (filled < length && this.queuedBytes > 0) {
      const chunk = this.entries[this.head]!;
      if (typeof chunk === 'string') {
        this.shift();
        this.onMark(chunk, false);
        continue;
      }
      const count = Math.min(length - filled, chunk.bytes.length - chunk.from);
      copy(chunk.bytes, chunk.from, count, into, at + filled);
      this.consume(chunk, count);
      filled += count;
    }
    return filled;
  }

  /** The next slot's audio without a piece of it, when it is speech or a steady tone and a piece can be left out unheard. */
  private takeShortened(into: Uint8Array, at: number, length: number): boolean {
    const isSpeech = this.notes?.kind === 'speech';
    const isSteadyTone = (this.tone?.current?.durationMs ?? 0) >= steadyToneMs;
    if (!(isSpeech || isSteadyTone) || !this.standing.paced) return false;
    const { codec } = this;
    const leastLikeness = isSpeech ? likenessInSpeech(this.owedSinceMs) : likenessInTone;
    const wanted = length + shorteningReadsMs * this.bytesPerMs;
    const line = this.peek(wanted);
    if (line.length <= length || !searches.take()) return false;
    const removed = shorten(line, codec, length, this.owed, leastLikeness, into, at);
    if (removed === 0) return false;
    this.skip(length + removed);
    this.owed -= removed;
    this.trimmedMs += removed / this.bytesPerMs;
    this.standing.removed();
    return true;
  }

  /** The next bytes of the queue, at most `count`; valid until the next call. */
  private peek(count: number): Uint8Array {
    const line = ahead.ofLength(Math.min(count, this.queuedBytes));
    let filled = 0;
    for (let i = this.head; filled < line.length; i++) {
      const chunk = this.entries[i]!;
      if (typeof chunk === 'string') continue;
      const part = Math.min(line.length - filled, chunk.bytes.length - chunk.from);
      copy(chunk.bytes, chunk.from, part, line, filled);
      filled += part;
    }
    return line;
  }

  /** Passes `count` bytes and the marks between them. They count as heard: the position in the agent's audio is behind them. */
  private skip(count: number): void {
    for (let left = count; left > 0 && this.queuedBytes > 0; ) {
      const chunk = this.entries[this.head]!;
      if (typeof chunk === 'string') {
        this.shift();
        this.onMark(chunk, false);
        continue;
      }
      const part = Math.min(left, chunk.bytes.length - chunk.from);
      this.consume(chunk, part);
      left -= part;
    }
  }

  private noteHeard(chunk: Chunk, count: number): void {
    if (chunk.itemId !== this.itemId) {
      this.itemId = chunk.itemId;
      this.itemHeardBytes = 0;
    }
    this.itemHeardBytes += count;
  }

  private consume(chunk: Chunk, count: number): void {
    this.noteHeard(chunk, count);
    chunk.from += count;
    this.queuedBytes -= count;
    if (chunk.from === chunk.bytes.length) this.shift();
  }

  private shift(): void {
    this.head += 1;
    // Mostly the only entry: setting the length of an array takes ten times as long.
    if (this.head === 1 && this.entries.length === 1) this.entries.pop();
    else if (this.head === this.entries.length) this.entries.length = 0;
    else if (this.head < 256) return;
    else this.entries.splice(0, this.head);
    this.head = 0;
  }

  private reachMarks(cleared: boolean): void {
    while (this.head < this.entries.length) {
      const entry = this.entries[this.head]!;
      this.shift();
      if (typeof entry === 'string') this.onMark(entry, cleared);
    }
  }

  private notePlayed(into: Uint8Array, at: number, filled: number): void {
    if (this.gap?.active) this.gap.end(into, at, filled);
    const kept = Math.min(filled, playedMs * this.bytesPerMs);
    this.played.add(into, at + filled - kept, kept);
  }

  /**
   * With an agent that speaks in real time, queued audio delays the call permanently: one late frame is enough. The excess is removed again,
   * in a pause or by shortening speech.
   */
  private watchStanding(filled: number, length: number): void {
    const dry = filled === 0;
    // The first audio of an utterance, or after a gap: it may be late.
    if (!dry && this.drySlots > 0) this.listen();
    this.drySlots = dry ? this.drySlots + 1 : 0;
    if (this.drySlots === utteranceSlots) this.owed = 0;
    if (!dry) this.hear(filled, length);
    const standingMs = this.standing.slot(filled / this.bytesPerMs, length / this.bytesPerMs);
    if (standingMs === null) return;
    // Whole frames are removed: a part of a frame would only move the gap to the next slot. For the rest the slots themselves move.
    const standing = standingMs * this.bytesPerMs;
    if (this.owed === 0) this.owedSinceMs = 0;
    this.owed = Math.floor(standing / length) * length;
    if (this.owed > 0) this.listening = framesListened;
    const restMs = (standing - this.owed) / this.bytesPerMs;
    this.nearerMs = restMs >= leastNearerMs ? restMs : 0;
  }

  private hearTone(into: Uint8Array, at: number, filled: number): void {
    const { codec } = this;
    const mayBeTone = this.owed > 0 && filled > 0 && this.notes?.leansToNotes === true;
    if (!mayBeTone || (codec !== 'PCMU' && codec !== 'PCMA')) {
      this.tone = null;
      return;
    }
    this.tone ??= new ToneListener();
    this.tone.hear(into, at, at + filled, codec, this.owedSinceMs);
  }

  private listen(): void {
    this.listening = framesListened;
  }

  /** Learns what kind of sound is playing, while a standing delay is possible. */
  private hear(filled: number, length: number): void {
    const possible = this.owed > 0 || (this.queuedBytes >= length && (this.standing.paced || this.standing.fresh));
    if (this.listening === 0 || !possible) {
      this.listened = false;
      return;
    }
    this.listening -= 1;
    this.notes ??= new HeldNotes();
    if (!this.listened) this.notes.interrupted();
    const bytes = this.played.last(this.listened ? filled : this.played.length);
    this.listened = true;
    this.notes.hear(readSamples(bytes, this.codec, linear), sampleFormatOf[this.codec].sampleRateHz);
  }

  /** Drops frames of a pause. Pauses between tones and notes belong to them, unless the delay has stood for long. */
  private dropQuiet(frame: number): void {
    this.owedSinceMs += frame / this.bytesPerMs;
    const notes = this.notes?.leansToNotes === true;
    if (notes && this.owedSinceMs < patienceMs) return;
    for (let drops = 0; drops < dropsPerFrame && this.owed > 0; drops++) {
      const chunk = this.entries[this.head];
      if (typeof chunk !== 'object') return;
      const count = Math.min(this.owed, chunk.bytes.length - chunk.from, frame);
      // The slot needs a whole frame afterwards.
      if (this.queuedBytes - count < frame) return;
      if (!isQuiet(chunk.bytes, this.codec, chunk.from, chunk.from + count)) break;
      this.drop(count);
    }
    const cuttable = !notes && this.owed > 0 && this.owed <= cutAtMostMs * this.bytesPerMs;
    // One gap instead of many small ones.
    if (cuttable && this.standing.paced && this.owedSinceMs >= patienceMs)
      this.drop(Math.min(this.owed, this.queuedBytes));
  }

  private drop(count: number): void {
    this.skip(count);
    this.owed -= count;
    this.trimmedMs += count / this.bytesPerMs;
    this.standing.removed();
  }
}

/** Bytes without a view of them: frames are short. */
function copy(from: Uint8Array, at: number, count: number, into: Uint8Array, to: number): void {
  if (at === 0 && count === from.length) into.set(from, to);
  else into.set(from.subarray(at, at + count), to);
}
