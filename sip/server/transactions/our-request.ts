/** An outbound request: its transaction, and the data for a later ACK, CANCEL or locally made response. */
import { randomUUID } from 'node:crypto';
import { type Core, newTag } from '../assembly.js';
import type { ControlConnection } from '../control/control.js';
import type { Dialog } from '../dialogs/dialogs.js';
import type { SubscriptionFields } from '../dialogs/subscription.js';
import { parseNameAddr } from '../message/fields.js';
import type { Header, SipResponse } from '../message/message.js';
import { reasonPhrase, writeMessage } from '../message/write.js';
import type { LocalIdentity } from '../transport/network.js';
import type { Path, Source } from '../transport/path.js';
import type { OutgoingRequest } from '../uac/outgoing.js';
import { InviteClient } from './invite-client.js';
import { NonInviteClient } from './non-invite-client.js';
import type { Timer } from './timers.js';
import type { ClientTransaction } from './transaction-table.js';

export interface OurRequestUser {
  answered?(response: SipResponse, source: Source): void;
  /** 408 without a response, 503 when the request could not be sent, and why. */
  failed?(status: number, why?: string): void;
  ended?(): void;
}

const EMPTY = Buffer.alloc(0);

export class OurRequest implements ClientTransaction {
  /** The transaction id for the application. */
  readonly id = randomUUID();
  readonly branch: string;
  readonly path: Path;
  readonly identity: LocalIdentity;
  readonly uri: string;
  readonly callId: string;
  readonly from: string;
  readonly fromTag: string;
  readonly to: string;
  readonly cseq: number;
  machine!: InviteClient | NonInviteClient;
  /** Our SDP in an INVITE, and our Contact in an INVITE or SUBSCRIBE. */
  sdp: Buffer | null = null;
  contact = '';
  /** The content of a SUBSCRIBE or NOTIFY. */
  said: SubscriptionFields | null = null;
  cancelled = false;
  /** To tag of the first 2xx. */
  answeredTag: string | null = null;
  readonly released = new Set<string>();
  readonly early = new Set<Dialog>();
  timer: Timer | null = null;
  private proceeding = false;
  private onProceeding: (() => void) | null = null;
  private readonly via: string;
  private readonly routes: readonly string[];
  private source: Source | null = null;
  private stopWatching: () => void = () => undefined;

  constructor(
    private readonly core: Core,
    /** Null: the server made the request, or the application has disconnected. */
    public app: ControlConnection | null,
    readonly method: string,
    outgoing: OutgoingRequest,
    /** The dialog of an in-dialog request; null outside of one. */
    readonly dialog: Dialog | null,
    readonly dialogId: string,
    private readonly user: OurRequestUser,
  ) {
    const header = (name: string) => outgoing.headers.find((h) => h.name === name)?.value ?? '';
    this.branch = outgoing.branch;
    this.path = outgoing.path;
    this.identity = outgoing.identity;
    this.uri = outgoing.uri;
    this.routes = outgoing.routes;
    this.via = outgoing.via;
    this.callId = header('call-id');
    this.from = header('from');
    this.fromTag = parseNameAddr(this.from)?.parameters.get('tag') ?? '';
    this.to = header('to');
    this.cseq = Number.parseInt(header('cseq'), 10);
  }

  start(bytes: Buffer): void {
    this.open(bytes);
    this.machine.start();
    // a connection that breaks before any response may have lost the request
    this.stopWatching = this.path.onClosed((error) => !this.proceeding && this.machine.fail(error));
  }

  /** Replaces `start` for an INVITE that a server before this one sent. */
  resume(): void {
    this.open(EMPTY);
    this.proceeding = true;
    if (this.machine instanceof InviteClient) this.machine.resume();
  }

