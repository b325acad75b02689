/**
 * Subscriptions (RFC 6665): the dialogs that SUBSCRIBE opens, in both roles: as the notifier we are the `uas` of the dialog, as the
 * subscriber its `uac`. A subscription ends when a NOTIFY says `terminated`, when the far side no longer knows it, or when it is not
 * refreshed in time; its dialog ends with it.
 */

import type { Core } from '../assembly.js';
import { type ControlConnection, metaFields } from '../control/control.js';
import { parseParameters } from '../message/fields.js';
import type { Header, SipRequest, SipResponse } from '../message/message.js';
import { writeMessage } from '../message/write.js';
import { OurRequest } from '../transactions/our-request.js';
import { giveUpMs } from '../transactions/timers.js';
import type { Source } from '../transport/path.js';
import { dialogOfAnswer } from '../uac/answered-dialog.js';
import type { DialogSender } from './dialog-sender.js';
import type { Dialog } from './dialogs.js';
import { Subscription } from './subscription.js';

/** The methods that a subscription's dialog is for. */
export const SUBSCRIPTION_METHODS: ReadonlySet<string> = new Set(['SUBSCRIBE', 'NOTIFY']);
/** Responses to SUBSCRIBE or NOTIFY that end the subscription (4.1.2.2, 4.2.2). */
const UNKNOWN_THERE: ReadonlySet<number> = new Set([
  ...[404, 405, 410, 416, 480, 481, 482, 483, 484, 485, 489, 501, 604],
]);
/** Duration when neither side names one (each event package has its own default, most often an hour). */
const DEFAULT_SEC = 3600;
/** The longest timer of Node is 24 days. */
const LONGEST_SEC = 2_000_000;
/** NOTIFYs that may wait for the response to one SUBSCRIBE, which a proxy may have forked. */
const MAX_EARLY_NOTIFIES = 8;
/** Delay between the 2xx and an earlier NOTIFY: an application that awaits the 2xx needs time to listen for NOTIFY. */
const EARLY_NOTIFY_DELAY_MS = 20;
const EMPTY = Buffer.alloc(0);

/** `Subscription-State: active;expires=60` (8.2.3). */
export function subscriptionState(value: string | undefined): { isTerminated: boolean; expiresSec: number | null } {
  const semicolon = value?.indexOf(';') ?? -1;
  const state = (semicolon < 0 ? value : value?.slice(0, semicolon))?.trim().toLowerCase();
  const parameters = parseParameters(semicolon < 0 ? '' : value!.slice(semicolon));
  return { isTerminated: state === 'terminated', expiresSec: expiresOf(parameters.get('expires')) };
}

/** Seconds; null when absent or malformed. */
export function expiresOf(value: string | undefined): number | null {
  const match = /^\s*(\d{1,10})\s*$/.exec(value ?? '');
  return match ? Math.min(Number(match[1]), LONGEST_SEC) : null;
}

/** Same package and same id (4.5.1, 8.2.1). Without an Event header the only subscription is meant. */
export function isSameEvent(one: string | undefined, other: string | undefined): boolean {
  return !one || !other || eventKey(one) === eventKey(other);
}

function eventKey(value: string): string {
  const [name = ''] = value.split(';');
  return `${name.trim()} ${parseParameters(value.slice(name.length)).get('id') ?? ''}`;
}

/** Our SUBSCRIBE while it has no final response. */
interface Asking {
  request: OurRequest;
  /** NOTIFYs that arrived before the response. `decide` gets the dialog they belong to, or null. */
  early: { tag: string; decide(dialog: Dialog | null): void }[];
}

export class Subscriptions {
  /** The number of live subscription dialogs. */
  living = 0;
  /** By dialog id. */
  private readonly asking = new Map<string, Asking>();

  constructor(
    private readonly core: Core,
    private readonly sender: DialogSender,
  ) {}

