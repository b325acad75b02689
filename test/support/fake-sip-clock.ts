import type { Timer, TransactionClock } from '../../sip/server/transactions/timers.js';

/** Time that moves when told. */
export class FakeClock implements TransactionClock {
  private time = 0;
  private order = 0;
  private readonly timers = new Map<number, { at: number; fire: () => void }>();

  now(): number {
    return this.time;
  }

  /** Timers still running. */
  get live(): number {
    return this.timers.size;
  }

  after(delayMs: number, fire: () => void): Timer {
    const id = this.order++;
    this.timers.set(id, { at: this.time + delayMs, fire });
    return { cancel: () => void this.timers.delete(id) };
  }

  /** Fires what is due on the way, in order. */
  advance(byMs: number): void {
    const end = this.time + byMs;
    for (;;) {
      let next: [number, { at: number; fire: () => void }] | null = null;
      for (const entry of this.timers) if (entry[1].at <= end && (!next || entry[1].at < next[1].at)) next = entry;
      if (!next) break;
      this.timers.delete(next[0]);
      this.time = next[1].at;
      next[1].fire();
    }
    this.time = end;
  }
}
