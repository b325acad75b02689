/** User agent client: requests of the applications and of the server itself, and what their answers mean (RFC 3261 8.1, 9.1, 13.2, 15.1.1). */
import type { App, SipFrame } from './control.js';
import { meta } from './control.js';
import { type Core, contentType, isSdp, newTag } from './core.js';
import { contactDiffers, Dialog, dialogId, routed, routeSetOfResponse } from './dialogs.js';
import { parseNameAddr } from './fields.js';
import { type Header, SipRequest, type SipResponse } from './message.js';
import { OurRequest } from './our-request.js';
import { type Draft, Outbox, type Outgoing, ourContact } from './outgoing.js';
import type { Registrations } from './registrations.js';
import { acceptsReliable } from './reliable.js';
import { SessionTimer } from './session-timer.js';
import { giveUpMs } from './transactions/timers.js';
import type { Source } from './transport/path.js';
import { parseUri } from './uri.js';

/** Ours to write; what the application says of them is dropped. */
const SERVER_HEADERS = new Set([
  'via',
  'route',
  'record-route',
  'rseq',
  'content-length',
  'from',
  'to',
  'call-id',
  'cseq',
  'max-forwards',
]);
const WITH_CONTACT = new Set(['INVITE', 'SUBSCRIBE', 'REFER', 'UPDATE']);
const EMPTY = Buffer.alloc(0);

export class Uac {
  private readonly outbox: Outbox;
  /** Requests by the name the application knows, until their final answer. */
  private readonly pending = new Map<string, OurRequest>();
  /** Dialog ids of INVITEs without final answer: one that comes back to us must not become a second dialog of that name. */
  private readonly inviting = new Set<string>();

  constructor(
    private readonly core: Core,
    private readonly registrations: Registrations,
  ) {
    this.outbox = new Outbox(core);
  }

  /** Whether an INVITE of ours with that dialog id is under way. */
  isInviting(id: string): boolean {
    return this.inviting.has(id);
  }

  /** A request frame of an application (the order of the cases is the protocol's). */
  request(app: App, frame: SipFrame): void {
    const message = frame.message;
    if (!(message instanceof SipRequest) || (message.method !== 'ACK' && message.uri === '')) {
      return app.refuse(frame.messageId, `invalid request-uri: ${frame.startLine}`);
    }
    if (frame.dialogId !== '') {
      const dialog = this.core.dialogs.find(frame.dialogId);
      if (message.method === 'ACK') return this.acknowledge(app, frame, message, dialog);
      if (!dialog || dialog.state === 'ended') {
        return app.refuse(frame.messageId, 'Server error: unable to find dialog for dialog id provided');
      }
      return this.inDialog(app, frame, message, dialog);
    }
    if (message.method === 'CANCEL') return this.cancel(app, frame, message);
    const dialog = message.callId === '' ? null : this.core.dialogs.find(dialogId(message.callId, message.fromTag));
    if (dialog) return this.inDialog(app, frame, message, dialog);
    this.outsideDialog(app, frame, message);
  }

  /** A response from the network that belongs to one of our requests. */
  receive(response: SipResponse, source: Source): void {
    const transaction = this.core.transactions.findClient(response);
    if (transaction instanceof OurRequest) transaction.receive(response, source);
  }

  /** The application is gone: what it was dialling is cancelled. */
  gone(app: App): void {
    for (const request of [...this.pending.values()]) {
      if (request.app !== app) continue;
      request.app = null;
      if (request.method === 'INVITE' && !request.dialog) this.sendCancel(request, []);
    }
  }

  /** BYE made by the server; the application hears of it by an unsolicited frame. */
  bye(dialog: Dialog, text: string): void {
    if (dialog.state === 'ended') return;
    const { app, id } = dialog;
    const reason = { name: 'reason', value: `SIP ;cause=200 ;text="${text}"` };
    this.outbox.prepare(
      this.dialogDraft(dialog, 'BYE', '', ++dialog.localCseq, [reason], EMPTY, null),
      (outgoing) => {
        this.start(new OurRequest(this.core, null, 'BYE', outgoing, dialog, id, {}), outgoing);
        if (!app.connected) return;
        const { path, identity, bytes } = outgoing;
        app.deliver(
          `sip|${meta('application', bytes.length, path.transport, identity.localAddress, path.localPort)}|unsolicited|${id}|`,
          bytes,
        );
      },
      () => undefined,
    );
    this.core.dialogs.remove(dialog);
  }

