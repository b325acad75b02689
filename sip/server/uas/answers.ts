/**
 * Responses to requests from the network, from the application and from the server, with all headers that a response must have (RFC 3261
 * 8.2.6, 12.1.1, 13.3).
 */

import { ALLOW, asAddress, type Core, contentType, copyOf, isSdp, newTag } from '../assembly.js';
import { type ControlConnection, metaFields, type SipFrame } from '../control/control.js';
import type { DialogSender } from '../dialogs/dialog-sender.js';
import { AwaitedAck, contactDiffers, Dialog, dialogId, routeSetOfRequest } from '../dialogs/dialogs.js';
import { Reliable } from '../dialogs/reliable.js';
import { agree } from '../dialogs/session-timer.js';
import { expiresOf, type Subscriptions } from '../dialogs/subscriptions.js';
import { isToken } from '../message/fields.js';
import { type Header, parseMessage, type SipRequest, SipResponse } from '../message/message.js';
import { hostInUri, parseUri, schemeOf } from '../message/uri.js';
import { reasonPhrase, writeMessage, writeResponse } from '../message/write.js';
import type { ServerTransaction } from '../transactions/transaction-table.js';
import { ourContact } from '../uac/outgoing.js';
import type { Registrations } from './registrations.js';

/** Headers copied from the request, or written by the server. */
const SERVER_HEADERS = new Set([
  ...[
    'via',
    'from',
    'to',
    'call-id',
    'cseq',
    'content-length',
    'route',
    'record-route',
    'rseq',
    'max-forwards',
    'timestamp',
  ],
]);
/** Methods whose 2xx must have a Contact: RFC 3261 12.1.1, RFC 3311 5.2, RFC 6665 3.1.1 and 4.5.1, RFC 3515 with RFC 6665 4. */
const CONTACT_IN_SUCCESS: ReadonlySet<string> = new Set(['INVITE', 'UPDATE', 'SUBSCRIBE', 'REFER']);
const UNKNOWN_TRANSACTION = 'Response not sent due to unknown transaction';
const EMPTY = Buffer.alloc(0);

export class Answers {
  constructor(
    private readonly core: Core,
    private readonly sender: DialogSender,
    private readonly registrations: Registrations,
    private readonly subscriptions: Subscriptions,
  ) {}

  private readonly openInvites = new Map<Dialog, ServerTransaction>();

  /** Registers an INVITE that opens or changes this dialog and waits for its final response. */
  opened(dialog: Dialog, invite: ServerTransaction): void {
    dialog.invite = 'theirs';
    this.openInvites.set(dialog, invite);
  }

  /** The dialog's INVITE that waits for its final response. */
  inviteOf(dialog: Dialog): ServerTransaction | null {
    return this.openInvites.get(dialog) ?? null;
  }

  /** Sends a final response of the server itself. */
  own(transaction: ServerTransaction, status: number, headers: Header[] = []): void {
    const { request } = transaction;
    if (!request || transaction.machine.answered) return;
    transaction.toTag ||= newTag();
    const extra = this.core.product ? [...headers, { name: 'server', value: this.core.product }] : headers;
    const bytes = writeResponse(request, {
      status,
      reason: reasonPhrase(status),
      source: transaction.source,
      toTag: transaction.toTag,
      extra,
      body: EMPTY,
    });
    const { dialog } = transaction;
    this.finish(transaction, status);
    transaction.machine.respond(status, bytes);
    if (transaction.method === 'PRACK') dialog?.reliable?.acknowledged();
  }

