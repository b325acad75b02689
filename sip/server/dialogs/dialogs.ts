/** Dialogs (RFC 3261 12) of both roles, and a table that finds them by their tags and by the application's dialog id. */
import type { ControlConnection } from '../control/control.js';
import { uriOf } from '../message/fields.js';
import type { SipRequest, SipResponse } from '../message/message.js';
import { bareHost, parseUri } from '../message/uri.js';
import { giveUpMs, Repeater, type Timer, type TimerValues, type TransactionClock } from '../transactions/timers.js';
import type { LocalIdentity } from '../transport/network.js';
import type { Path, TlsPeer } from '../transport/path.js';
import type { Reliable } from './reliable.js';
import type { SessionTimer } from './session-timer.js';
import type { Subscription } from './subscription.js';

/** The id of a dialog in the control protocol, in both directions. */
export function dialogId(callId: string, inviteFromTag: string): string {
  return `${callId};from-tag=${inviteFromTag}`;
}

export interface DialogParts {
  role: 'uac' | 'uas';
  app: ControlConnection;
  id: string;
  callId: string;
  localTag: string;
  remoteTag: string;
  /** From and To values of our requests, with their tags. */
  localParty: string;
  remoteParty: string;
  remoteTarget: string;
  routeSet: string[];
  localCseq: number;
  remoteCseq: number;
  /** The path of its first message. */
  path: Path;
  identity: LocalIdentity;
}

export class Dialog {
  readonly role: 'uac' | 'uas';
  readonly app: ControlConnection;
  readonly id: string;
  readonly callId: string;
  readonly localTag: string;
  remoteTag: string;
  readonly localParty: string;
  remoteParty: string;
  remoteTarget: string;
  routeSet: string[];
  localCseq: number;
  /** -1 until the far side sent a request (12.1.2). */
  remoteCseq: number;
  path: Path;
  /** The identity to verify on our TLS connections of this dialog, when its URIs have addresses instead of names. */
  readonly peer: TlsPeer | null;
  identity: LocalIdentity;
  state: 'early' | 'confirmed' | 'ended' = 'early';
  /** Where our requests go instead of the remote target, because the peer is behind NAT. */
  nat: { address: string; port: number } | null = null;
  /** Our Contact, as last sent. */
  contact = '';
  /** Our SDP, as last sent in an offer or answer. */
  localSdp: Buffer | null = null;
  /** Our 2xx while it waits for its ACK. */
  awaitingAck: AwaitedAck | null = null;
  /** The ACK to the last 2xx we received, to be retransmitted with that 2xx (13.2.2.4). */
  lastAck: { cseq: number; bytes: Buffer; path: Path } | null = null;
  /** CSeq of the last 2xx we received, while it waits for the application's ACK; else -1. */
  unackedCseq = -1;
  /** The 2xx crossed our CANCEL (9.1): BYE follows the ACK at once. */
  unwanted = false;
  /** The direction of an open INVITE transaction (14.1, 14.2). */
  invite: 'ours' | 'theirs' | null = null;
  reliable: Reliable | null = null;
  sessionTimer: SessionTimer | null = null;
  /** Set when SUBSCRIBE made the dialog, which then has no session; null when INVITE did. */
  subscription: Subscription | null = null;
  /** Set when BYE was challenged: the application may send it again with credentials. */
  farewell: Timer | null = null;

  constructor(parts: DialogParts) {
    this.role = parts.role;
    this.app = parts.app;
    this.id = parts.id;
    this.callId = parts.callId;
    this.localTag = parts.localTag;
    this.remoteTag = parts.remoteTag;
    this.localParty = parts.localParty;
    this.remoteParty = parts.remoteParty;
    this.remoteTarget = parts.remoteTarget;
    this.routeSet = parts.routeSet;
    this.localCseq = parts.localCseq;
    this.remoteCseq = parts.remoteCseq;
    this.path = parts.path;
    this.peer = parts.path.tls;
    this.identity = parts.identity;
  }

  /**
   * 12.2.1.2, 12.2.2: target refresh by the Contact of INVITE, UPDATE, or of SUBSCRIBE and NOTIFY in their dialogs (RFC 5057 5.4), and of
   * their 2xx.
   */
  refreshTarget(message: SipRequest | SipResponse): void {
    const contact = message.contact;
    if (contact && parseUri(contact.uri)) this.remoteTarget = contact.uri;
  }

