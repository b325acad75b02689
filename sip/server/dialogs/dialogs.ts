/** Dialogs (RFC 3261 12) of both roles, and the two ways to find one: by its tags, and by the name the application knows. */
import type { ControlConnection } from '../control/control.js';
import { uriOf } from '../message/fields.js';
import type { SipRequest, SipResponse } from '../message/message.js';
import { bareHost, parseUri } from '../message/uri.js';
import { giveUpMs, Repeater, type Timer, type TimerValues, type TransactionClock } from '../transactions/timers.js';
import type { LocalIdentity } from '../transport/network.js';
import type { Path, TlsPeer } from '../transport/path.js';
import type { Reliable } from './reliable.js';
import type { SessionTimer } from './session-timer.js';
import type { Subscription } from './subscriptions.js';

/** The application's name for a dialog: its API, both ways. */
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
  /** The way its first message took. */
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
  /** Who our TLS connections of this dialog have to lead to, where its URIs have addresses instead of names. */
  readonly peer: TlsPeer | null;
  identity: LocalIdentity;
  state: 'early' | 'confirmed' | 'ended' = 'early';
  /** Where its requests go instead of the remote target: the peer is behind address translation. */
  nat: { address: string; port: number } | null = null;
  /** Our Contact, as last sent. */
  contact = '';
  /** Our session description, as last sent in an offer or answer. */
  localSdp: Buffer | null = null;
  /** A 2xx of ours that still waits for its ACK. */
  awaitingAck: AwaitedAck | null = null;
  /** The ACK to the last 2xx we received: sent again when the 2xx is (13.2.2.4). */
  lastAck: { cseq: number; bytes: Buffer; path: Path } | null = null;
  /** CSeq of the last 2xx we received; -1: none waits for an ACK of the application. */
  unackedCseq = -1;
  /** The answer was faster than the CANCEL (9.1): BYE follows the ACK at once. */
  unwanted = false;
  /** An INVITE under way in either direction (14.1, 14.2). */
  invite: 'ours' | 'theirs' | null = null;
  reliable: Reliable | null = null;
  sessionTimer: SessionTimer | null = null;
  /** SUBSCRIBE made it, and it has no session; null: INVITE did. */
  subscription: Subscription | null = null;
  /** Set when BYE was refused for want of credentials: it may come again. */
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

  /** 12.2.1.2, 12.2.2: target refresh by a Contact of INVITE, UPDATE, or of SUBSCRIBE and NOTIFY in their dialogs (RFC 5057 5.4), and of their 2xx. */
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

/** Repeats a 2xx until its ACK, on every transport (13.3.1.4). */
export class AwaitedAck {
  private readonly repeater: Repeater;
  private readonly timer: Timer;
  private readonly afterwards: (() => void)[] = [];

  constructor(
    clock: TransactionClock,
    values: TimerValues,
    readonly cseq: number,
    /** The application's name for the INVITE's transaction: the ACK carries it. */
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

  /** A BYE of ours waits for the ACK (15): done when it came, or will not come any more. */
  afterwardsDo(act: () => void): void {
    this.afterwards.push(act);
  }

  /** The ACK came, or the dialog ends without it. */
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

  /** The application's frames with this id mean this one (of several early dialogs of a fork). */
  prefer(dialog: Dialog): void {
    this.byId.set(dialog.id, dialog);
  }

  find(id: string): Dialog | null {
    return this.byId.get(id) ?? null;
  }

  findByTags(callId: string, localTag: string, remoteTag: string): Dialog | null {
    return this.byTags.get(tagsKey(callId, localTag, remoteTag)) ?? null;
  }

  /** Ends it and forgets it. */
  remove(dialog: Dialog): void {
    dialog.end();
    const key = tagsKey(dialog.callId, dialog.localTag, dialog.remoteTag);
    if (this.byTags.get(key) === dialog) this.byTags.delete(key);
    if (this.byId.get(dialog.id) === dialog) this.byId.delete(dialog.id);
  }

  /** Whether a dialog counts on the TCP connection to that peer. */
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

/** 12.1.1: what an INVITE says about the dialog it makes with us. */
export function routeSetOfRequest(request: SipRequest): string[] {
  return request.list('record-route').slice();
}

/** 12.1.2: the same list the other way round. */
export function routeSetOfResponse(response: SipResponse): string[] {
  return response.list('record-route').slice().reverse();
}

/** Whether the far side's Contact names another place than the one its message came from. */
export function contactDiffers(contactUri: string, address: string, port: number | null): boolean {
  const uri = parseUri(contactUri);
  if (!uri) return false;
  return bareHost(uri.host) !== address || (port !== null && (uri.port ?? 5060) !== port);
}

/** Request-URI and Route of a request in the dialog, loose or strict (12.2.1.1). */
export function routed(
  remoteTarget: string,
  routeSet: readonly string[],
): { uri: string; routes: string[]; next: string } {
  const first = routeSet[0];
  if (first === undefined) return { uri: remoteTarget, routes: [], next: remoteTarget };
  const firstUri = uriOf(first);
  if (parseUri(firstUri)?.parameters.has('lr')) return { uri: remoteTarget, routes: [...routeSet], next: firstUri };
  return { uri: firstUri, routes: [...routeSet.slice(1), `<${remoteTarget}>`], next: firstUri };
}