  /** Handles a response frame of the application. */
  respond(app: ControlConnection, frame: SipFrame, message: SipResponse): void {
    const transaction = this.answeredBy(frame, message);
    if (!transaction || transaction.app !== app || !transaction.request || transaction.machine.answered) {
      app.refuse(frame.messageId, UNKNOWN_TRANSACTION);
      return;
    }
    const typed = contentType(message.headers, message.body);
    if (!typed) {
      app.refuse(frame.messageId, 'missing content-type');
      return;
    }
    const { request } = transaction;
    if (message.status >= 200) this.core.sources.refused(transaction.source.address, message.status);
    this.core.admission.heard(transaction.id);
    this.chooseTag(transaction, request, message);
    const makesDialog = opensDialog(request, message.status);
    if (makesDialog) transaction.dialog ??= this.makeDialog(app, transaction, request);
    const { dialog } = transaction;
    const extra = [...this.headers(transaction, request, message, makesDialog), ...typed];
    const reliable =
      makesDialog && message.status < 200 && dialog
        ? this.reliableFor(transaction, request, message, dialog, extra)
        : null;
    const bytes = writeResponse(request, {
      status: message.status,
      reason: message.reason || reasonPhrase(message.status),
      source: transaction.source,
      toTag: transaction.toTag,
      extra,
      body: message.body,
    });
    const isNamed = request.method === 'INVITE' || request.method === 'SUBSCRIBE';
    const named = isNamed ? (dialog?.id ?? dialogId(request.callId, request.fromTag)) : '';
    const { transport, address, port } = transaction.reply;
    const echo = () => {
      const sent = metaFields('application', bytes.length, transport, address, port);
      app.ok(frame.messageId, `${sent}|${transaction.id}|${named}||Msg sent:|`, bytes);
    };
    if (reliable !== null && dialog?.reliable) {
      const transmit = (again: boolean) => {
        if (!again) transaction.machine.respond(message.status, bytes);
        else {
          this.core.transactions.retransmissionsSent++;
          transaction.reply.send(bytes);
        }
      };
      dialog.reliable.send({ rseq: reliable, cseq: request.cseq!.number, transmit, describes: isSdp(message.body) });
      echo();
      return;
    }
    const send = () => {
      this.send(transaction, request, message, dialog, bytes, extra);
      echo();
    };
    // RFC 3262 3: a 2xx waits for the PRACK; the application gets its confirmation when the 2xx is really sent
    if (makesDialog && message.status >= 200 && dialog?.reliable) {
      dialog.reliable.beforeSuccess(send, () => app.refuse(frame.messageId, UNKNOWN_TRANSACTION));
    } else send();
  }

  /** The application has disconnected: its open requests are answered 503. */
  gone(app: ControlConnection): void {
    for (const transaction of this.core.transactions.serversOf(app))
      if (!transaction.machine.answered) this.own(transaction, 503);
    for (const dialog of this.core.dialogs.where((d) => d.app === app)) this.core.dialogs.remove(dialog);
  }

  /** The caller gave up without CANCEL. The application knows no dialog yet, so it gets a CANCEL. */
  abandoned({ app, dialog, request, id, cseq, source }: ServerTransaction, reason: Header[] = []): void {
    if (!app || !request) return;
    const copies = ['via', 'from', 'to', 'call-id'].map((name) => ({ name, value: request.get(name) ?? '' }));
    const headers = [...copies, { name: 'cseq', value: `${cseq} CANCEL` }, ...reason];
    const cancel = writeMessage(`CANCEL ${request.uri} SIP/2.0`, headers, EMPTY);
    const heard = metaFields('network', cancel.length, source.transport, source.address, source.port);
    app.deliver(`sip|${heard}|${id}|${dialog?.id ?? ''}|`, cancel);
  }

  private answeredBy(frame: SipFrame, message: SipResponse): ServerTransaction | null {
    const transaction = this.core.transactions.findById(frame.transactionId);
    const cseq = message.cseq;
    if (!transaction || !cseq || cseq.method === transaction.method) return transaction;
    return transaction.early.find((update) => update.method === cseq.method && update.cseq === cseq.number) ?? null;
  }

  /** 12.1.1: one tag for all responses; the application's, when its first response has one. */
  private chooseTag(transaction: ServerTransaction, request: SipRequest, message: SipResponse): void {
    if (transaction.toTag !== '' || message.status === 100) return;
    transaction.toTag = request.toTag === '' && isToken(message.toTag) ? message.toTag : newTag();
  }