  /** Re-INVITE with our last description, to keep the session alive; `done` gets the final status. */
  refresh(dialog: Dialog, headers: Header[], done: (response: SipResponse | null) => void): void {
    if (dialog.invite !== null || dialog.state !== 'confirmed') return done(null);
    dialog.invite = 'ours';
    const extra = [...headers, ...(dialog.localSdp ? [{ name: 'content-type', value: 'application/sdp' }] : [])];
    const contact = { name: 'contact', value: dialog.contact };
    const cseq = ++dialog.localCseq;
    const settle = (response: SipResponse | null) => {
      dialog.invite = null;
      done(response);
    };
    this.outbox.prepare(
      this.dialogDraft(
        dialog,
        'INVITE',
        '',
        cseq,
        dialog.contact === '' ? extra : [contact, ...extra],
        dialog.localSdp ?? EMPTY,
        null,
      ),
      (outgoing) => {
        const answered = (response: SipResponse) => {
          if (response.status < 200 || dialog.state === 'ended') return;
          if (response.status < 300) {
            this.sendAck(dialog, cseq, [], EMPTY);
            this.sessionAnswered(dialog, response);
          }
          settle(response);
        };
        this.start(
          new OurRequest(this.core, null, 'INVITE', outgoing, dialog, dialog.id, {
            answered,
            failed: () => settle(null),
          }),
          outgoing,
        );
      },
      () => settle(null),
    );
  }

  sessionTimer(dialog: Dialog): SessionTimer {
    dialog.sessionTimer ??= new SessionTimer(this.core.clock, {
      refresh: (headers, done) => this.refresh(dialog, headers, (response) => done(response?.status ?? 0)),
      expired: (text) => this.bye(dialog, text),
    });
    return dialog.sessionTimer;
  }

  private sessionAnswered(dialog: Dialog, response: SipResponse): void {
    if (dialog.sessionTimer || response.get('session-expires') !== undefined)
      this.sessionTimer(dialog).answered(response);
  }

  private outsideDialog(app: App, frame: SipFrame, message: SipRequest): void {
    const typed = contentType(message.headers, message.body);
    if (!typed) return app.refuse(frame.messageId, 'missing content-type');
    const { method } = message;
    if (method === 'ACK' || method === 'BYE' || method === 'PRACK') {
      return app.refuse(frame.messageId, 'Server error: unable to find dialog for dialog id provided');
    }
    const callId = message.callId === '' ? `${newTag()}-${newTag()}` : message.callId;
    const fromTag = message.fromTag === '' ? newTag() : message.fromTag;
    const cseq = message.cseq?.number ?? parseCseqNumber(message.get('cseq')) ?? 1;
    const own = message.headers.filter((header) => !SERVER_HEADERS.has(header.name));
    const draft: Draft = {
      method,
      uri: message.uri,
      routes: frame.routeUrl === '' ? [] : loose(frame.routeUrl),
      next: frame.routeUrl === '' ? message.uri : frame.routeUrl,
      path: this.registrations.pathFor(message.uri),
      maxForwards: message.get('max-forwards') ?? '70',
      body: message.body,
      headers: (identity, path) => {
        const from = message.get('from') ?? ourContact(identity, path).value;
        const headers: Header[] = [
          { name: 'from', value: message.fromTag === '' ? `${from};tag=${fromTag}` : from },
          { name: 'to', value: message.get('to') ?? `<${message.uri}>` },
          { name: 'call-id', value: callId },
          { name: 'cseq', value: `${cseq} ${method}` },
        ];
        if ((method === 'INVITE' || method === 'SUBSCRIBE') && message.get('contact') === undefined)
          headers.push(ourContact(identity, path));
        headers.push(...own, ...typed);
        return headers;
      },
    };
    this.outbox.prepare(
      draft,
      (outgoing) => {
        if (this.core.network.isOwn(outgoing.path, outgoing.identity.localAddress)) {
          return app.refuse(frame.messageId, 'can not send request to myself');
        }
        this.launch(app, frame.messageId, method, outgoing, null, dialogId(callId, fromTag), message.body);
      },
      (reason) => app.refuse(frame.messageId, reason),
    );
  }

