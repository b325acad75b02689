/** Writes and routes requests inside a dialog, and sends the server's own: ACK, BYE and session refreshes. */
import { isIP } from 'node:net';
import { type Core, copyOf, isSdp } from '../assembly.js';
import { destinationField, metaFields } from '../control/control.js';
import type { Header, SipResponse } from '../message/message.js';
import { bareHost, parseUri } from '../message/uri.js';
import { OurRequest } from '../transactions/our-request.js';
import type { Path, TlsPeer } from '../transport/path.js';
import { type Draft, Outbox, type OutgoingRequest, ourContact } from '../uac/outgoing.js';
import type { Registrations } from '../uas/registrations.js';
import { type Dialog, requestRoute } from './dialogs.js';
import { SessionTimer } from './session-timer.js';

const WITH_CONTACT: ReadonlySet<string> = new Set(['INVITE', 'SUBSCRIBE', 'NOTIFY', 'REFER', 'UPDATE']);
/** These are always sent to the remote target, whatever Request-URI the application wrote. */
const TO_TARGET: ReadonlySet<string> = new Set(['ACK', 'PRACK', 'BYE']);
const EMPTY = Buffer.alloc(0);

export interface DialogRequest {
  method: string;
  cseq: number;
  headers?: Header[];
  body?: Buffer;
  /** Request-URI from the application; anything with `placeholder` in it means the remote target. */
  uri?: string;
  /** Next hop from the application. */
  routeUrl?: string;
}

export class DialogSender {
  readonly outbox: Outbox;

  constructor(
    private readonly core: Core,
    private readonly registrations: Registrations,
  ) {
    this.outbox = new Outbox(core);
  }

  draft(dialog: Dialog, request: DialogRequest): Draft {
    const { method, cseq, headers = [], body = EMPTY, uri: given = '', routeUrl = '' } = request;
    const byTarget = given === '' || given.includes('placeholder') || TO_TARGET.has(method);
    const { uri, routes, next } = requestRoute(byTarget ? dialog.remoteTarget : given, dialog.routeSet);
    const needsContact = WITH_CONTACT.has(method) && !headers.some((header) => header.name === 'contact');
    const behindNat = dialog.nat ? dialog.path.toward(dialog.nat.address, dialog.nat.port) : null;
    const known = behindNat?.alive ? behindNat : (this.standing(dialog, next) ?? this.registrations.pathFor(next));
    return {
      method,
      uri,
      routes,
      next: routeUrl === '' ? next : routeUrl,
      path: routeUrl === '' ? known : null,
      transport: dialog.path.transport,
      peer: peerAt(next, dialog.peer),
      maxForwards: '70',
      body,
      headers: (identity, path) => {
        const ours = dialog.contact === '' ? ourContact(identity, path) : { name: 'contact', value: dialog.contact };
        return [
          { name: 'from', value: dialog.localParty },
          { name: 'to', value: dialog.remoteParty },
          { name: 'call-id', value: dialog.callId },
          { name: 'cseq', value: `${cseq} ${method}` },
          ...(needsContact ? [ours] : []),
          ...headers,
        ];
      },
    };
  }

  /** The dialog's TLS connection while it is open and leads to the request's next hop: a new one may be impossible. */
  private standing(dialog: Dialog, next: string): Path | null {
    const { path } = dialog;
    if (path.transport !== 'tls' || !path.alive) return null;
    const host = bareHost(parseUri(next)?.host ?? '');
    return path.tls === null || host === path.address || host === path.tls.name ? path : null;
  }

  /** The ACK to a 2xx is a transaction of its own, without timers (13.2.2.4). */
  ack(
    dialog: Dialog,
    cseq: number,
    headers: Header[] = [],
    body: Buffer = EMPTY,
    sent?: (outgoing: OutgoingRequest) => void,
  ): void {
    if (isSdp(body)) dialog.localSdp = copyOf(body);
    this.outbox.prepare(
      this.draft(dialog, { method: 'ACK', cseq, headers, body }),
      (outgoing) => {
        outgoing.path.send(outgoing.bytes);
        dialog.lastAck = { cseq, bytes: outgoing.bytes, path: outgoing.path };
        sent?.(outgoing);
      },
      () => undefined,
    );
  }