  private headers(
    transaction: ServerTransaction,
    request: SipRequest,
    message: SipResponse,
    makesDialog: boolean,
  ): Header[] {
    const { identity, reply, dialog } = transaction;
    const extra: Header[] = [];
    if (makesDialog) for (const value of request.list('record-route')) extra.push({ name: 'record-route', value });
    const own = message.headers
      .filter((header) => !SERVER_HEADERS.has(header.name))
      .map((h) => asAddress(h, identity, reply.transport, contactScheme(request)));
    const has = (name: string) => own.some((header) => header.name === name);
    const success = message.status >= 200 && message.status < 300;
    const reliable = own.some((header) => header.name === 'require' && /\b100rel\b/i.test(header.value));
    const namesUs = (makesDialog && reliable) || (success && CONTACT_IN_SUCCESS.has(request.method));
    if (namesUs && !has('contact'))
      extra.push(
        dialog?.contact
          ? { name: 'contact', value: dialog.contact }
          : ourContact(identity, reply, contactScheme(request)),
      );
    extra.push(...own);
    if (success && (request.method === 'INVITE' || request.method === 'UPDATE'))
      this.agreeOnTimer(request, dialog, extra);
    if (success && request.method === 'SUBSCRIBE') this.subscriptions.grant(request, extra);
    if (success && request.method === 'INVITE' && !has('allow')) extra.push({ name: 'allow', value: ALLOW });
    if (this.core.product && !has('server') && !has('user-agent'))
      extra.push({ name: 'server', value: this.core.product });
    return extra;
  }

  private agreeOnTimer(request: SipRequest, dialog: Dialog | null, extra: Header[]): void {
    const { interval, headers } = agree(request, extra);
    if (interval) {
      const kept = extra.filter((header) => header.name !== 'session-expires');
      extra.splice(0, extra.length, ...kept, ...headers);
    }
    if (!dialog) return;
    if (interval || dialog.sessionTimer) this.sender.sessionTimer(dialog).set(interval, 'uas');
  }

  /** Gives a response with `Require: 100rel` its RSeq; null when it is sent unreliably. */
  private reliableFor(
    transaction: ServerTransaction,
    request: SipRequest,
    message: SipResponse,
    dialog: Dialog,
    extra: Header[],
  ): number | null {
    if (!message.lists('require', '100rel')) return null;
    if (!request.lists('supported', '100rel') && !request.lists('require', '100rel')) {
      // RFC 3262 3: only to a caller that supports it
      const kept = extra.filter((header) => header.name !== 'require');
      extra.splice(0, extra.length, ...kept);
      return null;
    }
    dialog.reliable ??= new Reliable(this.core.clock, this.core.timers, () => {
      this.abandoned(transaction, [{ name: 'reason', value: 'SIP;cause=504;text="PRACK timeout"' }]);
      this.own(transaction, 504);
    });
    const rseq = dialog.reliable.number();
    extra.push({ name: 'rseq', value: String(rseq) });
    return rseq;
  }

  private send(
    transaction: ServerTransaction,
    request: SipRequest,
    message: SipResponse,
    dialog: Dialog | null,
    bytes: Buffer,
    extra: Header[],
  ): void {
    const { status } = message;
    if (transaction.machine.answered) return;
    if (status >= 200) this.finish(transaction, status);
    if (!transaction.machine.respond(status, bytes)) return;
    if (status < 200) return;
    if (request.method === 'PRACK') dialog?.reliable?.acknowledged();
    if (request.method === 'INVITE' && status < 300 && dialog)
      this.established(transaction, request, dialog, bytes, message, extra);
    if (request.method === 'SUBSCRIBE' && status < 300 && dialog?.subscription) {
      dialog.contact = extra.find((header) => header.name === 'contact')?.value ?? dialog.contact;
      this.subscriptions.granted(dialog, request, expiresOf(extra.find(({ name }) => name === 'expires')?.value) ?? 0);
    }
    if (request.method === 'UPDATE' && status < 300 && dialog && isSdp(message.body))
      dialog.localSdp = copyOf(message.body);
    if (request.method === 'REGISTER' && status < 300 && transaction.source.back.reliable) {
      const sent = parseMessage(bytes);
      if (sent instanceof SipResponse) this.registrations.accepted(request, sent, transaction.source.back);
    }
  }