  private inDialog(app: App, frame: SipFrame, message: SipRequest, dialog: Dialog): void {
    const { method } = message;
    const typed = contentType(message.headers, message.body);
    if (!typed) return app.refuse(frame.messageId, 'missing content-type');
    const headers = [...message.headers.filter((header) => !SERVER_HEADERS.has(header.name)), ...typed];
    const glare = method === 'INVITE' && dialog.invite !== null && dialog.state === 'confirmed';
    const send = () => {
      if (dialog.state === 'ended') return;
      const draft = this.dialogDraft(
        dialog,
        method,
        message.uri,
        ++dialog.localCseq,
        headers,
        message.body,
        frame.routeUrl || null,
      );
      draft.maxForwards = message.get('max-forwards') ?? '70';
      this.outbox.prepare(
        draft,
        (outgoing) => this.launch(app, frame.messageId, method, outgoing, dialog, dialog.id, message.body, glare),
        (reason) => app.refuse(frame.messageId, reason),
      );
    };
    // 15: the callee says BYE only after the ACK to its 2xx came, or never will
    if (method === 'BYE' && dialog.awaitingAck) dialog.awaitingAck.then(send);
    else send();
  }

  private dialogDraft(
    dialog: Dialog,
    method: string,
    givenUri: string,
    cseq: number,
    headers: Header[],
    body: Buffer,
    routeUrl: string | null,
  ): Draft {
    const byTarget = givenUri === '' || givenUri.includes('placeholder') || method === 'ACK';
    const { uri, routes, next } = routed(byTarget ? dialog.remoteTarget : givenUri, dialog.routeSet);
    const needsContact = WITH_CONTACT.has(method) && !headers.some((header) => header.name === 'contact');
    return {
      method,
      uri,
      routes,
      next: routeUrl ?? next,
      path:
        routeUrl === null && dialog.nat
          ? dialog.path.toward(dialog.nat.address, dialog.nat.port)
          : this.registrations.pathFor(next),
      maxForwards: '70',
      body,
      headers: (identity, path) => [
        { name: 'from', value: dialog.localParty },
        { name: 'to', value: dialog.remoteParty },
        { name: 'call-id', value: dialog.callId },
        { name: 'cseq', value: `${cseq} ${method}` },
        ...(needsContact
          ? [dialog.contact === '' ? ourContact(identity, path) : { name: 'contact', value: dialog.contact }]
          : []),
        ...headers,
      ],
    };
  }

  /** Tells the application what is sent, and sends it. */
  private launch(
    app: App,
    messageId: string,
    method: string,
    outgoing: Outgoing,
    dialog: Dialog | null,
    id: string,
    body: Buffer,
    glare = false,
  ): void {
    const invite = method === 'INVITE';
    const request: OurRequest = new OurRequest(this.core, app, method, outgoing, dialog, id, {
      answered: (response, source) => this.answered(request, response, source),
      failed: (status) => this.failed(request, status),
      ended: () => this.pending.delete(request.id),
    });
    const { path, identity, bytes } = outgoing;
    app.ok(
      messageId,
      `${meta('application', bytes.length, path.transport, identity.localAddress, path.localPort)}|${request.id}|Msg sent:|`,
      bytes,
    );
    if (glare) return this.failed(request, 491); // 14.1: not while another INVITE of this dialog is under way
    if (invite) {
      if (dialog) dialog.invite = 'ours';
      else this.inviting.add(id);
      if (isSdp(body)) request.sdp = body;
      request.contact = outgoing.headers.find((header) => header.name === 'contact')?.value ?? '';
    }
    this.pending.set(request.id, request);
    this.start(request, outgoing);
  }

