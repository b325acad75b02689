/** User agent server: requests from the network (RFC 3261 8.2, 9.2, 12.2.2, 13.3, 14.2, 15.1.2). Responses are in `answers.ts`. */

import { ALLOW, type Core } from '../assembly.js';
import { metaFields } from '../control/control.js';
import { type Dialog, dialogId } from '../dialogs/dialogs.js';
import { isIntervalTooSmall, MIN_SE_SEC } from '../dialogs/session-timer.js';
import { SUBSCRIPTION_METHODS, type Subscriptions } from '../dialogs/subscriptions.js';
import type { Header, SipRequest } from '../message/message.js';
import { checkRequest, type Rejection } from '../message/sanity.js';
import { rawWithSource, reasonPhrase, writeResponse } from '../message/write.js';
import { InviteServer } from '../transactions/invite-server.js';
import { replyPath, type ServerTransaction } from '../transactions/transaction-table.js';
import type { LocalIdentity } from '../transport/network.js';
import type { Source } from '../transport/path.js';
import type { Uac } from '../uac/uac.js';
import type { Answers } from './answers.js';

/** Refused with 503 when no application routes them: the service is temporarily unavailable. */
const NEEDS_APPLICATION = new Set(['INVITE', 'REGISTER', 'MESSAGE', 'OPTIONS', 'INFO', 'NOTIFY']);
/** Valid only inside a dialog. */
const DIALOG_ONLY = new Set(['BYE', 'PRACK', 'UPDATE']);
/** Refused in a dialog without a session: their usage does not exist there (RFC 5057 5.1). */
const SESSION_ONLY: ReadonlySet<string> = new Set(['INVITE', 'BYE', 'PRACK', 'UPDATE']);
const INTERVAL_TOO_SMALL: Rejection = { status: 422, headers: [{ name: 'min-se', value: String(MIN_SE_SEC) }] };
const EMPTY = Buffer.alloc(0);

/**
 * A stateless tag: equal for retransmissions of a request, different for others. It need not be secret, since it opens no dialog. FNV-1a,
 * twice 32 bits.
 */
function tagOf(text: string): string {
  let a = 0x811c9dc5;
  let b = 0x01000193;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    a = Math.imul(a ^ c, 0x01000193);
    b = Math.imul(b ^ c, 0x85ebca6b);
  }
  return (a >>> 0).toString(16).padStart(8, '0') + (b >>> 0).toString(16).padStart(8, '0');
}

function refreshesTarget(method: string, { subscription }: Dialog): boolean {
  return method === 'INVITE' || method === 'UPDATE' || (subscription !== null && SUBSCRIPTION_METHODS.has(method));
}

export class Uas {
  invitesReceived = 0;
  malformed = 0;

  constructor(
    private readonly core: Core,
    private readonly uac: Uac,
    private readonly answers: Answers,
    private readonly subscriptions: Subscriptions,
  ) {}

  receive(request: SipRequest, source: Source, identity: LocalIdentity): void {
    const rejection = checkRequest(request, (branch) => this.core.transactions.isOurBranch(branch));
    if (rejection) {
      if (rejection === 'silence') this.core.sources.refused(source.address, 400);
      if (rejection === 'silence' || rejection.status === 400) this.malformed++;
      if (rejection !== 'silence') this.refuse(request, source, rejection.status, rejection.headers, rejection.reason);
      return;
    }
    if (request.method === 'ACK') {
      this.acknowledged(request, source);
      return;
    }
    const repeated = this.core.transactions.findServer(request, request.method);
    if (repeated) {
      repeated.machine.repeated();
      return;
    }
    if (request.method === 'CANCEL') {
      this.cancelled(request, source, identity);
      return;
    }
    if (request.method === 'INVITE') this.invitesReceived++;
    if (request.toTag !== '') {
      this.inDialog(request, source, identity);
      return;
    }
    this.outsideDialog(request, source, identity);
  }

  /** Answers without a transaction: a retransmission is answered again, with the same tag (8.2.7). */
  private refuse(request: SipRequest, source: Source, status: number, headers: Header[] = [], reason?: string): void {
    const toTag = tagOf(`${request.callId} ${request.topVia?.branch}`);
    const extra = this.core.product ? [...headers, { name: 'server', value: this.core.product }] : headers;
    const bytes = writeResponse(request, {
      status,
      reason: reason ?? reasonPhrase(status),
      source,
      toTag,
      extra,
      body: EMPTY,
      isForgotten: true,
    });
    replyPath(request, source).send(bytes);
    this.core.sources.refused(source.address, status);
  }

  /**
   * Refuses an INVITE that a server before this one, or another node, left without a final response, with the tag of its provisional responses. A
   * proxy may send it here again, as the next one to try.
   */
  refuseLost(request: SipRequest, source: Source, identity: LocalIdentity, localTag: string): void {
    if (this.core.transactions.findServer(request, request.method)) return; // it was retransmitted, and is a call again
    const transaction = this.core.transactions.addServer(request, source, identity);
    transaction.toTag = localTag;
    this.core.transactions.allowMerged(transaction);
    this.answers.own(transaction, 503);
  }

