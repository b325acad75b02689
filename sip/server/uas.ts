/** User agent server: requests from the network (RFC 3261 8.2, 9.2, 12.2.2, 13.3, 14.2, 15.1.2). The application's answers: `answers.ts`. */
import { createHash } from 'node:crypto';
import type { Answers } from './answers.js';
import { meta } from './control.js';
import { ALLOW, type Core } from './core.js';
import { type Dialog, dialogId } from './dialogs.js';
import type { Header, SipRequest } from './message.js';
import type { Identity } from './network.js';
import { examine } from './sanity.js';
import { MIN_SE_SEC, tooSmall } from './session-timer.js';
import type { ServerTransaction } from './transaction-table.js';
import { InviteServer } from './transactions/invite-server.js';
import type { Source } from './transport/path.js';
import type { Uac } from './uac.js';
import { reasonPhrase, writeResponse } from './write.js';

/** Refused with 503 when no application wants them: nobody is at home. */
const NEEDS_APPLICATION = new Set(['INVITE', 'REGISTER', 'MESSAGE', 'OPTIONS', 'INFO', 'NOTIFY']);
/** Have no meaning outside a dialog. */
const DIALOG_ONLY = new Set(['BYE', 'PRACK', 'UPDATE']);
const EMPTY = Buffer.alloc(0);

export class Uas {
  invitesReceived = 0;
  malformed = 0;

  constructor(
    private readonly core: Core,
    private readonly uac: Uac,
    private readonly answers: Answers,
  ) {}

  receive(request: SipRequest, source: Source, identity: Identity): void {
    const rejection = examine(request, (branch) => this.core.transactions.isOurBranch(branch));
    if (rejection) {
      if (rejection === 'silence' || rejection.status === 400) this.malformed++;
      if (rejection !== 'silence') this.refuse(request, source, rejection.status, rejection.headers, rejection.reason);
      return;
    }
    if (request.method === 'ACK') return this.acknowledged(request, source);
    const repeated = this.core.transactions.findServer(request, request.method);
    if (repeated) return repeated.machine.repeated();
    if (request.method === 'CANCEL') return this.cancelled(request, source, identity);
    if (request.method === 'INVITE') this.invitesReceived++;
    if (request.toTag !== '') return this.inDialog(request, source, identity);
    if (this.core.transactions.findMerged(request)) return this.refuse(request, source, 482);
    this.outsideDialog(request, source, identity);
  }

  /** Answers without a transaction: repeats are simply answered again, with the same tag (8.2.7). */
  private refuse(request: SipRequest, source: Source, status: number, headers: Header[] = [], reason?: string): void {
    const toTag = createHash('sha1').update(`${request.callId} ${request.topVia?.branch}`).digest('hex').slice(0, 16);
    const extra = this.core.product ? [...headers, { name: 'server', value: this.core.product }] : headers;
    const bytes = writeResponse(request, {
      status,
      reason: reason ?? reasonPhrase(status),
      source,
      toTag,
      extra,
      body: EMPTY,
    });
    const via = request.topVia;
    const reply =
      !via || source.transport === 'tcp' || via.parameters.has('rport')
        ? source.back
        : source.back.toward(source.address, via.port ?? 5060);
    reply.send(bytes);
  }

  private outsideDialog(request: SipRequest, source: Source, identity: Identity): void {
    const { method } = request;
    if (DIALOG_ONLY.has(method)) return this.refuse(request, source, 481);
    const app = this.core.control.appFor(method);
    if (!app && !NEEDS_APPLICATION.has(method))
      return this.refuse(request, source, 405, [{ name: 'allow', value: ALLOW }]);
    const id = dialogId(request.callId, request.fromTag);
    if (method === 'INVITE') {
      // a call of ours that came back to us: its dialog would have the name of the first
      if (this.uac.isInviting(id) || this.core.dialogs.find(id)) return this.refuse(request, source, 482);
      if (tooSmall(request)) return this.refuse(request, source, 422, [{ name: 'min-se', value: String(MIN_SE_SEC) }]);
    }
    const transaction = this.core.transactions.addServer(request, source, identity);
    if (method === 'INVITE') this.trying(transaction, request, source);
    if (!app) return this.answers.own(transaction, 503);
    transaction.app = app;
    transaction.unanswered = () => this.answers.own(transaction, 500);
    const heard = meta('network', request.raw.length, source.transport, source.address, source.port);
    app.deliver(`sip|${heard}|${transaction.id}||${identity.localAddress}|${identity.port}|`, request.raw);
  }

  private trying(transaction: ServerTransaction, request: SipRequest, source: Source): void {
    const bytes = writeResponse(request, { status: 100, reason: 'Trying', source, toTag: '', extra: [], body: EMPTY });
    transaction.machine.respond(100, bytes);
  }