  /** BYE made by the server; with a text, an unsolicited frame reports it to the application. Ends the dialog. */
  bye(dialog: Dialog, text?: string): void {
    if (dialog.state === 'ended') return;
    const { app, id } = dialog;
    const headers = text === undefined ? [] : [{ name: 'reason', value: `SIP ;cause=200 ;text="${text}"` }];
    this.outbox.prepare(
      this.draft(dialog, { method: 'BYE', cseq: ++dialog.localCseq, headers }),
      (outgoing) => {
        new OurRequest(this.core, null, 'BYE', outgoing, dialog, id, {}).start(outgoing.bytes);
        const { path, identity, bytes } = outgoing;
        const sent = metaFields('application', bytes.length, path.transport, identity.localAddress, path.localPort);
        if (text !== undefined && app.connected)
          app.deliver(`sip|${sent}|unsolicited|${id}|${destinationField(path)}`, bytes);
      },
      () => undefined,
    );
    this.core.dialogs.remove(dialog);
  }

  /** The dialog's session timer, made when first needed. */
  sessionTimer(dialog: Dialog): SessionTimer {
    dialog.sessionTimer ??= new SessionTimer(this.core.clock, {
      ownsCallId: dialog.role === 'uac',
      refresh: (headers, done) => this.refresh(dialog, headers, done),
      expired: (text) => this.bye(dialog, text),
    });
    return dialog.sessionTimer;
  }

  /** A 2xx to our INVITE or UPDATE: takes over its session interval. */
  sessionAnswered(dialog: Dialog, response: SipResponse): void {
    if (!dialog.sessionTimer && response.get('session-expires') === undefined) return;
    this.sessionTimer(dialog).answered(response);
  }

  /** Sends a re-INVITE with our last SDP, to refresh the session; `done` as in `SessionTimerUser`. */
  private refresh(dialog: Dialog, timerHeaders: Header[], done: (status: number, minSe?: string) => void): void {
    if (dialog.invite !== null || dialog.state !== 'confirmed') {
      done(0);
      return;
    }
    dialog.invite = 'ours';
    const settle = (status: number, minSe?: string) => {
      dialog.invite = null;
      if (dialog.state !== 'ended') done(status, minSe);
    };
    const body = dialog.localSdp ?? EMPTY;
    const headers =
      body.length > 0 ? [...timerHeaders, { name: 'content-type', value: 'application/sdp' }] : timerHeaders;
    const cseq = ++dialog.localCseq;
    this.outbox.prepare(
      this.draft(dialog, { method: 'INVITE', cseq, headers, body }),
      (outgoing) => {
        const answered = (response: SipResponse) => {
          if (response.status < 200) return;
          if (response.status < 300) {
            this.ack(dialog, cseq);
            dialog.refreshTarget(response);
          }
          settle(response.status, response.get('min-se'));
          if (response.status < 300 && dialog.state !== 'ended') this.sessionAnswered(dialog, response);
        };
        const failed = (status: number) => settle(status);
        new OurRequest(this.core, null, 'INVITE', outgoing, dialog, dialog.id, { answered, failed }).start(
          outgoing.bytes,
        );
      },
      () => settle(0),
    );
  }
}

/** A host name is verified itself; for an address, the identity that the dialog began with is verified. */
function peerAt(next: string, ofDialog: TlsPeer | null): TlsPeer | null {
  const host = bareHost(parseUri(next)?.host ?? '');
  return isIP(host) ? ofDialog : { name: host, trust: ofDialog?.trust ?? '' };
}
