/**
 * With many calls a packet arrives every few hundred microseconds, and each wakeup costs more than the work it does. So after some work the
 * thread sleeps for a part of a millisecond and then handles the packets of several calls at once. With few calls it never sleeps: each
 * packet is forwarded immediately.
 */

/** Number of sessions from which batching pays off. */
const fromSessions = 16;
const restMs = 0.5;
/** A shorter sleep is not worth its cost. */
const leastMs = 0.1;

export interface WakeupBatchingParts {
  now(): number;
  sessions(): number;
  /** When the next packet is due. */
  dueMs(): number;
  /** Sends what is due. */
  woke(): void;
  sleep(ms: number): void;
}

export class WakeupBatching {
  private planned = false;

  constructor(private readonly parts: WakeupBatchingParts) {}

  /** A packet arrived. Packets that already wait in the sockets are handled before the thread sleeps. */
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

/** Blocks the thread with a precision of about 60 µs; timers only have whole milliseconds. Not for the main thread. */
export function sleepThread(ms: number): void {
  Atomics.wait(nothing, 0, 0, ms);
}
