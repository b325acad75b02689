/** Reliable provisional responses (RFC 3262): retransmits ours until PRACK, and checks the order of those received. */

import type { SipRequest, SipResponse } from '../message/message.js';
import { giveUpMs, Repeater, type Timer, type TimerValues, type TransactionClock } from '../transactions/timers.js';

const highestReceived = new WeakMap<object, number>();

/** True for a new provisional response; retransmissions and responses out of order are dropped (RFC 3262 4). */
export function acceptsReliable(dialog: object, response: SipResponse): boolean {
  const rseq = response.get('rseq');
  if (rseq === undefined || !/^\d{1,10}$/.test(rseq)) return true;
  const number = Number(rseq);
  const highest = highestReceived.get(dialog);
  if (highest !== undefined && number !== highest + 1) return false;
  highestReceived.set(dialog, number);
  return true;
}

interface Unacknowledged {
  rseq: number;
  cseq: number;
  transmit(again: boolean): void;
  /** It carries SDP: a 2xx must wait for its PRACK. */
  describes: boolean;
}

/** Our reliable provisional responses to one INVITE: one is in flight at a time, the others wait. */
export class Reliable {
  private nextRseq = 1 + Math.floor(Math.random() * 2 ** 16);
  private readonly queue: Unacknowledged[] = [];
  /** A PRACK was delivered to the application. */
  private acknowledging = false;
  private repeater: Repeater | null = null;
  private timer: Timer | null = null;
  private held: { act: () => void; dropped: () => void } | null = null;

  constructor(
    private readonly clock: TransactionClock,
    private readonly values: TimerValues,
    /** Called when no PRACK arrived for 64·T1: the INVITE is refused with 5xx (RFC 3262 3). */
    private readonly missing: () => void,
  ) {}

  number(): number {
    return this.nextRseq++;
  }

  send(response: Unacknowledged): void {
    this.queue.push(response);
    if (this.queue.length === 1 && !this.acknowledging) this.transmitFirst();
  }

  /** Runs `act` now, or after the PRACK of a response with SDP was answered; calls `dropped` when that never happens. */
  beforeSuccess(act: () => void, dropped: () => void): void {
    if (this.acknowledging || this.queue.some((response) => response.describes)) this.held = { act, dropped };
    else act();
  }

  /** True when this PRACK acknowledges the response in flight. */
  acknowledge(prack: SipRequest): boolean {
    // text after the method is ignored
    const match = /^(\d{1,10})\s+(\d{1,10})\s+INVITE\b/i.exec(prack.get('rack') ?? '');
    const first = this.queue[0];
    if (!match || !first || Number(match[1]) !== first.rseq || Number(match[2]) !== first.cseq) return false;
    this.quiet();
    this.queue.shift();
    this.acknowledging = true;
    return true;
  }

  /** The PRACK was answered: sends the next response in the queue, or the waiting 2xx. */
  acknowledged(): void {
    this.acknowledging = false;
    if (this.queue.length > 0) this.transmitFirst();
    else {
      const { held } = this;
      this.held = null;
      held?.act();
    }
  }

  stop(): void {
    this.quiet();
    this.queue.length = 0;
    const { held } = this;
    this.held = null;
    held?.dropped();
  }

  private transmitFirst(): void {
    const first = this.queue[0]!;
    first.transmit(false);
    this.repeater = new Repeater(this.clock, this.values.t1, giveUpMs(this.values), () => first.transmit(true));
    this.timer = this.clock.after(giveUpMs(this.values), () => {
      this.stop();
      this.missing();
    });
  }

  private quiet(): void {
    this.repeater?.stop();
    this.timer?.cancel();
    this.repeater = null;
    this.timer = null;
  }
}
