/** One outbound INVITE to one target, including digest challenges, early media answers, CANCEL, and a 200 that crosses the CANCEL. */

import { answerChallenge, isStale } from '../auth/digest.js';
import { DialogLeg, dialogAllow, supported } from '../dialog/dialog-leg.js';
import type { DialogRegistry } from '../dialog/dialog-registry.js';
import { peerOf } from '../drachtio/connection.js';
import { listElements, nameAddress, readHeaders } from '../drachtio/header.js';
import type { Stack, StackDialog, StackRequest, StackResponse, StackSipError } from '../drachtio/types.js';
import type { WireClock } from '../drachtio/wire-clock.js';
import { sdpOf } from '../inbound/sdp-body.js';
import type { PendingInvite } from '../leg.js';
import type { SipLog } from '../log.js';
import { unreachableReason } from '../trunk/out-of-dialog-request.js';
import { pendingInvite } from './pending-invite.js';
import type { InviteTarget } from './request-targets.js';

export interface InviteIdentity {
  callId: string;
  fromTag: string;
  cseq: number;
}

export interface AttemptOptions {
  stack: Stack;
  log: SipLog;
  live: DialogRegistry;
  clock: WireClock;
  target: InviteTarget;
  identity: InviteIdentity;
  /** `From`, `To` and the caller's extra headers. */
  headers: Record<string, string>;
  offer: string;
  localAddress: string;
  onProgress(progress: { status: number; branch: string; sdp?: string }): void;
  onInvite(pending: PendingInvite): void;
  onGone(): void;
}

export type AttemptEnd =
  | { kind: 'answered'; leg: DialogLeg }
  /** The far side's own final answer. */
  | { kind: 'refused'; status: number; reason: string; contact: string | null; retryAfterSec: number }
  /** No final answer from the far side: unreachable, no response, or silent after a provisional one. */
  | { kind: 'unreachable'; message: string }
  /** Answered, but unusable as a call. */
  | { kind: 'broken'; message: string };

/** The challenge, and one more when our nonce was stale. */
const maxChallenges = 2;
/** The session interval that we ask for (RFC 4028 4 recommends half an hour), and the least that we accept. */
const sessionSec = 1800;
const leastSessionSec = 90;
/** Each proxy on the path may demand a longer interval than the one before. */
const maxLengthenings = 5;

export class Attempt {
  /** Settles when the transaction is over, also after `cancel`. */
  readonly end: Promise<AttemptEnd>;
  /** A provisional response arrived, so the far side is reachable. */
  sawProvisional = false;
  #settle!: (end: AttemptEnd) => void;
  #isSettled = false;
  #heardSomething: () => void = () => undefined;
  #request: StackRequest | null = null;
  #pending: PendingInvite | null = null;
  #isCancelled = false;
  /** A 2xx arrived, whatever came of it: no other target may be called after that. */
  #wasAnswered = false;
  #challenges = 0;
  #authorization: Record<string, string> = {};
  #sessionSec = sessionSec;
  #leastSessionSec = leastSessionSec;
  #lengthenings = 0;
  #cseq: number;
  readonly #early = new Map<string, string>();

  constructor(private readonly options: AttemptOptions) {
    this.#cseq = options.identity.cseq;
    this.end = new Promise((resolve) => {
      this.#settle = resolve;
    });
    const { callId, fromTag } = options.identity;
    const release = options.live.claim(`${callId};from-tag=${fromTag}`);
    options.live.dialling.set(this.end, () => this.cancel());
    void this.end.then(async (end) => {
      options.live.dialling.delete(this.end);
      options.live.settled();
      if (end.kind === 'answered') await end.leg.ended;
      release();
    });
    this.#send(options.target.requestUri, options.target.nextHop);
  }

  /** The SIP server that owns the transaction. */
  get server(): Stack {
    return this.options.stack;
  }

  /** The INVITE while it waits for its final answer. */
  get pending(): PendingInvite | null {
    return this.#isSettled ? null : this.#pending;
  }

  /** The highest CSeq used. */
  get cseq(): number {
    return this.#cseq;
  }

