/** The table of live transactions, and the matching of messages to them (RFC 3261 17.1.3, 17.2.3). */
import { randomUUID } from 'node:crypto';
import type { ControlConnection } from '../control/control.js';
import type { Dialog } from '../dialogs/dialogs.js';
import type { SipRequest, SipResponse } from '../message/message.js';
import type { LocalIdentity } from '../transport/network.js';
import type { Path, Source } from '../transport/path.js';
import type { InviteClient } from './invite-client.js';
import { InviteServer } from './invite-server.js';
import type { NonInviteClient } from './non-invite-client.js';
import { NonInviteServer } from './non-invite-server.js';
import type { TimerValues, TransactionClock } from './timers.js';

export const MAGIC_COOKIE = 'z9hG4bK';

/** The transaction of a request from the network. */
export class ServerTransaction {
  /** The transaction id for the application. */
  readonly id = randomUUID();
  readonly method: string;
  readonly machine: InviteServer | NonInviteServer;
  /** Null after the final response: from then on the machine keeps only the bytes of the response. */
  request: SipRequest | null;
  toTag = '';
  /** Null when the server answers by itself, or the application has disconnected. */
  app: ControlConnection | null = null;
  dialog: Dialog | null = null;
  /** UPDATEs of an early dialog: the application answers them with the INVITE's transaction id (told apart by CSeq). */
  readonly early: ServerTransaction[] = [];
  unanswered: () => void = () => undefined;

  constructor(
    readonly key: string,
    readonly mergeKey: string,
    request: SipRequest,
    readonly source: Source,
    readonly identity: LocalIdentity,
    /** The path of the responses (18.2.2). */
    readonly reply: Path,
    clock: TransactionClock,
    values: TimerValues,
    ended: (transaction: ServerTransaction) => void,
    onRepeat: () => void,
  ) {
    this.request = request;
    this.method = request.method;
    const user = {
      transmit: (bytes: Buffer, again?: boolean) => {
        if (again) onRepeat();
        reply.send(bytes);
      },
      unacknowledged: () => undefined,
      unanswered: () => this.unanswered(),
      ended: () => ended(this),
    };
    this.machine =
      request.method === 'INVITE'
        ? new InviteServer(clock, values, reply.reliable, user)
        : new NonInviteServer(clock, values, reply.reliable, user);
  }

  /** After the final response: releases everything that a retransmission does not need. */
  finished(): void {
    this.request = null;
    this.dialog = null;
    this.unanswered = () => undefined;
  }

  get cseq(): number {
    return this.request?.cseq?.number ?? -1;
  }
}

/** The transaction of an outbound request; `uac/uac.ts` interprets its responses. */
export interface ClientTransaction {
  readonly branch: string;
  readonly method: string;
  readonly machine: InviteClient | NonInviteClient;
  receive(response: SipResponse, source: Source): void;
}

export class TransactionTable {
  private readonly servers = new Map<string, ServerTransaction>();
  private readonly byId = new Map<string, ServerTransaction>();
  private readonly byMerge = new Map<string, ServerTransaction>();
  private readonly clients = new Map<string, ClientTransaction>();
  retransmissionsSent = 0;

  constructor(
    private readonly clock: TransactionClock,
    private readonly values: TimerValues,
  ) {}

  get size(): number {
    return this.servers.size + this.clients.size;
  }

  /** The transaction that this request repeats; for ACK and CANCEL, `method` is that of the transaction they refer to. */
  findServer(request: SipRequest, method: string): ServerTransaction | null {
    return this.servers.get(serverKey(request, method)) ?? null;
  }

  findById(id: string): ServerTransaction | null {
    return this.byId.get(id) ?? null;
  }

  /** Another transaction with the same From tag, Call-ID and CSeq: the request arrived on two paths (8.2.2.2). */
  findMerged(request: SipRequest): ServerTransaction | null {
    return request.toTag === '' ? (this.byMerge.get(mergeKey(request)) ?? null) : null;
  }

  addServer(request: SipRequest, source: Source, identity: LocalIdentity): ServerTransaction {
    const merge = request.toTag === '' ? mergeKey(request) : '';
    const transaction = new ServerTransaction(
      serverKey(request, request.method),
      merge,
      request,
      source,
      identity,
      replyPath(request, source),
      this.clock,
      this.values,
      (ended) => this.removeServer(ended),
      () => this.retransmissionsSent++,
    );
    this.servers.set(transaction.key, transaction);
    this.byId.set(transaction.id, transaction);
    if (merge !== '' && !this.byMerge.has(merge)) this.byMerge.set(merge, transaction);
    return transaction;
  }

  /** From now on the same request by another path is a request of its own. */
  allowMerged(transaction: ServerTransaction): void {
    if (this.byMerge.get(transaction.mergeKey) === transaction) this.byMerge.delete(transaction.mergeKey);
  }

  addClient(transaction: ClientTransaction): void {
    this.clients.set(`${transaction.branch} ${transaction.method}`, transaction);
  }

  removeClient(transaction: ClientTransaction): void {
    this.clients.delete(`${transaction.branch} ${transaction.method}`);
  }

  /** 17.1.3: matched by our branch and the method of CSeq. */
  findClient(response: SipResponse): ClientTransaction | null {
    return this.clients.get(`${response.topVia?.branch} ${response.cseq?.method}`) ?? null;
  }

  /** True when a Via of this request has a branch of ours: the request looped back (16.3, 16.6 step 8). */
  isOurBranch(branch: string): boolean {
    return (
      this.clients.has(`${branch} INVITE`) ||
      this.clients.has(`${branch} OPTIONS`) ||
      this.clients.has(`${branch} MESSAGE`)
    );
  }

  serversOf(app: ControlConnection): ServerTransaction[] {
    return [...this.servers.values()].filter((transaction) => transaction.app === app);
  }

  clear(): void {
    for (const transaction of [...this.servers.values()]) transaction.machine.terminate();
    for (const transaction of [...this.clients.values()]) transaction.machine.terminate();
  }

  private removeServer(transaction: ServerTransaction): void {
    if (this.servers.get(transaction.key) === transaction) this.servers.delete(transaction.key);
    this.byId.delete(transaction.id);
    this.allowMerged(transaction);
    transaction.finished();
  }
}

/** 17.2.3. Peers of RFC 2543 send no magic cookie: then the key is made of all fields that make a request unique. */
function serverKey(request: SipRequest, method: string): string {
  const via = request.topVia;
  const branch = via?.branch ?? '';
  if (branch.startsWith(MAGIC_COOKIE) && branch.length > MAGIC_COOKIE.length) {
    return `${branch} ${via?.host.toLowerCase()}:${via?.port ?? ''} ${method}`;
  }
  const ownVia = request.list('via')[0] ?? '';
  return `2543 ${request.callId} ${request.cseq?.number} ${request.fromTag} ${request.uri} ${ownVia} ${method}`;
}

function mergeKey(request: SipRequest): string {
  return `${request.callId} ${request.fromTag} ${request.cseq?.number} ${request.method}`;
}

/** 18.2.2 with RFC 3581: to the source port when the peer asked for that, else to the port in its Via. */
export function replyPath(request: SipRequest, source: Source): Path {
  if (source.back.reliable) return source.back;
  const via = request.topVia;
  if (!via || via.parameters.has('rport')) return source.back;
  return source.back.toward(source.address, via.port ?? 5060);
}