  /** The Expires of our 2xx to this SUBSCRIBE: the application's, else the requested one; never more than requested (4.2.1.1). */
  grant(request: SipRequest, answer: Header[]): number {
    const asked = expiresOf(request.get('expires'));
    const own = expiresOf(answer.find((header) => header.name === 'expires')?.value);
    const seconds = Math.min(own ?? asked ?? DEFAULT_SEC, asked ?? LONGEST_SEC);
    const others = answer.filter((header) => header.name !== 'expires');
    answer.splice(0, answer.length, ...others, { name: 'expires', value: String(seconds) });
    return seconds;
  }

  /** We accept a SUBSCRIBE: begins its dialog; `granted` sets the duration. */
  begin(dialog: Dialog, event: string): void {
    dialog.state = 'confirmed';
    dialog.subscription = new Subscription(event, () => this.living--);
    this.living++;
    this.lasts(dialog, 0);
  }

  /** Our 2xx to a SUBSCRIBE was sent. */
  granted(dialog: Dialog, request: SipRequest, seconds: number): void {
    if (dialog.role === 'uas' && isSameEvent(dialog.subscription?.event, request.get('event')))
      this.lasts(dialog, seconds);
  }

  /** We sent the final response to a NOTIFY of the far side. */
  notified(dialog: Dialog, notify: SipRequest, status: number): void {
    const { subscription } = dialog;
    if (dialog.role !== 'uac' || !subscription || !isSameEvent(subscription.event, notify.get('event'))) return;
    if (status === 401 || status === 407) return;
    const { isTerminated, expiresSec } = subscriptionState(notify.get('subscription-state'));
    if (isTerminated || UNKNOWN_THERE.has(status)) this.core.dialogs.remove(dialog);
    else if (expiresSec !== null) this.lasts(dialog, expiresSec);
  }

  /** Our SUBSCRIBE or NOTIFY is about to be sent. */
  leaves(request: OurRequest, headers: readonly Header[]): void {
    const header = (name: string) => headers.find((one) => one.name === name)?.value;
    request.said = {
      event: header('event') ?? '',
      expiresSec: expiresOf(header('expires')),
      isTerminated: subscriptionState(header('subscription-state')).isTerminated,
    };
    if (request.method === 'SUBSCRIBE' && !request.dialog) {
      request.contact = header('contact') ?? '';
      this.asking.set(request.dialogId, { request, early: [] });
    }
  }

  /** True while our SUBSCRIBE with that dialog id has no final response. */
  isAsking(id: string): boolean {
    return this.asking.has(id);
  }

  /** The far side's final response to our SUBSCRIBE or NOTIFY. */
  answered(request: OurRequest, response: SipResponse, source: Source): void {
    const { status } = response;
    const { dialog, said } = request;
    if (!dialog) {
      if (request.method === 'SUBSCRIBE') this.opened(request, response, source);
      return;
    }
    const { subscription } = dialog;
    if (!said || !subscription || !isSameEvent(subscription.event, said.event)) return;
    if (UNKNOWN_THERE.has(status)) this.core.dialogs.remove(dialog);
    else if (request.method === 'NOTIFY') {
      if (!said.isTerminated || dialog.role !== 'uas') return;
      // the application may send it again with credentials
      if (status === 401 || status === 407) this.lasts(dialog, 0);
      else this.core.dialogs.remove(dialog);
    } else if (status < 300 && dialog.role === 'uac') {
      dialog.refreshTarget(response);
      this.lasts(dialog, expiresOf(response.get('expires')) ?? said.expiresSec ?? DEFAULT_SEC);
    }
  }

  /** No response (408), or the request could not be delivered (503). */
  failed(request: OurRequest, status: number): void {
    const { dialog, said } = request;
    if (!dialog) this.settle(request, null);
    else if (request.method === 'NOTIFY' && dialog.subscription && (status === 408 || said?.isTerminated))
      this.core.dialogs.remove(dialog);
  }