  /** Ends the attempt: CANCEL, or ACK and BYE when the 200 came first. `end` settles when that is done. */
  cancel(): void {
    if (this.#isCancelled) return;
    this.#isCancelled = true;
    if (!this.#isSettled) this.#request?.cancel(() => undefined);
    void this.end.then((end) => (end.kind === 'answered' ? end.leg.hangup('originator_cancel') : undefined));
  }

  /** Resolves when no response at all arrived within the limit. */
  silence(limitMs: number): Promise<'silent'> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve('silent'), limitMs);
      this.#heardSomething = () => clearTimeout(timer);
      if (this.sawProvisional || this.#isSettled) clearTimeout(timer);
    });
  }

  /** The SIP server is lost: no more responses will arrive. */
  lost(): void {
    this.#resolve({ kind: 'unreachable', message: 'The connection to the SIP server was lost' });
  }

  #resolve(end: AttemptEnd): void {
    this.#isSettled = true;
    this.#heardSomething();
    this.#settle(end);
  }

  #send(uri: string, nextHop: string | undefined): void {
    const { stack, identity, headers, offer } = this.options;
    const own = {
      'Call-ID': identity.callId,
      CSeq: `${this.#cseq} INVITE`,
      Allow: dialogAllow,
      Supported: supported.join(', '),
      'Session-Expires': String(this.#sessionSec),
      'Min-SE': String(this.#leastSessionSec),
      'Content-Type': 'application/sdp',
    };
    try {
      stack.createUAC(
        uri,
        {
          headers: { ...headers, ...own, ...this.#authorization },
          localSdp: offer,
          ...(nextHop ? { proxy: nextHop } : {}),
        },
        {
          cbRequest: (err, req) => {
            if (err || !req) return; // the callback below gets the error too
            this.#request = req;
            this.#pending = pendingInvite(req, nextHop ?? uri);
            this.options.onInvite(this.#pending);
            req.on('response', (res) => {
              this.#wasAnswered ||= res.status >= 200 && res.status < 300;
            });
            if (this.#isCancelled) req.cancel(() => undefined);
          },
          cbProvisional: (res) => this.#provisional(res),
        },
        (err, dialog) => (dialog ? this.#answered(dialog) : this.#failed(err, uri, nextHop)),
      );
    } catch (error) {
      this.#resolve({ kind: 'unreachable', message: `The INVITE could not be sent: ${words(error)}` });
    }
  }

  #provisional(res: StackResponse): void {
    this.sawProvisional = true;
    this.#heardSomething();
    if (res.status === 100 || this.#isCancelled) return;
    const branch = nameAddress(res.get('to'))?.params.tag ?? '';
    const body = sdpOf(res);
    if (body.kind === 'sdp') this.#early.set(branch, body.sdp);
    this.options.onProgress({ status: res.status, branch, ...(body.kind === 'sdp' ? { sdp: body.sdp } : {}) });
  }

  #answered(dialog: StackDialog): void {
    const { stack, log, live, offer, localAddress, target } = this.options;
    const body = sdpOf(dialog.res);
    // An answer in a reliable 1xx need not be repeated in the 200 (RFC 6337 2.2).
    const remoteSdp = body.kind === 'sdp' ? body.sdp : (this.#early.get(dialog.sip.remoteTag) ?? '');
    const leg = new DialogLeg(dialog, {
      stack,
      log,
      peer: target.phone ??
        peerOf(dialog.res.protocol, dialog.res.source_address, dialog.res.source_port) ?? {
          transport: 'udp',
          address: target.host,
          port: 5060,
        },
      localAddress,
      localSdp: offer,
      answeredAtMs: this.options.clock.receivedMs(dialog.res.stackTime),
      remoteSdp,
      credentials: target.gateway.auth,
      trust: target.gateway.trust,
      onGone: (gone) => {
        live.left(gone);
        this.options.onGone();
      },
    });
    live.legs.add(leg);
    if (remoteSdp === '' && !this.#isCancelled) {
      void leg.hangup('incompatible_media');
      this.#resolve({ kind: 'broken', message: 'The 200 has no SDP' });
      return;
    }
    this.#resolve({ kind: 'answered', leg });
  }

  #failed(err: StackSipError | null, uri: string, nextHop: string | undefined): void {
    const res = err?.res;
    if (this.#wasAnswered) {
      this.#resolve({ kind: 'broken', message: `The 200 cannot be used: ${err?.res ? 'no Contact' : words(err)}` });
      return;
    }
    if (!res) {
      this.#resolve({ kind: 'unreachable', message: `The INVITE could not be sent: ${words(err)}` });
      return;
    }
    const isChallenge = res.status === 401 || res.status === 407;
    if ((isChallenge && this.#authorize(res, uri)) || (res.status === 422 && this.#lengthen(res))) {
      this.#cseq++;
      this.#send(uri, nextHop);
      return;
    }
    // Responses that the server generates itself (timeout, no route) have no source address.
    if (!res.source_address) {
      const what = this.sawProvisional ? 'fell silent' : 'did not respond';
      const why = unreachableReason(res) ?? `It cannot be reached (${res.status})`;
      this.#resolve({ kind: 'unreachable', message: res.status === 408 ? `It ${what}` : why });
      return;
    }
    const headers = readHeaders(res.raw);
    this.#resolve({
      kind: 'refused',
      status: res.status,
      reason: res.reason,
      contact: nameAddress(listElements(headers.get('contact'))[0])?.uri ?? null,
      retryAfterSec: Number.parseInt(headers.get('retry-after')?.[0] ?? '', 10) || 0,
    });
  }

  /** Adopts the session interval that a 422 demands (RFC 4028 7.3); false when it names none, or after too many. */
  #lengthen(res: StackResponse): boolean {
    const least = Number(/^\s*(\d{1,9})\s*(?:;|$)/.exec(res.get('min-se') ?? '')?.[1] ?? 0);
    if (this.#isCancelled || least <= this.#leastSessionSec || this.#lengthenings >= maxLengthenings) return false;
    this.#lengthenings++;
    this.#leastSessionSec = least;
    this.#sessionSec = Math.max(this.#sessionSec, least);
    return true;
  }

  /** Sets credentials that answer a challenge; false when there are none, when they were refused, or after CANCEL. */
  #authorize(res: StackResponse, uri: string): boolean {
    const { auth } = this.options.target.gateway;
    if (!auth || this.#isCancelled || this.#challenges >= maxChallenges) return false;
    const challenges = readHeaders(res.raw).get(res.status === 401 ? 'www-authenticate' : 'proxy-authenticate') ?? [];
    if (this.#challenges > 0 && !isStale(challenges)) return false;
    const answer = answerChallenge({ status: res.status, challenges }, { method: 'INVITE', uri }, auth);
    if (!answer) return false;
    this.#challenges++;
    this.#authorization = { [answer.name]: answer.value };
    return true;
  }
}

function words(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