  end(): void {
    this.state = 'ended';
    this.awaitingAck?.settle();
    this.awaitingAck = null;
    this.reliable?.stop();
    this.reliable = null;
    this.sessionTimer?.stop();
    this.sessionTimer = null;
    this.subscription?.stop();
    this.farewell?.cancel();
    this.farewell = null;
    this.lastAck = null;
  }
}

/** Retransmits a 2xx until its ACK, on every transport (13.3.1.4). */
export class AwaitedAck {
  private readonly repeater: Repeater;
  private readonly timer: Timer;
  private readonly afterwards: (() => void)[] = [];

  constructor(
    clock: TransactionClock,
    values: TimerValues,
    readonly cseq: number,
    /** Transaction id of the INVITE for the application; the ACK is delivered with it. */
    readonly transactionId: string,
    send: () => void,
    missing: () => void,
  ) {
    this.repeater = new Repeater(clock, values.t1, values.t2, send);
    this.timer = clock.after(giveUpMs(values), () => {
      this.repeater.stop();
      missing();
    });
  }

  /** For our BYE, which must wait for the ACK (15): runs `act` when the ACK arrives or the wait for it is over. */
  afterwardsDo(act: () => void): void {
    this.afterwards.push(act);
  }

  /** The ACK arrived, or the dialog ends without it. */
  settle(): void {
    this.repeater.stop();
    this.timer.cancel();
    for (const act of this.afterwards.splice(0)) act();
  }
}

export class DialogTable {
  private readonly byTags = new Map<string, Dialog>();
  private readonly byId = new Map<string, Dialog>();

  get size(): number {
    return this.byTags.size;
  }

  add(dialog: Dialog): void {
    this.byTags.set(tagsKey(dialog.callId, dialog.localTag, dialog.remoteTag), dialog);
    this.byId.set(dialog.id, dialog);
  }

  /** Makes this dialog the one that the application's frames with its id refer to (of a fork's early dialogs). */
  prefer(dialog: Dialog): void {
    this.byId.set(dialog.id, dialog);
  }

  find(id: string): Dialog | null {
    return this.byId.get(id) ?? null;
  }

  findByTags(callId: string, localTag: string, remoteTag: string): Dialog | null {
    return this.byTags.get(tagsKey(callId, localTag, remoteTag)) ?? null;
  }

  /** Ends and removes it. */
  remove(dialog: Dialog): void {
    dialog.end();
    const key = tagsKey(dialog.callId, dialog.localTag, dialog.remoteTag);
    if (this.byTags.get(key) === dialog) this.byTags.delete(key);
    if (this.byId.get(dialog.id) === dialog) this.byId.delete(dialog.id);
  }

  /** True when a dialog needs the TCP connection to that peer. */
  uses(address: string, port: number): boolean {
    return this.where(({ path }) => path.reliable && path.address === address && path.port === port).length > 0;
  }

  where(test: (dialog: Dialog) => boolean): Dialog[] {
    return [...this.byTags.values()].filter(test);
  }
}

function tagsKey(callId: string, localTag: string, remoteTag: string): string {
  return `${callId} ${localTag} ${remoteTag}`;
}

/** 12.1.1: the route set of a dialog that this INVITE opens with us. */
export function routeSetOfRequest(request: SipRequest): string[] {
  return request.list('record-route').slice();
}

/** 12.1.2: the Record-Route list in reverse order. */
export function routeSetOfResponse(response: SipResponse): string[] {
  return response.list('record-route').slice().reverse();
}

/** True when the far side's Contact differs from the address its message came from. */
export function contactDiffers(contactUri: string, address: string, port: number | null): boolean {
  const uri = parseUri(contactUri);
  if (!uri) return false;
  return bareHost(uri.host) !== address || (port !== null && (uri.port ?? 5060) !== port);
}

/** Request-URI and Route of a request in the dialog, with loose or strict routing (12.2.1.1). */
export function requestRoute(
  remoteTarget: string,
  routeSet: readonly string[],
): { uri: string; routes: string[]; next: string } {
  const first = routeSet[0];
  if (first === undefined) return { uri: remoteTarget, routes: [], next: remoteTarget };
  const firstUri = uriOf(first);
  if (parseUri(firstUri)?.parameters.has('lr')) return { uri: remoteTarget, routes: [...routeSet], next: firstUri };
  return { uri: firstUri, routes: [...routeSet.slice(1), `<${remoteTarget}>`], next: firstUri };
}
