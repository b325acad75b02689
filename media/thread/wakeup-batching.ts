/**
 * With many calls a packet arrives every few hundred microseconds, and waking up for each costs more than what is done with it. So after
 * some work the thread sleeps for a part of a millisecond, and finds the packets of several calls when it wakes. With few calls it never
 * does: each packet is passed on at once.
 */

/** Sessions that are worth it. */
const fromSessions = 16;
const restMs = 0.5;
/** Not worth falling asleep for. */
const leastMs = 0.1;

export interface RestParts {
  now(): number;
  sessions(): number;
  /** When the next packet is due. */
  dueMs(): number;
  /** Sends what is due. */
  woke(): void;
  sleep(ms: number): void;
}

export class Rest {
  private planned = false;

  constructor(private readonly parts: RestParts) {}

  /** A packet came. What else is there already is handled first. */
  packetCame(): void {
    if (this.planned || this.parts.sessions() < fromSessions) return;
    this.planned = true;
    setImmediate(this.take);
  }

  private readonly take = (): void => {
    this.planned = false;
    const ms = Math.min(restMs, this.parts.dueMs() - this.parts.now());
    if (ms > leastMs) this.parts.sleep(ms);
    this.parts.woke();
  };
}

const nothing = new Int32Array(new SharedArrayBuffer(4));

/** Blocks the thread, exact to some 60 µs where a timer has whole milliseconds. Not for the main thread. */
export function sleepThread(ms: number): void {
  Atomics.wait(nothing, 0, 0, ms);
}
