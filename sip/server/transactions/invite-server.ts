/** INVITE server transaction: RFC 3261 17.2.1, with the Accepted state of RFC 6026 7.1. */
import {
  absorbMs,
  giveUpMs,
  quietMs,
  Repeater,
  type Timer,
  type TimerValues,
  type TransactionClock,
} from './timers.js';

export type InviteServerState = 'proceeding' | 'completed' | 'confirmed' | 'accepted' | 'terminated';

export interface InviteServerUser {
  /** `again`: a retransmission. */
  transmit(bytes: Buffer, again?: boolean): void;
  /** Timer H fired: no ACK arrived for our failure response. */
  unacknowledged(): void;
  ended(): void;
}

/** How often a provisional response is repeated while a call rings (13.3.1.1), so that proxies restart their timer C. */
export const RINGING_REPEAT_MS = 60_000;

export class InviteServer {
  state: InviteServerState = 'proceeding';
  private last: Buffer | null = null;
  private repeater: Repeater | null = null;
  private timer: Timer | null = null;

  constructor(
    private readonly clock: TransactionClock,
    private readonly values: TimerValues,
    private readonly reliable: boolean,
    private readonly user: InviteServerUser,
  ) {}

  get answered(): boolean {
    return this.state !== 'proceeding';
  }

  /** The INVITE was retransmitted. A 2xx is retransmitted by the dialog, not here (RFC 6026 7.1). */
  repeated(): void {
    if (REPEATS_LAST[this.state] && this.last) this.user.transmit(this.last, true);
  }

  /** Returns false when a final response was already sent. */
  respond(status: number, bytes: Buffer): boolean {
    if (this.state !== 'proceeding') return false;
    RESPOND[status < 200 ? 'provisional' : status < 300 ? 'success' : 'failure'].call(this, bytes, status);
    return true;
  }

  /** The ACK for a 300–699 response. */
  acknowledged(): void {
    if (this.state !== 'completed') return;
    this.quiet();
    this.state = 'confirmed';
    this.last = null;
    const waitMs = quietMs(this.values, this.reliable); // timer I
    if (waitMs === 0) this.end();
    else this.timer = this.clock.after(waitMs, () => this.end());
  }

  terminate(): void {
    if (this.state !== 'terminated') this.end();
  }

  provisional(bytes: Buffer, status: number): void {
    this.last = bytes;
    this.quiet();
    this.user.transmit(bytes);
    if (status === 100) return;
    const again = () => {
      this.timer = this.clock.after(RINGING_REPEAT_MS, again);
      this.user.transmit(bytes, true);
    };
    this.timer = this.clock.after(RINGING_REPEAT_MS, again);
  }

  success(bytes: Buffer): void {
    this.quiet();
    this.state = 'accepted';
    this.last = null;
    this.user.transmit(bytes);
    this.timer = this.clock.after(absorbMs(this.values), () => this.end()); // timer L
  }

  failure(bytes: Buffer): void {
    this.quiet();
    this.state = 'completed';
    this.last = bytes;
    this.user.transmit(bytes);
    // timer G on unreliable transports only
    if (!this.reliable) {
      this.repeater = new Repeater(this.clock, this.values.t1, this.values.t2, () => this.user.transmit(bytes, true));
    }
    this.timer = this.clock.after(giveUpMs(this.values), () => {
      this.user.unacknowledged(); // timer H
      this.end();
    });
  }

  private quiet(): void {
    this.repeater?.stop();
    this.timer?.cancel();
    this.repeater = null;
    this.timer = null;
  }

  private end(): void {
    this.quiet();
    this.state = 'terminated';
    this.last = null;
    this.user.ended();
  }
}

const REPEATS_LAST: Record<InviteServerState, boolean> = {
  proceeding: true,
  completed: true,
  confirmed: false,
  accepted: false,
  terminated: false,
};

const RESPOND = {
  provisional: InviteServer.prototype.provisional,
  success: InviteServer.prototype.success,
  failure: InviteServer.prototype.failure,
};