  /** A 2xx to INVITE: retransmitted until its ACK; without an ACK the call ends with BYE (13.3.1.4). */
  private established(
    transaction: ServerTransaction,
    request: SipRequest,
    dialog: Dialog,
    bytes: Buffer,
    message: SipResponse,
    extra: Header[],
  ): void {
    if (dialog.state === 'ended') return;
    dialog.state = 'confirmed';
    dialog.contact = extra.find((header) => header.name === 'contact')?.value ?? dialog.contact;
    if (isSdp(message.body)) dialog.localSdp = copyOf(message.body);
    const { reply } = transaction;
    const { transactions } = this.core;
    dialog.awaitingAck?.settle();
    dialog.awaitingAck = new AwaitedAck(
      this.core.clock,
      this.core.timers,
      request.cseq!.number,
      transaction.id,
      () => {
        transactions.retransmissionsSent++;
        reply.send(bytes);
      },
      () => this.sender.bye(dialog, 'ACK timeout'),
    );
  }

  /** Cleans up after a final response. */
  private finish(transaction: ServerTransaction, status: number): void {
    const { dialog, method, early } = transaction;
    for (const update of early.splice(0)) this.own(update, 500);
    this.core.admission.settled(transaction.id);
    if ((method === 'INVITE' || method === 'REGISTER') && status >= 200 && status < 300)
      this.core.sources.acquainted(transaction.source.address);
    if (method === 'INVITE' && dialog) {
      this.openInvites.delete(dialog);
      if (dialog.invite === 'theirs') dialog.invite = null;
      if (status >= 300 && dialog.state === 'early') this.core.dialogs.remove(dialog);
      dialog.reliable?.stop();
      dialog.reliable = null;
    }
    if (method === 'BYE' && dialog) this.core.dialogs.remove(dialog);
    if (method === 'NOTIFY' && dialog && transaction.request)
      this.subscriptions.notified(dialog, transaction.request, status);
    transaction.finished();
  }

  private makeDialog(app: ControlConnection, transaction: ServerTransaction, request: SipRequest): Dialog {
    const { source, identity } = transaction;
    const sourceUri = `sip:${hostInUri(source.address)}:${source.port}${source.transport === 'tls' ? ';transport=tls' : ''}`;
    const contact = request.contact?.uri ?? '';
    const dialog = new Dialog({
      role: 'uas',
      app,
      id: dialogId(request.callId, request.fromTag),
      callId: request.callId,
      localTag: transaction.toTag,
      remoteTag: request.fromTag,
      localParty: `${request.get('to')};tag=${transaction.toTag}`,
      remoteParty: request.get('from') ?? '',
      remoteTarget: parseUri(contact) ? contact : sourceUri,
      routeSet: routeSetOfRequest(request),
      localCseq: 0,
      remoteCseq: request.cseq!.number,
      path: source.back,
      identity,
    });
    // a caller whose Contact differs from the source of its INVITE is behind NAT
    if (dialog.routeSet.length === 0 && contactDiffers(dialog.remoteTarget, source.address, source.port)) {
      dialog.nat = { address: source.address, port: source.port };
    }
    this.core.dialogs.add(dialog);
    if (request.method === 'INVITE') this.opened(dialog, transaction);
    else this.subscriptions.begin(dialog, request.get('event') ?? '');
    return dialog;
  }
}

/** A dialog begins with a response to INVITE from 101 on, or with a 2xx to SUBSCRIBE (12.1; RFC 6665 4.4.1). */
function opensDialog({ method }: SipRequest, status: number): boolean {
  return status < 300 && ((method === 'INVITE' && status > 100) || (method === 'SUBSCRIBE' && status >= 200));
}

/** 12.1.1: `sips` when the Request-URI or the topmost Record-Route is `sips`. */
function contactScheme(request: SipRequest): 'sip' | 'sips' {
  const route = request.list('record-route')[0] ?? '';
  return schemeOf(request.uri) === 'sips' || /^[^<]*<?sips:/i.test(route) ? 'sips' : 'sip';
}