  /** A NOTIFY may arrive before the 2xx to its SUBSCRIBE (4.1.3) and then waits for it. False when no open SUBSCRIBE of ours matches it. */
  waitsForAnswer(notify: SipRequest, id: string, decide: (dialog: Dialog | null) => void): boolean {
    const asking = this.asking.get(id);
    if (!asking || asking.early.length >= MAX_EARLY_NOTIFIES) return false;
    if (!isSameEvent(asking.request.said?.event, notify.get('event'))) return false;
    asking.early.push({ tag: notify.fromTag, decide });
    return true;
  }

  /** The final response to a SUBSCRIBE outside a dialog. */
  private opened(request: OurRequest, response: SipResponse, source: Source): void {
    const isAccepted = response.status < 300 && response.contact !== null && response.toTag !== '';
    if (!isAccepted || !request.app) {
      this.settle(request, null);
      return;
    }
    this.core.sources.acquainted(source.address);
    const dialog = dialogOfAnswer(request, request.app, response, source);
    this.core.dialogs.add(dialog);
    this.begin(dialog, request.said?.event ?? '');
    this.lasts(dialog, expiresOf(response.get('expires')) ?? request.said?.expiresSec ?? DEFAULT_SEC);
    this.settle(request, dialog);
  }

  private settle(request: OurRequest, dialog: Dialog | null): void {
    const asking = this.asking.get(request.dialogId);
    if (asking?.request !== request) return;
    this.asking.delete(request.dialogId);
    for (const { tag, decide } of asking.early) {
      // the library cannot tell the dialogs of a fork apart: only the one of the 2xx is kept
      if (dialog && tag === dialog.remoteTag) this.core.clock.after(EARLY_NOTIFY_DELAY_MS, () => decide(dialog));
      else decide(null);
    }
  }

  /** Restarts the timer. After the end, the notifier has 64·T1 to send a last NOTIFY, which the subscriber waits for (4.1.2.3, 4.4.1). */
  private lasts(dialog: Dialog, seconds: number): void {
    if (dialog.state === 'ended') return;
    const graceMs = dialog.role === 'uac' || seconds === 0 ? giveUpMs(this.core.timers) : 0;
    const ms = Math.min(seconds, LONGEST_SEC) * 1000 + graceMs;
    dialog.subscription?.lasts(this.core.clock.after(ms, () => this.expired(dialog)));
  }

  /** The subscription was not refreshed, or the last NOTIFY is missing: the server ends it (4.2.2), and reports that to the application. */
  private expired(dialog: Dialog): void {
    const { app, id, subscription } = dialog;
    if (!subscription) return;
    if (dialog.role === 'uas') {
      const headers = [
        ...(subscription.event === '' ? [] : [{ name: 'event', value: subscription.event }]),
        { name: 'subscription-state', value: 'terminated;reason=timeout' },
      ];
      this.sender.outbox.prepare(
        this.sender.draft(dialog, { method: 'NOTIFY', cseq: ++dialog.localCseq, headers }),
        (outgoing) => new OurRequest(this.core, null, 'NOTIFY', outgoing, dialog, id, {}).start(outgoing.bytes),
        () => undefined,
      );
    }
    this.tell(app, dialog);
    this.core.dialogs.remove(dialog);
  }

  /** The library ends a dialog only on a BYE: one is delivered to the application, and none is sent. */
  private tell(app: ControlConnection, dialog: Dialog): void {
    if (!app.connected) return;
    const headers = [
      { name: 'from', value: dialog.localParty },
      { name: 'to', value: dialog.remoteParty },
      { name: 'call-id', value: dialog.callId },
      { name: 'cseq', value: `${dialog.localCseq + 1} BYE` },
      { name: 'reason', value: 'SIP ;cause=200 ;text="Subscription expired"' },
    ];
    const bytes = writeMessage(`BYE ${dialog.remoteTarget} SIP/2.0`, headers, EMPTY);
    const { path, identity } = dialog;
    const sent = metaFields('application', bytes.length, path.transport, identity.localAddress, path.localPort);
    app.deliver(`sip|${sent}|unsolicited|${dialog.id}|`, bytes);
  }
}