  private inDialog(request: SipRequest, source: Source, identity: Identity): void {
    const { method } = request;
    const dialog = this.core.dialogs.findByTags(request.callId, request.toTag, request.fromTag);
    if (!dialog || dialog.state === 'ended') return this.refuse(request, source, 481);
    if (!dialog.app.connected) {
      this.core.dialogs.remove(dialog);
      return this.refuse(request, source, 481);
    }
    const cseq = request.cseq!.number;
    if (cseq <= dialog.remoteCseq) return this.refuse(request, source, 500, [], 'CSeq is out of order'); // 12.2.2
    const inTheWay = this.inTheWay(request, dialog);
    dialog.remoteCseq = cseq;
    if (inTheWay) return this.refuse(request, source, inTheWay.status, inTheWay.headers);
    if (method === 'PRACK' && !dialog.reliable?.acknowledge(request)) return this.refuse(request, source, 481);

    const transaction = this.core.transactions.addServer(request, source, identity);
    transaction.app = dialog.app;
    transaction.dialog = dialog;
    transaction.unanswered = () => {
      this.answers.own(transaction, 500);
      if (method === 'BYE') this.core.dialogs.remove(dialog);
    };
    if (method === 'INVITE' || method === 'UPDATE') dialog.refreshTarget(request);
    if (source.transport === 'tcp') dialog.path = source.back;
    else if (dialog.nat) dialog.nat = { address: source.address, port: source.port };
    if (method === 'INVITE') {
      dialog.invite = 'theirs';
      this.trying(transaction, request, source);
    }
    if (method === 'BYE') this.hangUp(dialog);
    const name = this.nameFor(transaction, dialog);
    const heard = meta('network', request.raw.length, source.transport, source.address, source.port);
    dialog.app.deliver(`sip|${heard}|${name}|${dialog.id}|`, request.raw);
  }

  /** Glare and overlap (14.2; RFC 3311 5.2), and intervals too small (RFC 4028 5). */
  private inTheWay(request: SipRequest, dialog: Dialog): { status: number; headers: Header[] } | null {
    const { method } = request;
    if (method !== 'INVITE' && method !== 'UPDATE') return null;
    if (tooSmall(request)) return { status: 422, headers: [{ name: 'min-se', value: String(MIN_SE_SEC) }] };
    if (dialog.state !== 'confirmed') return null;
    const offers = method === 'INVITE' || request.body.length > 0;
    if (dialog.invite === 'ours' && offers) return { status: 491, headers: [] };
    if (dialog.invite === 'theirs' && offers) {
      return { status: 500, headers: [{ name: 'retry-after', value: String(Math.floor(Math.random() * 11)) }] };
    }
    return null;
  }

  /** An UPDATE of an early dialog goes up under the name of the INVITE that is still unanswered. */
  private nameFor(transaction: ServerTransaction, dialog: Dialog): string {
    if (transaction.method !== 'UPDATE' || dialog.state !== 'early' || dialog.role !== 'uas') return transaction.id;
    const invite = this.answers.inviteOf(dialog);
    if (!invite) return transaction.id;
    invite.early.push(transaction);
    return invite.id;
  }

  /** 15.1.2: what is still open in the dialog is over. */
  private hangUp(dialog: Dialog): void {
    dialog.awaitingAck?.stop();
    dialog.awaitingAck = null;
    dialog.sessionTimer?.stop();
    const invite = this.answers.inviteOf(dialog);
    if (invite) this.answers.own(invite, 487);
  }

  private acknowledged(request: SipRequest, source: Source): void {
    const transaction = this.core.transactions.findServer(request, 'INVITE');
    if (transaction && transaction.machine instanceof InviteServer && transaction.machine.state !== 'accepted') {
      transaction.machine.acknowledged();
      return;
    }
    const dialog = this.core.dialogs.findByTags(request.callId, request.toTag, request.fromTag);
    const awaiting = dialog?.awaitingAck;
    if (!dialog || !awaiting || awaiting.cseq !== request.cseq?.number) return; // a repeat
    dialog.awaitingAck = null;
    const heard = meta('network', request.raw.length, source.transport, source.address, source.port);
    dialog.app.deliver(`sip|${heard}|${awaiting.transactionId}|${dialog.id}|`, request.raw);
    awaiting.acknowledged();
  }

  /** 9.2. A CANCEL that comes after the final answer changes nothing but is still answered. */
  private cancelled(request: SipRequest, source: Source, identity: Identity): void {
    const invite = this.core.transactions.findServer(request, 'INVITE');
    if (!invite) return this.refuse(request, source, 481);
    const transaction = this.core.transactions.addServer(request, source, identity);
    transaction.toTag = invite.toTag;
    this.answers.own(transaction, 200);
    if (invite.machine.answered) return;
    const { app, dialog, id } = invite;
    this.answers.own(invite, 487);
    const heard = meta('network', request.raw.length, source.transport, source.address, source.port);
    app?.deliver(`sip|${heard}|${id}|${dialog?.id ?? ''}|`, request.raw);
  }
}
