/** The playout queue of an agent: audio that the phone has not heard yet, in order, with marks between. No timer and no clock. */
import type { PhoneCodec } from '../../engine.js';
import { isQuiet } from '../detect/frame-level.js';
import { changeLine, lineOf } from '../sample-format.js';
import type { PhoneAudio } from './phone-audio.js';

/** The most audio that an agent may queue; the rest is discarded. */
export const playoutLimitMs = 10 * 60_000;
/** Water marks of the `high` level. */
const highWaterMs = 0.9 * playoutLimitMs;
const lowWaterMs = 0.8 * playoutLimitMs;
/** Window of playing time over which the standing queue is measured. */
const windowMs = 1000;
/** Excess audio is removed in a pause; after this long without one, it is cut from speech. */
const patienceMs = 3000;
/** After this many slots without audio, the excess is forgotten. */
const forgetSlots = 25;
/** The most that is cut from speech at once. */
const cutAtMostMs = 1000;
/** Number of windows after which an agent counts as real-time. */
const pacedWindows = 2;
/** Slots move by no less than this. */
const leastNearerMs = 1.5;
/** In a pause, up to this many frames are dropped for each one kept. */
const dropsPerFrame = 4;

interface Chunk {
  bytes: Uint8Array;
  /** Bytes already played. */
  from: number;
  itemId: string | undefined;
}

export interface HeardSoFar {
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
  private leastSpareMs = Number.POSITIVE_INFINITY;
  private windowPlayed = 0;
  private windowArrived = 0;
  /** Decaying sums over all windows, halved at each window. */
  private played = 0;
  private arrived = 0;
  /** Excess bytes to be removed, and the playing time since that was noticed. */
  private owed = 0;
  private owedSinceMs = 0;
  /** Successive windows in which as much audio arrived as was played. */
  private paced = 0;
  private drySlots = 0;
  private nearerMs = 0;

  private bytesPerMs: number;

  constructor(private codec: PhoneCodec) {
    this.bytesPerMs = lineOf[codec].bytesPerMs;
  }

  get queuedMs(): number {
    return this.queuedBytes / this.bytesPerMs;
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
      this.windowArrived += fitting.length;
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
    this.leastSpareMs = Math.min(this.leastSpareMs, ms);
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
    if (this.owed > 0) this.trim(length);
    let filled = 0;
    while (filled < length && this.queuedBytes > 0) {
      const chunk = this.entries[this.head]!;
      if (typeof chunk === 'string') {
        this.shift();
        this.onMark(chunk, false);
        continue;
      }
      const count = Math.min(length - filled, chunk.bytes.length - chunk.from);
      into.set(chunk.bytes.subarray(chunk.from, chunk.from + count), at + filled);
      this.noteHeard(chunk, count);
      this.consume(chunk, count);
      filled += count;
    }
    if (this.queuedBytes === 0) this.reachMarks(false);
    if (this.level !== 'normal') this.watchLevel();
    this.watchStanding(filled, length);
    return filled;
  }

  /** Empties the queue at once. The result's `heardMs` is that of the item that was playing. */
  clear(): HeardSoFar {
    const head = this.entries[this.head];
    if (this.itemId === undefined && typeof head === 'object') this.itemId = head.itemId;
    const heard: HeardSoFar = {
      heardMs: this.itemHeardBytes / this.bytesPerMs,
      droppedMs: this.queuedMs,
      items: this.itemsLeft(),
    };
    if (this.itemId !== undefined) heard.itemId = this.itemId;
    this.queuedBytes = 0;
    this.itemHeardBytes = 0;
    this.itemId = undefined;
    this.restartWindow();
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
    this.owed += ms * this.bytesPerMs;
    this.restartWindow();
  }

  /** The phone's codec changed: converts the queued audio. */
  changeCodec(codec: PhoneCodec): void {
    if (codec === this.codec) return;
    const change = changeLine(this.codec, codec);
    const grown = lineOf[codec].bytesPerMs / this.bytesPerMs;
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
    this.played = 0;
    this.arrived = 0;
    this.restartWindow();
  }

  private noteHeard(chunk: Chunk, count: number): void {
    if (chunk.itemId !== this.itemId) {
      this.itemId = chunk.itemId;
      this.itemHeardBytes = 0;
    }
    this.itemHeardBytes += count;
  }

  private consume(chunk: Chunk, count: number): void {
    chunk.from += count;
    this.queuedBytes -= count;
    if (chunk.from === chunk.bytes.length) this.shift();
  }

  private shift(): void {
    this.head += 1;
    if (this.head === this.entries.length) this.entries.length = 0;
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

  /**
   * With an agent that speaks in real time and never falls behind, queued audio delays the call permanently: one late frame is enough. The
   * excess is removed again, in a pause if there is one.
   */
  private watchStanding(played: number, frame: number): void {
    this.drySlots = played === 0 ? this.drySlots + 1 : 0;
    if (played === 0) {
      this.restartWindow();
      if (this.drySlots >= forgetSlots) this.owed = 0;
      return;
    }
    this.windowPlayed += played;
    if (this.windowPlayed < windowMs * this.bytesPerMs) return;
    // Earlier windows count too: audio held back by a stall arrives in the next window.
    this.played = this.played / 2 + this.windowPlayed;
    this.arrived = this.arrived / 2 + this.windowArrived;
    const even = this.arrived > this.played * 0.9 && this.arrived < this.played * 1.1;
    this.paced = even ? this.paced + 1 : 0;
    if (this.paced >= pacedWindows && Number.isFinite(this.leastSpareMs)) {
      const spare = Math.max(0, this.leastSpareMs * this.bytesPerMs);
      if (this.owed === 0) this.owedSinceMs = 0;
      // Whole frames are removed: a part of a frame would only move the gap to the next slot. For the rest the slots themselves move.
      this.owed = Math.floor(spare / frame) * frame;
      const restMs = (spare - this.owed) / this.bytesPerMs;
      this.nearerMs = restMs >= leastNearerMs ? restMs : 0;
    }
    this.restartWindow();
  }

  private restartWindow(): void {
    this.leastSpareMs = Number.POSITIVE_INFINITY;
    this.windowPlayed = 0;
    this.windowArrived = 0;
  }

  private trim(frame: number): void {
    this.owedSinceMs += frame / this.bytesPerMs;
    for (let drops = 0; drops < dropsPerFrame && this.owed > 0; drops++) {
      const chunk = this.entries[this.head];
      if (typeof chunk !== 'object') return;
      const count = Math.min(this.owed, chunk.bytes.length - chunk.from, frame);
      if (!isQuiet(chunk.bytes, this.codec, chunk.from, chunk.from + count)) break;
      this.drop(chunk, count);
    }
    const cuttable = this.owed > 0 && this.owed <= cutAtMostMs * this.bytesPerMs;
    if (cuttable && this.paced >= pacedWindows && this.owedSinceMs >= patienceMs) this.cut();
  }

  /** Removes the whole excess at once: one gap instead of many small ones. */
  private cut(): void {
    while (this.owed > 0 && this.queuedBytes > 0) {
      const chunk = this.entries[this.head]!;
      if (typeof chunk === 'object') this.drop(chunk, Math.min(this.owed, chunk.bytes.length - chunk.from));
      else {
        this.shift();
        this.onMark(chunk, false);
      }
    }
  }

  private drop(chunk: Chunk, count: number): void {
    this.consume(chunk, count);
    this.owed -= count;
    this.trimmedMs += count / this.bytesPerMs;
    this.owedSinceMs = 0;
    this.restartWindow();
  }
}