  private start(request: OurRequest, outgoing: Outgoing): void {
    request.start(outgoing.bytes);
  }

  /** A response to a request of an application. */
  private answered(request: OurRequest, response: SipResponse, source: Source): void {
    const final = response.status >= 200;
    if (request.method === 'INVITE') {
      const pass = request.dialog
        ? this.reinviteAnswered(request, request.dialog, response)
        : this.inviteAnswered(request, response, source);
      if (!pass) return;
    } else if (request.dialog) this.inDialogAnswered(request, request.dialog, response);
    if (final) this.settled(request);
    this.pass(request, response, source);
    // 13.3.1.4 wants a Contact: without one there is nobody to talk to, so the call is released here
    if (request.method === 'INVITE' && !request.dialog && final && response.status < 300 && !response.contact)
      this.release(request, response, source);
  }

  private pass(request: OurRequest, response: SipResponse, source: Source): void {
    const named = request.method === 'INVITE' || request.dialog ? request.dialogId : '';
    const line = `sip|${meta('network', response.raw.length, source.transport, source.address, source.port)}|${request.id}|${named}|`;
    request.app?.deliver(line, response.raw);
  }

  private settled(request: OurRequest): void {
    this.pending.delete(request.id);
    request.timer?.cancel();
    if (request.method === 'INVITE' && !request.dialog) this.inviting.delete(request.dialogId);
    if (request.method === 'INVITE' && request.dialog?.invite === 'ours') request.dialog.invite = null;
  }

  /** No answer came (408), or the request could not be delivered (503): answered as if by the far side (8.1.3.1). */
  private failed(request: OurRequest, status: number): void {
    const response = request.localResponse(status);
    if (request.method === 'INVITE' && !request.dialog) this.dropEarly(request, null);
    if (request.dialog && (request.method === 'BYE' || status === 408 || status === 481) && status !== 491)
      this.afterFailure(request, request.dialog);
    this.settled(request);
    request.app?.deliver(`sip|${meta('network', 0, 'udp', '', 0)}|${request.id}|${request.dialogId}|`, response);
  }

  /** 12.2.1.2: a dialog whose request timed out or met 481 is over; the application sees the answer and says so. */
  private afterFailure(request: OurRequest, dialog: Dialog): void {
    if (request.method === 'BYE') this.core.dialogs.remove(dialog);
  }

  /** Returns whether the application hears of it. */
  private inviteAnswered(request: OurRequest, response: SipResponse, source: Source): boolean {
    const { status, toTag } = response;
    if (status === 100) return true;
    if (status < 200) {
      if (toTag === '') return true;
      const dialog = this.dialogOf(request, response, source);
      dialog.refreshTarget(response);
      this.core.dialogs.prefer(dialog);
      return acceptsReliable(dialog, response);
    }
    if (status >= 300) {
      this.dropEarly(request, null);
      return true;
    }
    if (request.answeredTag !== null) {
      this.repeatedSuccess(request, response, source);
      return false;
    }
    request.answeredTag = toTag;
    if (!response.contact) return true;
    const dialog = this.dialogOf(request, response, source);
    this.dropEarly(request, dialog);
    dialog.state = 'confirmed';
    dialog.refreshTarget(response);
    if (response.count('record-route') > 0) dialog.routeSet = routeSetOfResponse(response);
    this.chooseTarget(dialog, source);
    dialog.unackedCseq = request.cseq;
    this.core.dialogs.prefer(dialog);
    if (request.cancelled || !request.app) {
      // 9.1: the answer was faster than our CANCEL; the call is ended as soon as it began
      this.sendAck(dialog, request.cseq, [], EMPTY);
      this.byeQuietly(dialog);
      if (request.app) this.failed(request, 487);
      else this.settled(request);
      return false;
    }
    this.sessionAnswered(dialog, response);
    return true;
  }