  private outsideDialog(request: SipRequest, source: Source, identity: LocalIdentity): void {
    const { method } = request;
    const { admission, sources } = this.core;
    const app = this.core.control.appFor(method);
    const isKnown = sources.knows(source.address);
    if (!isKnown && app && !admission.hasRoomForStranger) {
      sources.crowded++; // no response: answering a flood would be a flood too
      return;
    }
    const rejection = this.rejectedOutside(request, app !== null) ?? (app && this.overloaded(method, isKnown));
    if (rejection) {
      this.refuse(request, source, rejection.status, rejection.headers);
      return;
    }
    const transaction = this.core.transactions.addServer(request, source, identity);
    if (method === 'INVITE') this.trying(transaction, request, source);
    if (!app) {
      this.answers.own(transaction, 503);
      return;
    }
    transaction.app = app;
    if (!isKnown) admission.deliveredOfStranger(transaction.id, method === 'INVITE');
    else if (method === 'INVITE') admission.delivered(transaction.id);
    transaction.unanswered = () => this.answers.own(transaction, 500);
    const heard = metaFields('network', request.raw.length, source.transport, source.address, source.port);
    app.deliver(
      `sip|${heard}|${transaction.id}||${identity.localAddress}|${identity.port}|`,
      rawWithSource(request, source),
    );
  }

  private rejectedOutside(request: SipRequest, wanted: boolean): Rejection | null {
    const { method } = request;
    if (DIALOG_ONLY.has(method)) return { status: 481 };
    if (this.core.transactions.findMerged(request)) return { status: 482 };
    if (!wanted && !NEEDS_APPLICATION.has(method)) return { status: 405, headers: [{ name: 'allow', value: ALLOW }] };
    if (method !== 'INVITE' && method !== 'SUBSCRIBE') return null;
    // our own INVITE looped back: its dialog would have the id of the first
    const id = dialogId(request.callId, request.fromTag);
    if (this.uac.isOpening(id) || this.core.dialogs.find(id)) return { status: 482 };
    return method === 'INVITE' && isIntervalTooSmall(request) ? INTERVAL_TOO_SMALL : null;
  }

  /** Applies to new calls and subscriptions only: requests for existing ones are never refused for overload. */
  private overloaded(method: string, isKnown: boolean): Rejection | null {
    const { admission } = this.core;
    let retryAfterSec: number | null = null;
    if (method === 'INVITE') retryAfterSec = admission.admits(isKnown);
    else if (method === 'SUBSCRIBE') retryAfterSec = admission.admitsSubscription(this.subscriptions.living);
    return retryAfterSec === null
      ? null
      : { status: 503, headers: [{ name: 'retry-after', value: String(retryAfterSec) }] };
  }

  private trying(transaction: ServerTransaction, request: SipRequest, source: Source): void {
    const bytes = writeResponse(request, { status: 100, reason: 'Trying', source, toTag: '', extra: [], body: EMPTY });
    transaction.machine.respond(100, bytes);
  }

  private inDialog(request: SipRequest, source: Source, identity: LocalIdentity): void {
    const dialog = this.core.dialogs.findByTags(request.callId, request.toTag, request.fromTag);
    if (!dialog || dialog.state === 'ended') {
      if (request.method !== 'NOTIFY' || !this.waits(request, source, identity)) this.refuse(request, source, 481);
      return;
    }
    if (!dialog.app.connected) {
      this.core.dialogs.remove(dialog);
      this.refuse(request, source, 481);
      return;
    }
    this.toDialog(dialog, request, source, this.core.transactions.addServer(request, source, identity));
  }

  /** A NOTIFY that arrived before the 2xx to its SUBSCRIBE is delivered to the application after the 2xx (RFC 6665 4.1.3). */
  private waits(notify: SipRequest, source: Source, identity: LocalIdentity): boolean {
    let transaction: ServerTransaction | null = null;
    const isWaiting = this.subscriptions.waitsForAnswer(notify, dialogId(notify.callId, notify.toTag), (dialog) => {
      if (!transaction || transaction.machine.answered) return;
      if (dialog && dialog.state !== 'ended') this.toDialog(dialog, notify, source, transaction);
      else this.answers.own(transaction, 481);
    });
    if (isWaiting) transaction = this.core.transactions.addServer(notify, source, identity);
    return isWaiting;
  }

