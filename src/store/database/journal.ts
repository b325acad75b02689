import type { Clock } from './clock.js';
import type { Database } from './database.js';
import { StoreError } from './errors.js';

/** One write about a call. `apply` runs in a transaction, in the order of `push`. */
export interface Write {
  callId: string;
  apply(): void;
}

export interface JournalOptions {
  database: Database;
  clock: Clock;
  /** Called when writes are final: on disk, or dropped. */
  onSettled(writes: readonly Write[]): void;
  /** Called for a write that the database rejects permanently; it is dropped so that it does not block the others. */
  onDropped(write: Write, error: unknown): void;
}

const flushAfterMs = 50;
/**
 * So many commits of calls that begin or end within this time; more of them become one, at its end, and as long as they come so fast each window
 * has that one alone. A commit costs as much as half of what a call writes, so under load they have to be shared.
 */
const windowMs = 20;
const commitsPerWindow = 2;
const flushAtWrites = 200;
const retryAfterMs = 250;
const maxPending = 20_000;
/** Each waits as long for a lock as a transaction does: 100 ms. */
const closingTries = 20;

/**
 * The queue of writes about calls, in order. Writes are grouped into transactions; while the database is locked or full they stay in a
 * bounded memory queue, and calls continue.
 */
export class Journal {
  private pending: Write[] = [];
  private cancelTimer: (() => void) | null = null;
  private held = false;
  /** The number of requested commits since the window began; null outside a window. */
  private wishes: number | null = null;
  /** The number of commits allowed in the window. */
  private allowed = commitsPerWindow;
  private isUrgent = false;
  private cancelWindow: (() => void) | null = null;

  constructor(private readonly options: JournalOptions) {}

  /** Writes that are not on disk yet. */
  get size(): number {
    return this.pending.length;
  }

  /** Whether the queue is full: no call may begin, but running calls may still end. */
  get full(): boolean {
    return this.pending.length >= maxPending;
  }

  push(write: Write): void {
    this.pending.push(write);
    if (this.pending.length >= flushAtWrites && !this.held) this.flush({ wait: false });
    else this.schedule(this.held ? retryAfterMs : flushAfterMs);
  }

  /**
   * For what has to be on disk soon: true when it may be written now. False when calls come so fast that they share commits: then all there
   * is is written at the end of the window.
   */
  mayCommit(): boolean {
    if (this.wishes === null) this.openWindow(commitsPerWindow);
    this.wishes = (this.wishes ?? 0) + 1;
    if (this.wishes <= this.allowed) return true;
    this.isUrgent = true;
    return false;
  }

  private openWindow(allowed: number): void {
    this.wishes = 0;
    this.allowed = allowed;
    this.cancelWindow = this.options.clock.after(windowMs, () => this.windowOver());
  }

  private windowOver(): void {
    const isBusy = (this.wishes ?? 0) > commitsPerWindow;
    this.wishes = null;
    if (isBusy) this.openWindow(0);
    if (!this.isUrgent) return;
    this.isUrgent = false;
    this.flush({ wait: false });
  }

  /** Writes the whole queue; false if the database is not writable now (it is retried later). `wait`: waits briefly for a lock. */
  flush(options: { wait: boolean } = { wait: true }): boolean {
    const { database, onSettled } = this.options;
    while (this.pending.length > 0) {
      const batch = this.pending.slice(0, flushAtWrites);
      try {
        // Once held up, do not wait again: the wait would block this thread at every call.
        database.transaction(() => this.applyAll(batch), { wait: options.wait && !this.held });
      } catch (error) {
        if (error instanceof StoreError && error.code === 'unavailable') {
          this.held = true;
          this.schedule(retryAfterMs);
          return false;
        }
        this.applyOneByOne(batch);
        continue;
      }
      this.held = false;
      this.pending.splice(0, batch.length);
      onSettled(batch);
    }
    this.cancelTimer?.();
    this.cancelTimer = null;
    return true;
  }

  /** Writes the rest of the queue, waiting up to 2 s for a lock. Returns the number of lost writes. */
  close(): number {
    for (let tries = 0; tries < closingTries && !this.flush(); tries += 1) this.held = false;
    this.cancelTimer?.();
    this.cancelTimer = null;
    this.cancelWindow?.();
    this.cancelWindow = null;
    return this.pending.length;
  }

  private applyAll(batch: readonly Write[]): void {
    for (const write of batch) write.apply();
  }

  /** Applies writes one by one and drops those that the database rejects permanently. */
  private applyOneByOne(batch: readonly Write[]): void {
    const { database, onSettled, onDropped } = this.options;
    for (const write of batch) {
      try {
        database.transaction(() => write.apply(), { wait: false });
      } catch (error) {
        if (error instanceof StoreError && error.code === 'unavailable') return;
        onDropped(write, error);
      }
      this.pending.shift();
      onSettled([write]);
    }
  }

  private schedule(ms: number): void {
    if (this.cancelTimer) return;
    this.cancelTimer = this.options.clock.after(ms, () => {
      this.cancelTimer = null;
      this.flush({ wait: false });
    });
  }
}
