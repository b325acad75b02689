/** Non-INVITE server transaction: RFC 3261 17.2.2. */
import { absorbMs, giveUpMs, type Timer, type TimerValues, type TransactionClock } from './timers.js';

export type NonInviteServerState = 'trying' | 'proceeding' | 'completed' | 'terminated';

export interface NonInviteServerUser {
  /** `again`: a retransmission. */
  transmit(bytes: Buffer, again?: boolean): void;
  /** The application sent no final response within twice the client's timer F. */
  unanswered(): void;
  ended(): void;
}

export class NonInviteServer {
  state: NonInviteServerState = 'trying';
  private last: Buffer | null = null;
  private timer: Timer;

  constructor(
    private readonly clock: TransactionClock,
    private readonly values: TimerValues,
    private readonly reliable: boolean,
    private readonly user: NonInviteServerUser,
  ) {
    // twice the client's time limit: it does not wait for a later response
    this.timer = clock.after(2 * giveUpMs(values), () => {
      this.user.unanswered();
      if (this.state !== 'terminated') this.end();
    });
  }

  get answered(): boolean {
    return this.state === 'completed' || this.state === 'terminated';
  }

  /** The request was retransmitted: absorbed in Trying, answered again afterwards. */
  repeated(): void {
    if (this.last) this.user.transmit(this.last, true);
  }

  respond(status: number, bytes: Buffer): boolean {
    const step = RESPOND[this.state];
    if (!step) return false;
    step.call(this, status, bytes);
    return true;
  }

  terminate(): void {
    if (this.state !== 'terminated') this.end();
  }

  answer(status: number, bytes: Buffer): void {
    this.last = bytes;
    if (status < 200) this.state = 'proceeding';
    else this.complete();
    this.user.transmit(bytes);
    // timer J is zero on reliable transports
    if (status >= 200 && this.reliable && this.state === 'completed') this.end();
  }

  private complete(): void {
    this.timer.cancel();
    this.state = 'completed';
    if (!this.reliable) this.timer = this.clock.after(absorbMs(this.values), () => this.end()); // timer J
  }

  private end(): void {
    this.timer.cancel();
    this.state = 'terminated';
    this.last = null;
    this.user.ended();
  }
}

const RESPOND: Record<NonInviteServerState, typeof NonInviteServer.prototype.answer | null> = {
  trying: NonInviteServer.prototype.answer,
  proceeding: NonInviteServer.prototype.answer,
  completed: null,
  terminated: null,
};