  private repeatedSuccess(request: OurRequest, response: SipResponse, source: Source): void {
    const dialog = this.core.dialogs.findByTags(response.callId, request.fromTag, response.toTag);
    if (dialog && response.toTag === request.answeredTag) {
      const ack = dialog.lastAck;
      if (ack && ack.cseq === request.cseq) {
        this.core.transactions.retransmissionsSent++;
        ack.path.send(ack.bytes);
      }
    } else if (response.toTag !== request.answeredTag) this.release(request, response, source); // a fork answered too (13.2.2.4)
  }

  /** ACK and BYE for an answer nobody wants. */
  private release(request: OurRequest, response: SipResponse, source: Source): void {
    if (request.released.has(response.toTag)) return;
    request.released.add(response.toTag);
    const dialog = this.makeDialog(request, response, source);
    dialog.state = 'confirmed';
    this.sendAck(dialog, request.cseq, [], EMPTY);
    this.byeQuietly(dialog);
  }

  private byeQuietly(dialog: Dialog): void {
    this.outbox.prepare(
      this.dialogDraft(dialog, 'BYE', '', ++dialog.localCseq, [], EMPTY, null),
      (outgoing) => this.start(new OurRequest(this.core, null, 'BYE', outgoing, dialog, dialog.id, {}), outgoing),
      () => undefined,
    );
    this.core.dialogs.remove(dialog);
  }

  private reinviteAnswered(request: OurRequest, dialog: Dialog, response: SipResponse): boolean {
    if (response.status < 200) return true;
    if (response.status >= 300) {
      if (response.status === 481 || response.status === 408) this.core.dialogs.remove(dialog); // 12.2.1.2
      return true;
    }
    if (request.answeredTag !== null) {
      const ack = dialog.lastAck;
      if (ack && ack.cseq === request.cseq) ack.path.send(ack.bytes);
      return false;
    }
    request.answeredTag = response.toTag;
    dialog.refreshTarget(response);
    dialog.unackedCseq = request.cseq;
    if (request.sdp) dialog.localSdp = request.sdp;
    if (request.contact !== '') dialog.contact = request.contact;
    this.sessionAnswered(dialog, response);
    return true;
  }

  private inDialogAnswered(request: OurRequest, dialog: Dialog, response: SipResponse): void {
    const { status } = response;
    if (status < 200) return;
    if (request.method === 'UPDATE' && status < 300) {
      dialog.refreshTarget(response);
      this.sessionAnswered(dialog, response);
    }
    if (request.method !== 'BYE') return;
    if (status !== 401 && status !== 407) this.core.dialogs.remove(dialog);
    // the application may say it again with credentials; if it does not, the dialog ends by itself
    else dialog.farewell ??= this.core.clock.after(giveUpMs(this.core.timers), () => this.core.dialogs.remove(dialog));
  }

  private dialogOf(request: OurRequest, response: SipResponse, source: Source): Dialog {
    const known = this.core.dialogs.findByTags(request.callId, request.fromTag, response.toTag);
    if (known) return known;
    const dialog = this.makeDialog(request, response, source);
    this.core.dialogs.add(dialog);
    request.early.add(dialog);
    return dialog;
  }

  private makeDialog(request: OurRequest, response: SipResponse, source: Source): Dialog {
    const target = response.contact?.uri ?? request.uri;
    const dialog = new Dialog({
      role: 'uac',
      app: request.app ?? NOBODY,
      id: request.dialogId,
      callId: request.callId,
      localTag: request.fromTag,
      remoteTag: response.toTag,
      localParty: request.from,
      remoteParty: response.get('to') ?? request.to,
      remoteTarget: parseUri(target) ? target : request.uri,
      routeSet: routeSetOfResponse(response),
      localCseq: request.cseq,
      remoteCseq: -1,
      path: request.path,
      identity: request.identity,
    });
    dialog.localSdp = request.sdp;
    dialog.contact = request.contact;
    this.chooseTarget(dialog, source);
    return dialog;
  }

  /** A callee whose Contact is not where its answer came from is behind address translation, or its proxy stays in the way. */
  private chooseTarget(dialog: Dialog, source: Source): void {
    const first = dialog.routeSet[0];
    const host = parseUri(parseNameAddr(first ?? '')?.uri ?? dialog.remoteTarget)?.host ?? '';
    const unreachable =
      first === undefined
        ? contactDiffers(dialog.remoteTarget, source.address, null)
        : isPrivate(host) && !isPrivate(source.address);
    dialog.nat = unreachable ? { address: source.address, port: source.port } : null;
    if (source.transport === dialog.path.transport) return;
    dialog.path = source.back;
  }