  private toDialog(dialog: Dialog, request: SipRequest, source: Source, transaction: ServerTransaction): void {
    const { method } = request;
    const rejection = this.rejectedInside(request, dialog);
    if (rejection) {
      // with a transaction: the CSeq is used, so a retransmission must find this response
      this.answers.own(transaction, rejection.status, rejection.headers);
      return;
    }
    if (method === 'BYE' && dialog.state === 'early' && dialog.role === 'uas') {
      this.abandoned(transaction, dialog);
      return;
    }
    transaction.app = dialog.app;
    transaction.dialog = dialog;
    transaction.unanswered = () => {
      this.answers.own(transaction, 500);
      if (method === 'BYE') this.core.dialogs.remove(dialog);
    };
    if (refreshesTarget(method, dialog)) dialog.refreshTarget(request);
    if (source.back.reliable) dialog.path = source.back;
    else if (dialog.nat) dialog.nat = { address: source.address, port: source.port };
    if (method === 'INVITE') {
      this.answers.opened(dialog, transaction);
      this.trying(transaction, request, source);
    }
    if (method === 'BYE') this.hangUp(dialog);
    const name = this.nameFor(transaction, dialog);
    const heard = metaFields('network', request.raw.length, source.transport, source.address, source.port);
    dialog.app.deliver(`sip|${heard}|${name}|${dialog.id}|`, rawWithSource(request, source));
  }

  /** Checks order (12.2.2), PRACK (RFC 3262 3), glare and overlap (14.2; RFC 3311 5.2), and too small session intervals (RFC 4028 5). */
  private rejectedInside(request: SipRequest, dialog: Dialog): Rejection | null {
    const { method } = request;
    const cseq = request.cseq!.number;
    if (cseq <= dialog.remoteCseq) return { status: 500 };
    dialog.remoteCseq = cseq;
    if (dialog.subscription && SESSION_ONLY.has(method)) return { status: 481 };
    if (method === 'PRACK') return dialog.reliable?.acknowledge(request) ? null : { status: 481 };
    if (method !== 'INVITE' && method !== 'UPDATE') return null;
    if (isIntervalTooSmall(request)) return INTERVAL_TOO_SMALL;
    const offers = method === 'INVITE' || request.body.length > 0;
    if (dialog.state !== 'confirmed' || !offers) return null;
    if (dialog.invite === 'ours') return { status: 491 };
    if (dialog.invite !== 'theirs') return null;
    return { status: 500, headers: [{ name: 'retry-after', value: String(Math.floor(Math.random() * 11)) }] };
  }

  /** An UPDATE of an early dialog is delivered under the transaction id of the unanswered INVITE. */
  private nameFor(transaction: ServerTransaction, dialog: Dialog): string {
    if (transaction.method !== 'UPDATE' || dialog.state !== 'early' || dialog.role !== 'uas') return transaction.id;
    const invite = this.answers.inviteOf(dialog);
    if (!invite) return transaction.id;
    invite.early.push(transaction);
    return invite.id;
  }

  /** 15.1.2: ends everything that is still open in the dialog. */
  private hangUp(dialog: Dialog): void {
    const awaiting = dialog.awaitingAck;
    dialog.awaitingAck = null;
    awaiting?.settle();
    dialog.sessionTimer?.stop();
    const invite = this.answers.inviteOf(dialog);
    if (invite) this.answers.own(invite, 487);
  }

  /** BYE before our answer (15): the application knows no dialog yet, so it gets a CANCEL. */
  private abandoned(transaction: ServerTransaction, dialog: Dialog): void {
    const invite = this.answers.inviteOf(dialog);
    if (invite) this.answers.abandoned(invite);
    this.answers.own(transaction, 200);
    this.hangUp(dialog);
    this.core.dialogs.remove(dialog);
  }

  private acknowledged(request: SipRequest, source: Source): void {
    const transaction = this.core.transactions.findServer(request, 'INVITE');
    if (transaction && transaction.machine instanceof InviteServer && transaction.machine.state !== 'accepted') {
      transaction.machine.acknowledged();
      return;
    }
    const dialog = this.core.dialogs.findByTags(request.callId, request.toTag, request.fromTag);
    const awaiting = dialog?.awaitingAck;
    if (!dialog || !awaiting || awaiting.cseq !== request.cseq?.number) return; // a retransmission
    dialog.awaitingAck = null;
    const heard = metaFields('network', request.raw.length, source.transport, source.address, source.port);
    dialog.app.deliver(`sip|${heard}|${awaiting.transactionId}|${dialog.id}|`, rawWithSource(request, source));
    awaiting.settle();
  }

  /** 9.2. A CANCEL after the final response has no effect but is still answered. */
  private cancelled(request: SipRequest, source: Source, identity: LocalIdentity): void {
    const invite = this.core.transactions.findServer(request, 'INVITE');
    if (!invite) {
      this.refuse(request, source, 481);
      return;
    }
    const transaction = this.core.transactions.addServer(request, source, identity);
    transaction.toTag = invite.toTag;
    this.answers.own(transaction, 200);
    if (invite.machine.answered) return;
    const { app, dialog, id } = invite;
    this.answers.own(invite, 487);
    const heard = metaFields('network', request.raw.length, source.transport, source.address, source.port);
    app?.deliver(`sip|${heard}|${id}|${dialog?.id ?? ''}|`, rawWithSource(request, source));
  }
}
