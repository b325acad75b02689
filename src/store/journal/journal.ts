import type { Clock } from '../database/clock.js';
import { StoreError } from '../database/errors.js';
import type { Entry } from './entries.js';
import type { BatchAnswer } from './writer-protocol.js';

export interface JournalOptions {
  /** Writes a batch in one transaction; a number that was written already takes no effect. Rejects with `unavailable` for the moment; `isFenced`: not any more under this lease. */
  write(number: number, entries: readonly Entry[]): Promise<BatchAnswer>;
  clock: Clock;
  /** The batch is on disk, but for what was dropped. */
  onWritten(entries: readonly Entry[], answer: BatchAnswer): void;
  /** The lease is gone; nothing is written until `resume`. */
  onFenced(): void;
}

/** Entries of calls that come so fast share a commit: a commit costs as much as half of what a call writes. */
const windowMs = 20;
/**
 * A caller waits for the begin of a call, so it waits shorter for others' entries: eight times as long as the last write took, so that the
 * writer is idle most of the time. A busy writer takes longer, which leads to the whole window.
 */
const beginAfterWrites = 8;
const leastForBeginMs = 4;
const retryAfterMs = 250;
const mostInBatch = 500;
/** More than 30 s of 300 calls a second. */
const mostWaiting = 100_000;
/** How long a read waits for what was queued before it, unless the database is locked or full: then no longer than one attempt. */
const flushLimitMs = 2_000;
const closingLimitMs = 5_000;

interface Flushing {
  /** The number of entries that have to be written. */
  until: number;
  resolve(written: boolean): void;
}

/**
 * The one queue of what calls write, in order. A batch is sent at once when none was sent lately, else at the end of a window, which is shorter
 * while a caller waits for the begin of its call; one is on its way at a time, and the next one takes what came meanwhile. While the database is locked or full, entries stay in memory and calls go on.
 */
export class Journal {
  private waiting: Entry[] = [];
  /** Whether a begin is among them. */
  private callerWaits = false;
  private onTheWay: { number: number; entries: Entry[] } | null = null;
  private isSending = false;
  private number = 0;
  private pushed = 0;
  private written = 0;
  private sentAtMs: number | null = null;
  /** How long the last batch took. */
  private lastWriteMs = 0;
  private cancelTimer: (() => void) | null = null;
  private immediate: NodeJS.Immediate | null = null;
  private flushing: Flushing[] = [];
  private isHeldUp = false;
  private isFenced = false;
  private sending: Promise<void> = Promise.resolve();

  constructor(private readonly options: JournalOptions) {}

  /** Entries that are not on disk yet. */
  get size(): number {
    return this.pushed - this.written;
  }

  /** Whether so much waits that no call may begin; running calls may still end. */
  get full(): boolean {
    return this.size >= mostWaiting;
  }

  push(entry: Entry): void {
    this.waiting.push(entry);
    this.pushed += 1;
    if (entry.kind === 'begin' && !this.callerWaits) {
      this.callerWaits = true;
      if (this.cancelTimer !== null && !this.isHeldUp) this.cancel();
    }
    this.schedule();
  }

  /** Resolves when everything pushed before is on disk: true. False if the database takes too long; it is retried later. */
  flush(limitMs = flushLimitMs): Promise<boolean> {
    if (this.size === 0) return Promise.resolve(true);
    return new Promise((resolve) => {
      const limit = setTimeout(() => {
        this.flushing = this.flushing.filter((each) => each !== flushing);
        resolve(false);
      }, limitMs);
      const flushing: Flushing = {
        until: this.pushed,
        resolve: (written) => {
          clearTimeout(limit);
          resolve(written);
        },
      };
      this.flushing.push(flushing);
      void this.send();
    });
  }

  /** Writes nothing until `resume`. Resolves with what is not written, when the batch on its way has its answer. */
  async fence(): Promise<readonly Entry[]> {
    this.isFenced = true;
    this.cancel();
    await this.sending;
    if (this.onTheWay !== null) this.waiting.unshift(...this.onTheWay.entries);
    this.onTheWay = null;
    return this.waiting;
  }

