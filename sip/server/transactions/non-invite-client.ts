/** Non-INVITE client transaction: RFC 3261 17.1.2. */
import type { SipResponse } from '../message/message.js';
import { giveUpMs, quietMs, Repeater, type Timer, type TimerValues, type TransactionClock } from './timers.js';

export type NonInviteClientState = 'trying' | 'proceeding' | 'completed' | 'terminated';

export interface NonInviteClientUser {
  /** `again`: a retransmission. */
  transmit(bytes: Buffer, again?: boolean): void;
  /** Every 1xx, and the first final response. */
  received(response: SipResponse): void;
  /** Timer F fired. */
  timedOut(): void;
  transportFailed(error: Error): void;
  ended(): void;
}

export class NonInviteClient {
  state: NonInviteClientState = 'trying';
  private repeater: Repeater | null = null;
  private timer: Timer | null = null;

  constructor(
    private readonly clock: TransactionClock,
    private readonly values: TimerValues,
    private readonly reliable: boolean,
    private readonly request: Buffer,
    private readonly user: NonInviteClientUser,
  ) {}

  start(): void {
    this.user.transmit(this.request);
    if (!this.reliable) {
      this.repeater = new Repeater(this.clock, this.values.t1, this.values.t2, () =>
        this.user.transmit(this.request, true),
      ); // timer E
    }
    this.timer = this.clock.after(giveUpMs(this.values), () => this.end(() => this.user.timedOut())); // timer F
  }

  receive(response: SipResponse): void {
    RECEIVE[this.state][response.status < 200 ? 'provisional' : 'final']?.call(this, response);
  }

  fail(error: Error): void {
    if (this.state === 'terminated') return;
    const tell = this.state !== 'completed';
    this.end(() => tell && this.user.transportFailed(error));
  }

  terminate(): void {
    if (this.state !== 'terminated') this.end(() => undefined);
  }

  /** 17.1.2.2: retransmissions continue every T2, and timer F keeps running. */
  proceed(response: SipResponse): void {
    this.state = 'proceeding';
    this.repeater?.slowDown();
    this.user.received(response);
  }

  complete(response: SipResponse): void {
    this.state = 'completed';
    this.quiet();
    this.user.received(response);
    if (this.state !== 'completed') return;
    const waitMs = quietMs(this.values, this.reliable); // timer K
    if (waitMs === 0) this.end(() => undefined);
    else this.timer = this.clock.after(waitMs, () => this.end(() => undefined));
  }

  private quiet(): void {
    this.repeater?.stop();
    this.timer?.cancel();
    this.repeater = null;
    this.timer = null;
  }

  private end(last: () => void): void {
    this.quiet();
    this.state = 'terminated';
    last();
    this.user.ended();
  }
}

type Step = (this: NonInviteClient, response: SipResponse) => void;

const RECEIVE: Record<NonInviteClientState, { provisional?: Step; final?: Step }> = {
  trying: { provisional: NonInviteClient.prototype.proceed, final: NonInviteClient.prototype.complete },
  proceeding: { provisional: NonInviteClient.prototype.proceed, final: NonInviteClient.prototype.complete },
  completed: {},
  terminated: {},
};
