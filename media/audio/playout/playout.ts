/** The playout queue of an agent: audio that the phone has not heard yet, in order, with marks between. No timer and no clock. */
import type { PhoneCodec } from '../../engine.js';
import { isQuiet } from '../detect/frame-level.js';
import { HeldNotes } from '../detect/held-notes.js';
import { ToneListener } from '../detect/steady-tone.js';
import { readSamples, sampleConverter, sampleFormatOf } from '../sample-format.js';
import { ScratchBuffer } from '../scratch-buffer.js';
import { AudioQueue } from './audio-queue.js';
import { GapBridge } from './gap-bridge.js';
import type { PhoneAudio } from './phone-audio.js';
import {
  hearableMs,
  heardAtOnceMs,
  likenessInSpeech,
  likenessInTone,
  SearchBudget,
  SpeechPace,
  shorten,
  shorteningReadsMs,
} from './shortening.js';
import { StandingDelay } from './standing-delay.js';

/** Shared by all queues of the thread. */
const linear = new ScratchBuffer(Int16Array);
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
/** Enough of it to continue a word. */
const bridgedFromMs = 160;
/** Memory for what is queued, at first. */
const roomMs = 240;
/** After an event that may leave a standing delay, so many frames are listened to. */
const framesListened = 60;
/** After this many slots without audio, the next audio is a new utterance. */
const utteranceSlots = 25;

