/** INVITE client transaction: RFC 3261 17.1.1, with the Accepted state of RFC 6026 7.2. */
import type { SipResponse } from '../message/message.js';
import { absorbMs, giveUpMs, Repeater, type Timer, type TimerValues, type TransactionClock, timerD } from './timers.js';

export type InviteClientState = 'calling' | 'proceeding' | 'completed' | 'accepted' | 'terminated';

export interface InviteClientUser {
  /** `again`: a retransmission. */
  transmit(bytes: Buffer, again?: boolean): void;
  /** The ACK for a 300–699 response, to be sent on the same branch (17.1.1.3). */
  acknowledge(response: SipResponse): Buffer;
  /** Every 1xx and every 2xx, including retransmissions; the first of 300–699. */
  received(response: SipResponse): void;
  /** Timer B fired. */
  timedOut(): void;
  transportFailed(error: Error): void;
  /** The last call; the transaction holds no memory after it. */
  ended(): void;
}

export class InviteClient {
  state: InviteClientState = 'calling';
  private repeater: Repeater | null = null;
  private timer: Timer | null = null;
  private ack: Buffer | null = null;

  constructor(
    private readonly clock: TransactionClock,
    private readonly values: TimerValues,
    private readonly reliable: boolean,
    private request: Buffer,
    private readonly user: InviteClientUser,
  ) {}

  start(): void {
    this.user.transmit(this.request);
    // timer A on unreliable transports only, uncapped as in 17.1.1.2
    if (!this.reliable) {
      this.repeater = new Repeater(this.clock, this.values.t1, giveUpMs(this.values), () =>
        this.user.transmit(this.request, true),
      );
    }
    this.wait(giveUpMs(this.values), () => this.end(() => this.user.timedOut())); // timer B
  }

  /** For a request that another process sent: starts in the proceeding state. */
  resume(): void {
    this.state = 'proceeding';
  }

  receive(response: SipResponse): void {
    const kind = response.status < 200 ? 'provisional' : response.status < 300 ? 'success' : 'failure';
    RECEIVE[this.state][kind]?.call(this, response);
  }

  /** The transport could not deliver (17.1.4). */
  fail(error: Error): void {
    if (this.state === 'terminated') return;
    // after a final answer a transport failure no longer matters
    const tell = this.state === 'calling' || this.state === 'proceeding';
    this.end(() => tell && this.user.transportFailed(error));
  }

  /** Ends the transaction; of its callbacks only `ended` is called. */
  terminate(): void {
    if (this.state !== 'terminated') this.end(() => undefined);
  }

  /** 17.1.1.2: the first provisional response stops the retransmissions; from here on there is no time limit. */
  proceed(response: SipResponse): void {
    this.state = 'proceeding';
    this.quiet();
    this.user.received(response);
  }

  /** RFC 6026 7.2: 2xx of forks and retransmitted 2xx still reach the user until timer M. */
  accept(response: SipResponse): void {
    this.state = 'accepted';
    this.quiet();
    this.request = EMPTY;
    this.wait(absorbMs(this.values), () => this.end(() => undefined)); // timer M
    this.user.received(response);
  }

  /** 17.1.1.2: a failure is acknowledged here, and each retransmission of it again until timer D. */
  complete(response: SipResponse): void {
    this.state = 'completed';
    this.quiet();
    this.request = EMPTY;
    this.ack = this.user.acknowledge(response);
    this.user.transmit(this.ack);
    this.user.received(response);
    if (this.state !== 'completed') return;
    const waitMs = timerD(this.values, this.reliable);
    if (waitMs === 0) this.end(() => undefined);
    else this.wait(waitMs, () => this.end(() => undefined));
  }

  again(): void {
    if (this.ack) this.user.transmit(this.ack, true);
  }

  pass(response: SipResponse): void {
    this.user.received(response);
  }

  private wait(delayMs: number, then: () => void): void {
    this.timer = this.clock.after(delayMs, then);
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
    this.request = EMPTY;
    this.ack = null;
    last();
    this.user.ended();
  }
}

const EMPTY = Buffer.alloc(0);

type Step = (this: InviteClient, response: SipResponse) => void;

const RECEIVE: Record<InviteClientState, { provisional?: Step; success?: Step; failure?: Step }> = {
  calling: {
    provisional: InviteClient.prototype.proceed,
    success: InviteClient.prototype.accept,
    failure: InviteClient.prototype.complete,
  },
  proceeding: {
    provisional: InviteClient.prototype.pass,
    success: InviteClient.prototype.accept,
    failure: InviteClient.prototype.complete,
  },
  completed: { failure: InviteClient.prototype.again },
  accepted: { success: InviteClient.prototype.pass },
  terminated: {},
};