  /** Goes on under another lease, with what `keep` makes of each entry; null: it is dropped. Returns how many were. */
  resume(keep: (entry: Entry) => Entry | null): number {
    const kept = this.waiting.flatMap((entry) => keep(entry) ?? []);
    const dropped = this.waiting.length - kept.length;
    this.waiting = kept;
    this.written += dropped;
    this.number = 0;
    this.isFenced = false;
    this.isHeldUp = false;
    this.settleFlushes();
    if (this.size > 0) this.schedule();
    return dropped;
  }

  /** Writes what is left, waiting for a lock for a few seconds. Resolves with the number of lost entries. */
  async close(): Promise<number> {
    const endMs = performance.now() + closingLimitMs;
    while (!(await this.flush()) && performance.now() < endMs);
    this.cancel();
    return this.size;
  }

  private schedule(): void {
    if (this.isFenced || this.isSending || this.cancelTimer !== null || this.immediate !== null) return;
    if (this.isHeldUp) {
      this.after(retryAfterMs);
      return;
    }
    const shareMs = this.callerWaits ? this.windowOfBeginMs : windowMs;
    const sinceMs = this.sentAtMs === null ? shareMs : this.options.clock.now() - this.sentAtMs;
    // the clock may have been set back
    const inMs = sinceMs < 0 ? shareMs : shareMs - sinceMs;
    if (inMs > 0 && this.waiting.length < mostInBatch) this.after(inMs);
    else this.immediate = setImmediate(() => void this.send()); // with what else this turn of the loop brings
  }

  private get windowOfBeginMs(): number {
    return Math.min(windowMs, Math.max(leastForBeginMs, beginAfterWrites * this.lastWriteMs));
  }

  private after(ms: number): void {
    this.cancelTimer = this.options.clock.after(ms, () => void this.send());
  }

  private cancel(): void {
    this.cancelTimer?.();
    this.cancelTimer = null;
    if (this.immediate !== null) clearImmediate(this.immediate);
    this.immediate = null;
  }

  private send(): Promise<void> {
    if (this.isSending || this.isFenced) return Promise.resolve();
    this.sending = this.sendOne();
    return this.sending;
  }

  private async sendOne(): Promise<void> {
    this.cancel();
    if (this.onTheWay === null) {
      if (this.waiting.length === 0) return;
      this.number += 1;
      this.onTheWay = { number: this.number, entries: this.waiting.splice(0, mostInBatch) };
    }
    const { number, entries } = this.onTheWay;
    this.callerWaits = this.waiting.some(({ kind }) => kind === 'begin');
    this.isSending = true;
    const sentAtMs = this.options.clock.now();
    this.sentAtMs = sentAtMs;
    try {
      const answer = await this.options.write(number, entries);
      this.lastWriteMs = this.options.clock.now() - sentAtMs;
      this.isHeldUp = false;
      if (answer.isFenced) this.lose();
      else {
        this.onTheWay = null;
        this.settle(entries, answer);
      }
    } catch (error) {
      if (error instanceof StoreError && error.code === 'unavailable') {
        this.isHeldUp = true;
        for (const { resolve } of this.flushing.splice(0)) resolve(false);
      } else {
        this.onTheWay = null;
        const { message } = error as Error;
        this.settle(entries, { ...nothing, dropped: entries.map((_, index) => ({ index, message })) });
      }
    }
    this.isSending = false;
    if (this.isFenced) return;
    if (this.onTheWay === null && this.flushing.length > 0 && !this.isHeldUp) void this.send();
    else if (this.size > 0) this.schedule();
  }

  private lose(): void {
    const isNews = !this.isFenced;
    this.isFenced = true;
    for (const { resolve } of this.flushing.splice(0)) resolve(false);
    if (isNews) this.options.onFenced();
  }

  private settle(entries: readonly Entry[], answer: BatchAnswer): void {
    this.written += entries.length;
    this.options.onWritten(entries, answer);
    this.settleFlushes();
  }

  private settleFlushes(): void {
    const done = this.flushing.filter(({ until }) => until <= this.written);
    if (done.length === 0) return;
    this.flushing = this.flushing.filter(({ until }) => until > this.written);
    for (const { resolve } of done) resolve(true);
  }
}

const nothing = {
  ...{ admissions: [], closedElsewhere: [], settled: [], late: [], hasDeliveries: false, isFenced: false },
};