  private dropEarly(request: OurRequest, keep: Dialog | null): void {
    for (const dialog of request.early) if (dialog !== keep) this.core.dialogs.remove(dialog);
    request.early.clear();
  }

  private acknowledge(app: App, frame: SipFrame, message: SipRequest, dialog: Dialog | null): void {
    if (!dialog || dialog.unackedCseq < 0) {
      return app.refuse(
        frame.messageId,
        'Server error: ACK for non-success final response is automatically generated by server',
      );
    }
    const typed = contentType(message.headers, message.body);
    if (!typed) return app.refuse(frame.messageId, 'missing content-type');
    const headers = [...message.headers.filter((header) => !SERVER_HEADERS.has(header.name)), ...typed];
    const cseq = dialog.unackedCseq;
    dialog.unackedCseq = -1;
    if (isSdp(message.body)) dialog.localSdp = message.body;
    this.sendAck(dialog, cseq, headers, message.body, (outgoing) => {
      const { path, identity, bytes } = outgoing;
      const line = `${meta('application', bytes.length, path.transport, identity.localAddress, path.localPort)}|${newTag()}|Msg sent:|`;
      app.ok(frame.messageId, line, bytes);
    });
  }

  /** The ACK to a 2xx is a transaction of its own, without timers (13.2.2.4). */
  private sendAck(
    dialog: Dialog,
    cseq: number,
    headers: Header[],
    body: Buffer,
    sent: (outgoing: Outgoing) => void = () => undefined,
  ): void {
    this.outbox.prepare(
      this.dialogDraft(dialog, 'ACK', '', cseq, headers, body, null),
      (outgoing) => {
        outgoing.path.send(outgoing.bytes);
        dialog.lastAck = { cseq, bytes: outgoing.bytes, path: outgoing.path };
        sent(outgoing);
      },
      () => undefined,
    );
  }

  private cancel(app: App, frame: SipFrame, message: SipRequest): void {
    const request = this.pending.get(frame.transactionId);
    if (!request || request.method !== 'INVITE' || request.app !== app) {
      return app.refuse(frame.messageId, `unable to cancel unknown transaction id: ${frame.transactionId}`);
    }
    const own = message.headers.filter((header) => !SERVER_HEADERS.has(header.name) && header.name !== 'contact');
    const bytes = this.sendCancel(request, own);
    const { path, identity } = request;
    app.ok(
      frame.messageId,
      `${meta('application', bytes.length, path.transport, identity.localAddress, path.localPort)}|${newTag()}|Msg sent:|`,
      bytes,
    );
  }

  /** 9.1: on the INVITE's branch, once a provisional answer came; an INVITE without final answer 64·T1 later counts as cancelled. */
  private sendCancel(request: OurRequest, headers: Header[]): Buffer {
    const bytes = request.cancelBytes(headers);
    if (request.cancelled) return bytes;
    request.cancelled = true;
    request.whenProceeding(() => {
      request.sendCancel(bytes);
      request.timer = this.core.clock.after(giveUpMs(this.core.timers), () => {
        request.machine.terminate();
        this.failed(request, 487);
      });
    });
    return bytes;
  }
}

/** Stands for an application that went away. */
const NOBODY = { connected: false } as App;

function loose(routeUrl: string): string[] {
  const uri = parseUri(routeUrl);
  // a next hop without `lr` is an address to send to, not a route to be written
  return uri?.parameters.has('lr') ? [`<${routeUrl}>`] : [];
}

function parseCseqNumber(value: string | undefined): number | null {
  return value !== undefined && /^\d{1,9}$/.test(value) ? Number(value) : null;
}

/** RFC 1918, loopback and link-local. */
function isPrivate(host: string): boolean {
  return /^(10\.|127\.|169\.254\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.)/.test(host);
}