/** What follows the audio before it: a mark, or (`mark` null) audio of another item. */
interface Boundary {
  /** Its place, in bytes since the begin of the queue. */
  at: number;
  mark: string | null;
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
  private audio: AudioQueue;
  /** Bytes that were played or left out so far: the place of the first byte in the queue. */
  private passed = 0;
  /** Marks, and changes of the item, from `passed` on; most queues have none. */
  private readonly boundaries: Boundary[] = [];
  /** The item of the first and of the last byte in the queue. */
  private firstItem: string | undefined;
  private lastItem: string | undefined;
  /** The item that was played last, and how much of it. */
  private itemId: string | undefined;
  private itemHeardBytes = 0;
  private readonly standing = new StandingDelay();
  /** Excess bytes to be removed, and the playing time since that was noticed. */
  private owed = 0;
  private owedSinceMs = 0;
  private readonly pace = new SpeechPace();
  private drySlots = utteranceSlots;
  private nearerMs = 0;
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
    this.audio = queueFor(this.bytesPerMs);
  }

  get queuedMs(): number {
    return this.audio.queued / this.bytesPerMs;
  }

  get realTime(): boolean {
    return this.standing.paced;
  }

  /** Copies the bytes, which are in the phone's codec. Returns the number of bytes that did not fit. */
  push(bytes: Uint8Array, itemId?: string): number {
    const { audio } = this;
    const { queued } = audio;
    const room = playoutLimitMs * this.bytesPerMs - queued;
    const fitting = bytes.length <= room ? bytes : bytes.subarray(0, Math.max(0, room));
    if (fitting.length > 0) {
      if (queued === 0) {
        // Without item ids, the heard time counts from the start of the utterance.
        if (itemId === undefined) this.itemHeardBytes = 0;
        this.firstItem = itemId;
      } else if (itemId !== this.lastItem) this.boundaries.push({ at: this.passed + queued, mark: null, itemId });
      this.lastItem = itemId;
      audio.append(fitting);
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

  resumed(gapMs: number): void {
    this.standing.resumed(gapMs);
  }

  takeNearerMs(): number {
    const ms = this.nearerMs;
    this.nearerMs = 0;
    return ms;
  }

  mark(name: string): void {
    const { queued } = this.audio;
    if (queued === 0) this.onMark(name, false);
    else this.boundaries.push({ at: this.passed + queued, mark: name, itemId: undefined });
  }

  /** Fills `into` from `at` on; returns the number of bytes of audio. Marks that are passed are reached. */
  take(into: Uint8Array, at: number, length: number): number {
    searches.slot();
    if (this.owed > 0) this.dropQuiet(length);
    const filled = this.owed > 0 && this.takeShortened(into, at, length) ? length : this.takeWhole(into, at, length);
    if (this.audio.queued === 0) this.reachMarks(false);
    if (this.level !== 'normal') this.watchLevel();
    if (filled > 0 && this.gap?.active) this.endGap(this.gap, into, at, filled);
    if (this.owed > 0 || this.tone) this.hearTone(into, at, filled);
    this.watchStanding(filled, length);
    return filled;
  }

  /** Fills a gap in mid-word from `at` on with the last periods, fading; false when silence is right. */
  bridge(into: Uint8Array, at: number, length: number): boolean {
    const { audio } = this;
    if (audio.played < bridgedFromMs * this.bytesPerMs) return false;
    this.gap ??= new GapBridge(this.codec);
    if (!this.gap.active && !this.gap.begin(audio.last(audio.played))) return false;
    return this.gap.fill(into, at, length);
  }

  /** Empties the queue at once. The result's `heardMs` is that of the item that was playing. */
  clear(): HeardPosition {
    if (this.itemId === undefined && this.boundaryHere?.mark == null) this.itemId = this.nextItem;
    const heard: HeardPosition = {
      heardMs: this.itemHeardBytes / this.bytesPerMs,
      droppedMs: this.queuedMs,
      items: this.itemsLeft(),
    };
    if (this.itemId !== undefined) heard.itemId = this.itemId;
    this.passed += this.audio.queued;
    this.audio.clear();
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
    let itemId = this.firstItem;
    let at = this.passed;
    const add = (until: number) => {
      if (until === at) return;
      if (items.length === 0 || items.at(-1)!.itemId !== (itemId ?? null))
        items.push({ itemId: itemId ?? null, heardMs: 0, droppedMs: 0 });
      items.at(-1)!.droppedMs += (until - at) / this.bytesPerMs;
      at = until;
    };
    for (const boundary of this.boundaries) {
      add(boundary.at);
      if (boundary.mark === null) itemId = boundary.itemId;
    }
    add(this.passed + this.audio.queued);
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
    if (this.owed === 0) this.beginShortening();
    this.owed += ms * this.bytesPerMs;
    this.standing.passed(ms);
    this.listen();
  }

  /** The phone's codec changed: converts the queued audio. */
  changeCodec(codec: PhoneCodec): void {
    if (codec === this.codec) return;
    const change = sampleConverter(this.codec, codec);
    const grown = sampleFormatOf[codec].bytesPerMs / this.bytesPerMs;
    const { audio } = this;
    this.codec = codec;
    this.bytesPerMs *= grown;
    this.itemHeardBytes *= grown;
    this.owed *= grown;
    this.audio = queueFor(this.bytesPerMs);
    // In parts, so that marks and items keep their places in the audio.
    let { from } = audio;
    const convertTo = (to: number) => {
      if (to > from) this.audio.append(change(audio.bytes.subarray(from, to)));
      from = to;
    };
    for (const boundary of this.boundaries) {
      convertTo(audio.from + boundary.at - this.passed);
      boundary.at = this.passed + this.audio.queued;
    }
    convertTo(audio.to);
    this.gap = null;
    this.notes?.reset();
    this.standing.cleared();
  }

  private takeWhole(into: Uint8Array, at: number, length: number): number {
    let filled = 0;
    while (filled < length && this.audio.queued > 0) {
      const count = Math.min(length - filled, this.untilBoundary());
      if (count === 0) continue;
      const { bytes, from } = this.audio;
      // Without a view of them: packets are short.
      for (let i = 0; i < count; i++) into[at + filled + i] = bytes[from + i]!;
      this.noteHeard(count);
      this.audio.advance(count);
      filled += count;
    }
    return filled;
  }

  /** The next slot's audio without a piece of it, when it is speech or a steady tone and a piece can be left out unheard. */
  private takeShortened(into: Uint8Array, at: number, length: number): boolean {
    const isSpeech = this.notes?.kind === 'speech';
    const isSteadyTone = (this.tone?.current?.durationMs ?? 0) >= steadyToneMs;
    if (!(isSpeech || isSteadyTone) || !this.standing.paced) return false;
    const { codec, bytesPerMs } = this;
    if (isSpeech) this.pace.played(length / bytesPerMs);
    const most = isSpeech ? Math.floor(this.pace.mostMs * bytesPerMs) : this.owed;
    if (most === 0) return false;
    const leastLikeness = isSpeech ? likenessInSpeech(this.owedSinceMs) : likenessInTone;
    const wanted = length + shorteningReadsMs * bytesPerMs;
    const { audio } = this;
    const line = audio.bytes.subarray(audio.from, Math.min(audio.to, audio.from + wanted));
    if (line.length <= length || !searches.take()) return false;
    const removed = shorten(line, codec, length, this.owed, most, leastLikeness, into, at);
    if (removed === 0) return false;
    this.leaveOut(removed);
    this.owed -= removed;
    this.pace.leftOut(removed / bytesPerMs);
    // What is left of the packet is passed as if it were played, then replaced by what is.
    this.skip(length);
    audio.correctPlayed(into, at, length);
    return true;
  }

  /** Bytes up to the next mark or item; 0 when one was reached here, and passed. */
  private untilBoundary(): number {
    const { boundaries } = this;
    const next = boundaries[0];
    if (next === undefined) return this.audio.queued;
    if (next.at > this.passed) return next.at - this.passed;
    boundaries.shift();
    if (next.mark === null) this.firstItem = next.itemId;
    else this.onMark(next.mark, false);
    return 0;
  }

  /** The mark or the item that begins with the next byte. */
  private get boundaryHere(): Boundary | null {
    const next = this.boundaries[0];
    return next && next.at === this.passed ? next : null;
  }

  /** Bytes up to the next mark or item behind the first byte. */
  private get bytesInItem(): number {
    for (const { at } of this.boundaries) if (at > this.passed) return at - this.passed;
    return this.audio.queued;
  }

  /** The item of the next byte; undefined when there is none. */
  private get nextItem(): string | undefined {
    if (this.audio.queued === 0) return undefined;
    const { boundaryHere } = this;
    return boundaryHere ? boundaryHere.itemId : this.firstItem;
  }

  private noteHeard(count: number): void {
    if (this.firstItem !== this.itemId) {
      this.itemId = this.firstItem;
      this.itemHeardBytes = 0;
    }
    this.itemHeardBytes += count;
    this.passed += count;
  }

  /** Passes `count` bytes and the marks between them. They count as heard: the position in the agent's audio is behind them. */
  private skip(count: number, leftOut = false): void {
    for (let left = count; left > 0 && this.audio.queued > 0; ) {
      const part = Math.min(left, this.untilBoundary());
      if (part === 0) continue;
      this.noteHeard(part);
      if (leftOut) this.audio.leaveOut(part);
      else this.audio.advance(part);
      left -= part;
    }
  }

  /** Passes `count` bytes that are not played. */
  private leaveOut(count: number): void {
    this.skip(count, true);
    this.trimmedMs += count / this.bytesPerMs;
    this.standing.removed();
  }

  private reachMarks(cleared: boolean): void {
    const { boundaries } = this;
    // What is queued when a mark is reached stays.
    for (let left = boundaries.length; left > 0; left--) {
      const mark = boundaries.shift()?.mark ?? null;
      if (mark !== null) this.onMark(mark, cleared);
    }
  }

  /** The agent's audio is there again after a gap: its begin is blended with what bridged the gap. */
  private endGap(gap: GapBridge, into: Uint8Array, at: number, filled: number): void {
    gap.end(into, at, filled);
    this.audio.correctPlayed(into, at, filled);
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
    if (this.owed === 0) this.beginShortening();
    this.owed = Math.floor(standing / length) * length;
    if (this.owed > 0) this.listening = framesListened;
    const restMs = (standing - this.owed) / this.bytesPerMs;
    this.nearerMs = restMs >= leastNearerMs ? restMs : 0;
  }

  private beginShortening(): void {
    this.owedSinceMs = 0;
    this.pace.begin();
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
    const possible = this.owed > 0 || (this.audio.queued >= length && (this.standing.paced || this.standing.fresh));
    if (this.listening === 0 || !possible) {
      this.listened = false;
      return;
    }
    this.listening -= 1;
    this.notes ??= new HeldNotes();
    if (!this.listened) this.notes.interrupted();
    const { audio } = this;
    const latest = this.listened ? filled : hearableMs(searches) * this.bytesPerMs;
    const bytes = audio.last(Math.min(latest, audio.played));
    this.listened = true;
    this.notes.hear(readSamples(bytes, this.codec, linear), sampleFormatOf[this.codec].sampleRateHz);
  }

  /** Drops frames of a pause. Pauses between tones and notes belong to them, unless the delay has stood for long. */
  private dropQuiet(frame: number): void {
    this.owedSinceMs += frame / this.bytesPerMs;
    const notes = this.notes?.leansToNotes === true;
    if (notes && this.owedSinceMs < patienceMs) return;
    for (let drops = 0; drops < dropsPerFrame && this.owed > 0; drops++) {
      const { bytes, from, queued } = this.audio;
      if (queued === 0 || this.boundaryHere?.mark != null) return;
      const count = Math.min(this.owed, this.bytesInItem, frame);
      // The slot needs a whole frame afterwards.
      if (queued - count < frame) return;
      if (!isQuiet(bytes, this.codec, from, from + count)) break;
      this.drop(count);
    }
    const cuttable = !notes && this.owed > 0 && this.owed <= cutAtMostMs * this.bytesPerMs;
    // One gap instead of many small ones.
    if (cuttable && this.standing.paced && this.owedSinceMs >= patienceMs)
      this.drop(Math.min(this.owed, this.audio.queued));
  }

  private drop(count: number): void {
    this.leaveOut(count);
    this.owed -= count;
  }
}

function queueFor(bytesPerMs: number): AudioQueue {
  return new AudioQueue(heardAtOnceMs * bytesPerMs, roomMs * bytesPerMs);
}
