/**
 * One timer for all sessions of a thread: a ring of absolute due times, earliest first. An interval per call would drift (0.7 % was
 * measured) and spinning would cost a core.
 */

export interface Time {
  /** Monotonic milliseconds with a fraction. */
  now(): number;
  setTimer(fn: () => void, delayMs: number): unknown;
  clearTimer(timer: unknown): void;
  /** Once, when what waits in the sockets now has been read. */
  afterReading(fn: () => void): void;
}

export const realTime: Time = {
  now: () => performance.now(),
  setTimer: (fn, delayMs) => setTimeout(fn, delayMs),
  clearTimer: (timer) => clearTimeout(timer as NodeJS.Timeout),
  afterReading: (fn) => void setImmediate(fn),
};

/** A session's turn. Returns when its next one is due, also when it has put this one off; null: again, at once, when the sockets have been read. Must not throw. */
export type ClockTurn = (nowMs: number) => number | null;

/** How much before its time a turn may come: timers have whole milliseconds. */
export const earlyMs = 0.5;

export interface ClockEntry {
  readonly dueMs: number;
}

class Entry implements ClockEntry {
  next: Entry = this;
  previous: Entry = this;
  /** Out of the ring until the sockets have been read. */
  waits = false;
  constructor(
    readonly turn: ClockTurn | null,
    public dueMs: number,
  ) {}
}

export class PlayoutClock {
  private readonly ring = new Entry(null, Number.NEGATIVE_INFINITY);
  private timer: unknown = null;
  private timerDueMs = Number.POSITIVE_INFINITY;
  private turning = false;
  private worstMs = 0;
  /** Turns that wait until the sockets have been read. */
  private waiting: Entry[] = [];

  constructor(private readonly time: Time) {}

  add(turn: ClockTurn, dueMs: number): ClockEntry {
    const entry = new Entry(turn, dueMs);
    this.insert(entry);
    this.arm();
    return entry;
  }

  /** A new due time, earlier or later. Nothing for an entry that was removed. */
  move(entry: ClockEntry, dueMs: number): void {
    if (!(entry instanceof Entry) || entry.next === entry) return;
    unlink(entry);
    entry.dueMs = dueMs;
    this.insert(entry);
    // Timers have whole milliseconds: a turn that is due now would wait for one.
    if (dueMs <= this.time.now()) this.look();
    this.arm();
  }

  remove(entry: ClockEntry): void {
    if (entry instanceof Entry) {
      entry.waits = false;
      unlink(entry);
    }
    this.arm();
  }

  /** When the next turn is. */
  get dueMs(): number {
    return this.ring.next.turn ? this.ring.next.dueMs : Number.POSITIVE_INFINITY;
  }

  /** How late the thread is: as long what is handled now may have waited for it. */
  lateMs(nowMs: number): number {
    return Math.max(0, nowMs - Math.min(this.dueMs, this.waiting[0]?.dueMs ?? nowMs));
  }

  /** The latest that a turn came, since the last time. */
  takeWorstMs(): number {
    const { worstMs } = this;
    this.worstMs = 0;
    return worstMs;
  }

  /** Takes the turns that are due, for a thread that is awake anyway. */
  look(): void {
    if (!this.turning && this.dueMs <= this.time.now() + earlyMs) this.takeTurns();
  }

  private insert(entry: Entry): void {
    let after = this.ring.previous;
    while (after.dueMs > entry.dueMs) after = after.previous;
    entry.previous = after;
    entry.next = after.next;
    after.next.previous = entry;
    after.next = entry;
  }

  private readonly fire = (): void => {
    this.timer = null;
    this.timerDueMs = Number.POSITIVE_INFINITY;
    this.takeTurns();
  };

  private readonly sockets = (): void => {
    const { waiting } = this;
    this.waiting = [];
    const now = this.time.now();
    for (const entry of waiting) {
      if (!entry.waits) continue;
      entry.waits = false;
      entry.dueMs = now;
      this.insert(entry);
    }
    this.takeTurns();
  };

  private takeTurns(): void {
    this.turning = true;
    let now = this.time.now();
    for (let entry = this.ring.next; entry.turn && entry.dueMs <= now + earlyMs; entry = this.ring.next) {
      if (now - entry.dueMs > this.worstMs) this.worstMs = now - entry.dueMs;
      const dueMs = entry.turn(now);
      // A session that closed in its own turn is no longer in the ring.
      if (entry.next !== entry) {
        unlink(entry);
        if (dueMs === null) this.wait(entry);
        else {
          entry.dueMs = dueMs;
          this.insert(entry);
        }
      }
      now = this.time.now();
    }
    this.turning = false;
    this.arm();
  }

  private wait(entry: Entry): void {
    entry.waits = true;
    if (this.waiting.push(entry) === 1) this.time.afterReading(this.sockets);
  }

  private arm(): void {
    if (this.turning) return;
    const first = this.ring.next;
    if (!first.turn) {
      if (this.timer !== null) this.time.clearTimer(this.timer);
      this.timer = null;
      this.timerDueMs = Number.POSITIVE_INFINITY;
      return;
    }
    // A timer that fires too early just looks again; one that fires too late must be replaced.
    if (this.timer !== null && this.timerDueMs <= first.dueMs) return;
    if (this.timer !== null) this.time.clearTimer(this.timer);
    this.timerDueMs = first.dueMs;
    this.timer = this.time.setTimer(this.fire, Math.max(1, Math.floor(first.dueMs - this.time.now())));
  }
}

function unlink(entry: Entry): void {
  entry.previous.next = entry.next;
  entry.next.previous = entry.previous;
  entry.next = entry;
  entry.previous = entry;
}