  private open(bytes: Buffer): void {
    const { clock, timers, transactions } = this.core;
    const user = {
      transmit: (out: Buffer, again?: boolean) => {
        if (again) transactions.retransmissionsSent++;
        this.path.send(out, (error) => this.machine.fail(error));
      },
      received: (response: SipResponse) => this.user.answered?.(response, this.source!),
      acknowledge: (response: SipResponse) => this.same('ACK', response.get('to') ?? this.to, []),
      timedOut: () => this.user.failed?.(408),
      transportFailed: (error: Error) => this.user.failed?.(503, error.message),
      ended: () => {
        this.stopWatching();
        transactions.removeClient(this);
        this.user.ended?.();
      },
    };
    const { reliable } = this.path;
    this.machine =
      this.method === 'INVITE'
        ? new InviteClient(clock, timers, reliable, bytes, user)
        : new NonInviteClient(clock, timers, reliable, bytes, user);
    transactions.addClient(this);
    this.core.sources.acquainted(this.path.address); // before its response arrives
  }

  receive(response: SipResponse, source: Source): void {
    this.source = source;
    this.machine.receive(response);
    if (this.proceeding || response.status >= 200) return;
    this.proceeding = true;
    this.onProceeding?.();
    this.onProceeding = null;
  }

  /** Calls `act` now, or when the first provisional response arrives. */
  whenProceeding(act: () => void): void {
    if (this.proceeding) act();
    else this.onProceeding = act;
  }

  cancelBytes(headers: Header[]): Buffer {
    return this.same('CANCEL', this.to, headers);
  }

  /** Sends CANCEL in a transaction of its own on the same branch; its response is not needed. */
  sendCancel(bytes: Buffer): void {
    const { clock, timers, transactions } = this.core;
    const machine = new NonInviteClient(clock, timers, this.path.reliable, bytes, {
      transmit: (out, again) => {
        if (again) transactions.retransmissionsSent++;
        this.path.send(out);
      },
      received: () => undefined,
      timedOut: () => undefined,
      transportFailed: () => undefined,
      ended: () => transactions.removeClient(cancel),
    });
    const receive = (response: SipResponse) => machine.receive(response);
    const cancel: ClientTransaction = { branch: this.branch, method: 'CANCEL', machine, receive };
    transactions.addClient(cancel);
    machine.start();
  }

  /** A response as if from the far side; `why` becomes its Reason header. */
  localResponse(status: number, why?: string): Buffer {
    const tagged = parseNameAddr(this.to)?.parameters.has('tag') ? this.to : `${this.to};tag=${newTag()}`;
    return writeMessage(
      `SIP/2.0 ${status} ${reasonPhrase(status)}`,
      [
        { name: 'via', value: this.via },
        { name: 'from', value: this.from },
        { name: 'to', value: tagged },
        { name: 'call-id', value: this.callId },
        { name: 'cseq', value: `${this.cseq} ${this.method}` },
        ...(why === undefined ? [] : [{ name: 'reason', value: `SIP;cause=${status};text="${quotable(why)}"` }]),
      ],
      EMPTY,
    );
  }

  /** ACK to a failure and CANCEL: top Via, Request-URI, Route, From, Call-ID and CSeq number of the INVITE (9.1, 17.1.1.3). */
  private same(method: 'ACK' | 'CANCEL', to: string, headers: Header[]): Buffer {
    return writeMessage(
      `${method} ${this.uri} SIP/2.0`,
      [
        { name: 'via', value: this.via },
        { name: 'max-forwards', value: '70' },
        ...this.routes.map((value) => ({ name: 'route', value })),
        { name: 'from', value: this.from },
        { name: 'to', value: to },
        { name: 'call-id', value: this.callId },
        { name: 'cseq', value: `${this.cseq} ${method}` },
        ...headers,
      ],
      EMPTY,
    );
  }
}

/** Visible ASCII without characters that end a quoted string. */
function quotable(text: string): string {
  return text.replace(/[^\x20-\x7e]|["\\]/g, ' ');
}
