/**
 * One timer for all sessions of a thread: a ring of absolute due times, earliest first. An interval per call would drift (0.7 % was
 * measured) and spinning would cost a core.
 */

export interface Time {
  /** Monotonic milliseconds with a fraction. */
  now(): number;
  setTimer(fn: () => void, delayMs: number): unknown;
  clearTimer(timer: unknown): void;
  /** Calls `fn` once, after the packets that wait in the sockets now were read. */
  afterReading(fn: () => void): void;
}

export const realTime: Time = {
  now: () => performance.now(),
  setTimer: (fn, delayMs) => setTimeout(fn, delayMs),
  clearTimer: (timer) => clearTimeout(timer as NodeJS.Timeout),
  afterReading: (fn) => void setImmediate(fn),
};

/** A session's turn. Returns the next due time, also when it postpones this turn; null: again once the sockets have been read. Must not throw. */
export type ClockTurn = (nowMs: number) => number | null;

/** How early a turn may come: timers only have whole milliseconds. */
export const earlyMs = 0.5;
/** Turns that are later than this are reported. */
const lateMs = 5;

export interface ClockEntry {
  readonly dueMs: number;
}

class Entry implements ClockEntry {
  next: Entry = this;
  previous: Entry = this;
  /** Not in the ring until the sockets have been read. */
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

  constructor(
    private readonly time: Time,
    /** Turns begin that were due at `dueMs`, and `over`: they were taken. */
    private readonly lateness: { late(dueMs: number, nowMs: number): void; over(): void } | null = null,
  ) {}

  add(turn: ClockTurn, dueMs: number): ClockEntry {
    const entry = new Entry(turn, dueMs);
    this.insert(entry);
    this.arm();
    return entry;
  }

  /** Sets a new due time, earlier or later. Does nothing for a removed entry. */
  move(entry: ClockEntry, dueMs: number): void {
    if (!(entry instanceof Entry) || entry.next === entry) return;
    unlink(entry);
    entry.dueMs = dueMs;
    this.insert(entry);
    // Timers have whole milliseconds: without this, a turn that is due now would wait for one.
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

  /** The next due time. */
  get dueMs(): number {
    return this.ring.next.turn ? this.ring.next.dueMs : Number.POSITIVE_INFINITY;
  }

  /** How late the thread is: an event handled now may have waited that long. */
  lateMs(nowMs: number): number {
    return Math.max(0, nowMs - Math.min(this.dueMs, this.waiting[0]?.dueMs ?? nowMs));
  }

  /** The greatest lateness of a turn since the last call. */
  takeWorstMs(): number {
    const { worstMs } = this;
    this.worstMs = 0;
    return worstMs;
  }

  /** Runs the turns that are due, when the thread is awake for another reason. */
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
    if (this.ring.next.turn && now - this.ring.next.dueMs >= lateMs) this.lateness?.late(this.ring.next.dueMs, now);
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
    this.lateness?.over();
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
    // A timer that fires too early only checks again; one that fires too late must be replaced.
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
