/**
 * One timer for all sessions of a thread: a line of absolute due times, earliest first. An interval per call would drift (0.7 % was
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
  constructor(
    private readonly line: ClockLine,
    readonly turn: ClockTurn,
    readonly place: number,
  ) {}

  get dueMs(): number {
    return this.line.dueMs[this.place]!;
  }
}

/** Before the first place of the line. */
const ends = 0;

/** Due times in order, in arrays of numbers: a hundred sessions fit in a few lines of the cache, and a move writes to no object. */
class ClockLine {
  dueMs = Float64Array.of(Number.NEGATIVE_INFINITY);
  private next = new Int32Array(1);
  private previous = new Int32Array(1);
  private readonly free: number[] = [];

  get first(): number {
    return this.next[ends]!;
  }

  /** A place that is not in the line. */
  reserve(): number {
    if (this.free.length === 0) this.grow();
    return this.free.pop()!;
  }

  release(place: number): void {
    this.free.push(place);
  }

  has(place: number): boolean {
    return this.next[place] !== place;
  }

  insert(place: number, dueMs: number): void {
    const { next, previous } = this;
    let after = previous[ends]!;
    while (this.dueMs[after]! > dueMs) after = previous[after]!;
    const before = next[after]!;
    this.dueMs[place] = dueMs;
    previous[place] = after;
    next[place] = before;
    next[after] = place;
    previous[before] = place;
  }

  take(place: number): void {
    const { next, previous } = this;
    next[previous[place]!] = next[place]!;
    previous[next[place]!] = previous[place]!;
    next[place] = place;
    previous[place] = place;
  }

  private grow(): void {
    const { dueMs, next, previous } = this;
    const size = Math.max(16, dueMs.length * 2);
    this.dueMs = new Float64Array(size);
    this.next = Int32Array.from({ length: size }, (_, i) => i);
    this.previous = this.next.slice();
    this.dueMs.set(dueMs);
    this.next.set(next);
    this.previous.set(previous);
    for (let place = size - 1; place >= dueMs.length; place--) this.free.push(place);
  }
}

export class PlayoutClock {
  private readonly line = new ClockLine();
  /** By their places. */
  private readonly entries: (Entry | null)[] = [];
  private timer: unknown = null;
  private timerDueMs = Number.POSITIVE_INFINITY;
  private turning = false;
  private worstMs = 0;
  /** Turns that wait until the sockets have been read. */
  private waiting: Entry[] = [];

  constructor(
    private readonly time: Time,
    /** Turns begin: late, since they were due at `dueMs`, or on time. */
    private readonly lateness: { late(dueMs: number, nowMs: number): void; onTime(nowMs: number): void } | null = null,
  ) {}

  add(turn: ClockTurn, dueMs: number): ClockEntry {
    const entry = new Entry(this.line, turn, this.line.reserve());
    this.entries[entry.place] = entry;
    this.line.insert(entry.place, dueMs);
    this.arm();
    return entry;
  }

  /** Sets a new due time, earlier or later. Does nothing for a removed entry. */
  move(entry: ClockEntry, dueMs: number): void {
    if (!(entry instanceof Entry) || !this.isHere(entry) || !this.line.has(entry.place)) return;
    this.line.take(entry.place);
    this.line.insert(entry.place, dueMs);
    // Timers have whole milliseconds: without this, a turn that is due now would wait for one.
    if (dueMs <= this.time.now()) this.look();
    this.arm();
  }

  remove(entry: ClockEntry): void {
    if (entry instanceof Entry && this.isHere(entry)) {
      this.entries[entry.place] = null;
      this.line.take(entry.place);
      this.line.release(entry.place);
    }
    this.arm();
  }

  /** The next due time. */
  get dueMs(): number {
    const { first } = this.line;
    return first === ends ? Number.POSITIVE_INFINITY : this.line.dueMs[first]!;
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

  private isHere(entry: Entry): boolean {
    return this.entries[entry.place] === entry;
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
    for (const entry of waiting) if (this.isHere(entry)) this.line.insert(entry.place, now);
    this.takeTurns();
  };

  private takeTurns(): void {
    const { line } = this;
    this.turning = true;
    let now = this.time.now();
    if (now - this.dueMs >= lateMs) this.lateness?.late(this.dueMs, now);
    else this.lateness?.onTime(now);
    for (let { first } = line; first !== ends && line.dueMs[first]! <= now + earlyMs; first = line.first) {
      const entry = this.entries[first]!;
      const wasDueMs = line.dueMs[first]!;
      if (now - wasDueMs > this.worstMs) this.worstMs = now - wasDueMs;
      const dueMs = entry.turn(now);
      // A session that closed in its own turn is no longer here.
      if (this.isHere(entry)) {
        line.take(first);
        if (dueMs === null) this.wait(entry);
        else line.insert(first, dueMs);
      }
      now = this.time.now();
    }
    this.turning = false;
    this.arm();
  }

  private wait(entry: Entry): void {
    if (this.waiting.push(entry) === 1) this.time.afterReading(this.sockets);
  }

  private arm(): void {
    if (this.turning) return;
    const { dueMs } = this;
    if (dueMs === Number.POSITIVE_INFINITY) {
      if (this.timer !== null) this.time.clearTimer(this.timer);
      this.timer = null;
      this.timerDueMs = Number.POSITIVE_INFINITY;
      return;
    }
    // A timer that fires too early only checks again; one that fires too late must be replaced.
    if (this.timer !== null && this.timerDueMs <= dueMs) return;
    if (this.timer !== null) this.time.clearTimer(this.timer);
    this.timerDueMs = dueMs;
    this.timer = this.time.setTimer(this.fire, Math.max(1, Math.floor(dueMs - this.time.now())));
  }
}
