/** A `CallLeg` over a dialog of drachtio-srf. Offers within the dialog are in `offer-answer.ts`, REFER in `refer.ts`. */

import { answerChallenge, type DigestCredentials } from '../auth/digest.js';
import { byeReason, type HangupCause } from '../cause.js';
import { listElements, nameAddress, readHeaders, reasons } from '../drachtio/header.js';
import type { Stack, StackDialog, StackRequest, StackResponse } from '../drachtio/types.js';
import type { CallLeg, DialogSnapshot, LegEnd, Peer, ReofferResult, TransferResult } from '../leg.js';
import { SipError } from '../leg.js';
import type { SipLog } from '../log.js';
import { Offers } from './offer-answer.js';
import { type ReferHandler, Referrals } from './refer.js';

export interface LegContext {
  stack: Stack;
  log: SipLog;
  peer: Peer;
  localAddress: string;
  localSdp: string;
  /** See `CallLeg`. */
  answeredAtMs: number;
  /** Empty when our SDP was the offer and the ACK carries the answer. */
  remoteSdp: string;
  /** As in `Gateway`. */
  trust?: string;
  /** For a far side that challenges requests within the dialog. */
  credentials?: DigestCredentials;
  /** The leg is over and fully released: its BYE was answered or given up. */
  onGone(leg: DialogLeg): void;
}

/** The transaction timeout of a BYE (64·T1) and a little more. */
const byeLimitMs = 34_000;
/** Limit for a request within the dialog; the server's own timers fire earlier. */
const requestLimitMs = 40_000;

export class DialogLeg implements CallLeg {
  /** An INVITE that replaces this leg (RFC 3891) has no final answer yet: further ones are refused. */
  isBeingReplaced = false;
  readonly sipCallId: string;
  readonly confirmed: Promise<{ sdp?: string }>;
  readonly ended: Promise<LegEnd>;
  readonly #offers: Offers;
  readonly #referrals: Referrals;
  #resolveConfirmed!: (value: { sdp?: string }) => void;
  #rejectConfirmed!: (error: SipError) => void;
  #resolveEnded!: (end: LegEnd) => void;
  #end: LegEnd | null = null;
  readonly #over = new AbortController();
  #isConfirmed = false;
  #goodbye: Promise<void> | null = null;
  #infoHandler: ((info: { contentType: string; body: string }) => void) | null = null;
  #localCseq: number;
  #isGone = false;
  #wakeGoodbye: () => void = () => undefined;

  /** Construct it in the same callback that delivers the dialog: a BYE in the same chunk is handled right after it. */
  constructor(
    private readonly dialog: StackDialog,
    private readonly context: LegContext,
  ) {
    this.sipCallId = dialog.sip.callId;
    this.#localCseq = dialog.type === 'uac' ? cseqOf(dialog.req) : 0;
    this.confirmed = new Promise((resolve, reject) => {
      this.#resolveConfirmed = resolve;
      this.#rejectConfirmed = reject;
    });
    this.confirmed.catch(() => undefined);
    this.ended = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
    const access = {
      request: this.request.bind(this),
      over: this.#over.signal,
      confirmed: this.confirmed,
      ownsCallId: dialog.type === 'uac',
      contact: dialog.local.contact,
      log: context.log,
      giveUp: (sipStatus: number) => void this.#hangup('signalling_lost', 'system', byeLimitMs, { sipStatus }),
    };
    this.#offers = new Offers(access, context.localSdp, context.remoteSdp);
    this.#referrals = new Referrals(access, () => this.dialog.remote.uri, localUri(dialog));
    this.#listen();
    if (dialog.type === 'uac') this.#confirm(undefined);
  }

  /** The key of the dialog in both stacks: `Call-ID;from-tag=…`. */
  get dialogId(): string {
    return this.dialog.id;
  }

  /** The Call-ID and tags of the dialog, as seen from our side. */
  get tags(): { callId: string; localTag: string; remoteTag: string } {
    return this.dialog.sip;
  }

  /** The SIP server that owns the dialog. */
  get server(): Stack {
    return this.context.stack;
  }

  get isOver(): boolean {
    return this.#end !== null;
  }

  get answeredAtMs(): number {
    return this.context.answeredAtMs;
  }

  get remoteSdp(): string {
    return this.#offers.remoteSdp;
  }

  reoffer(offer: string | (() => Promise<string>), signal: AbortSignal): Promise<{ ok: string } | { refused: number }> {
    return this.#offers.reoffer(offer, signal);
  }

  onReoffer(handler: (offer: string | null) => Promise<ReofferResult>): void {
    this.#offers.listen(handler);
  }

  onInfo(handler: (info: { contentType: string; body: string }) => void): void {
    this.#infoHandler = handler;
  }

  async sendInfo(info: { contentType: string; body: string }, signal: AbortSignal): Promise<number> {
    const headers = { 'Content-Type': info.contentType };
    return (await this.request('INFO', { headers, body: info.body }, signal)).status;
  }

  onRefer(handler: ReferHandler): void {
    this.#referrals.handler = handler;
  }

  transfer(to: string, signal: AbortSignal): Promise<TransferResult> {
    return this.#referrals.transfer(to, signal);
  }

  hangup(cause: HangupCause = 'normal_clearing'): Promise<void> {
    return this.#hangup(cause, 'local', byeLimitMs);
  }

  /** As `hangup`, for a process that cannot wait long: the BYE is sent within `patienceMs`, with or without an ACK. */
  hangupSoon(cause: HangupCause, patienceMs: number): Promise<void> {
    return this.#hangup(cause, 'local', patienceMs);
  }

  /** The SIP server is lost, and the dialog with it. */
  lost(): void {
    this.dialog.connected = false;
    this.#finish({ cause: 'signalling_lost', by: 'system' });
    this.#gone();
  }

  snapshot(): DialogSnapshot {
    const { dialog, context } = this;
    return {
      ...dialog.sip,
      ...endsOf(dialog.type, dialog.req, dialog.res),
      remoteTarget: dialog.remote.uri,
      localCseq: this.#localCseq,
      peer: context.peer,
      localAddress: context.localAddress,
      ...(context.trust === undefined ? {} : { trust: context.trust }),
    };
  }

  /** Sends one request within the dialog and resolves with its final response; a challenge is answered once. */
  async request(
    method: string,
    options: { headers?: Record<string, string>; body?: string },
    signal: AbortSignal,
  ): Promise<StackResponse> {
    const first = await this.#transaction(method, options, signal);
    const { credentials } = this.context;
    if ((first.status !== 401 && first.status !== 407) || !credentials) return first;
    const lines = readHeaders(first.raw).get(first.status === 401 ? 'www-authenticate' : 'proxy-authenticate') ?? [];
    const answer = answerChallenge(
      { status: first.status, challenges: lines },
      { method, uri: first.req.uri },
      credentials,
    );
    if (!answer) return first;
    return this.#transaction(
      method,
      { ...options, headers: { ...options.headers, [answer.name]: answer.value } },
      signal,
    );
  }

  #transaction(
    method: string,
    options: { headers?: Record<string, string>; body?: string },
    signal: AbortSignal,
  ): Promise<StackResponse> {
    return new Promise((resolve, reject) => {
      if (this.#end) {
        reject(new SipError('protocol', this.#end.cause, 'The call is over.'));
        return;
      }
      let sent: StackRequest | undefined;
      const settle = (act: () => void) => {
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
        this.#over.signal.removeEventListener('abort', onOver);
        act();
      };
      const fail = (error: SipError) => settle(() => reject(error));
      const onAbort = () => {
        // Only an INVITE can be cancelled; its final response still arrives and settles this.
        if (method === 'INVITE' && sent) sent.cancel(() => undefined);
        else fail(new SipError('cancelled', 'unspecified', `The ${method} was aborted.`));
      };
      const timer = setTimeout(
        () => fail(new SipError('timeout', 'signalling_lost', `The ${method} was not answered.`)),
        requestLimitMs,
      );
      signal.addEventListener('abort', onAbort, { once: true });
      const onOver = () => fail(new SipError('protocol', this.#end?.cause ?? 'unspecified', 'The call ended first.'));
      this.#over.signal.addEventListener('abort', onOver, { once: true });
      const { dialog } = this;
      try {
        dialog.agent.request(
          {
            method,
            stackDialogId: dialog.id,
            headers: { ...options.headers },
            body: options.body,
            _socket: dialog.socket,
          },
          (err, req) => {
            if (err || !req) {
              fail(new SipError('protocol', 'signalling_lost', `The ${method} could not be sent: ${err?.message}.`));
              return;
            }
            sent = req;
            this.#localCseq = Math.max(this.#localCseq, cseqOf(req));
            if (signal.aborted) onAbort();
            req.on('response', (res, ack) => {
              if (res.status < 200) {
                if (res.has('RSeq')) ack();
                return;
              }
              if (method === 'INVITE' && res.status < 300) ack();
              settle(() => resolve(res));
            });
          },
        );
      } catch (error) {
        fail(new SipError('not_connected', 'signalling_lost', `The ${method} could not be sent: ${text(error)}.`));
      }
    });
  }

  #listen(): void {
    const { dialog } = this;
    dialog.on('destroy', (bye, reason) => this.#onDestroy(bye, reason ?? ''));
    dialog.on('ack', (ack) => this.#confirm(ack.body || undefined));
    // No listeners for `hold`, `unhold` or `refresh`: with them drachtio-srf would answer by itself.
    dialog.on('modify', (req, res) => void this.#offers.incoming(req, res));
    dialog.on('update', (req, res) => void this.#offers.incoming(req, res));
    dialog.on('refer', (req, res) => void this.#referrals.incoming(req, res));
    dialog.on('notify', (req, res) => this.#referrals.notified(req, res));
    dialog.on('message', (_req, res) => res.send(405, { headers: { Allow: dialogAllow } }));
    dialog.on('info', (req, res) => {
      res.send(200);
      try {
        this.#infoHandler?.({ contentType: req.get('content-type') ?? '', body: req.body ?? '' });
      } catch (error) {
        this.context.log.error({ err: text(error), sip_call_id: this.sipCallId }, 'info handler failed');
      }
    });
  }

  #confirm(sdp: string | undefined): void {
    if (!this.#isConfirmed) {
      this.#isConfirmed = true;
      if (sdp !== undefined && this.#offers.remoteSdp === '') this.#offers.remoteSdp = sdp;
      this.#resolveConfirmed(sdp === undefined ? {} : { sdp });
    } else this.#offers.acknowledged(sdp);
  }

  #onDestroy(bye: StackRequest, reason: string): void {
    const { dialog } = this;
    // An ACK in the same chunk waits in a setImmediate of the library, and the library removes our listeners right after this one.
    queueMicrotask(() => dialog.on('ack', (ack) => this.#confirm(ack.body || undefined)));
    setImmediate(() => {
      dialog.removeAllListeners();
      this.#finish(bye.source === 'application' ? systemEnd(reason) : remoteEnd(bye));
      this.#gone();
    });
  }

  #hangup(cause: HangupCause, by: LegEnd['by'], patienceMs: number, detail?: LegEnd['detail']): Promise<void> {
    this.#goodbye ??= this.#sayGoodbye(cause, by, patienceMs, detail);
    return this.#goodbye;
  }

  async #sayGoodbye(
    cause: HangupCause,
    by: LegEnd['by'],
    patienceMs: number,
    detail?: LegEnd['detail'],
  ): Promise<void> {
    const { dialog } = this;
    let timer: NodeJS.Timeout | undefined;
    const patience = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, patienceMs);
      this.#wakeGoodbye = resolve;
    });
    const acked = this.confirmed.then(
      () => undefined,
      () => undefined,
    );
    const wasConfirmed = this.#isConfirmed;
    this.#finish({ cause, by, ...(detail ? { detail } : {}) }, { keepConfirming: true });
    // RFC 3261 15: the callee must not send BYE before the ACK arrived or its transaction timed out.
    if (!wasConfirmed) await Promise.race([acked, patience]);
    if (dialog.connected && !this.#isGone) await Promise.race([this.#bye(cause), patience]);
    clearTimeout(timer);
    this.#rejectUnconfirmed();
    this.#gone();
  }

  #bye(cause: HangupCause): Promise<void> {
    return new Promise((resolve) => {
      try {
        this.dialog.destroy({ headers: { Reason: byeReason(cause) } }, () => resolve());
      } catch {
        resolve(); // the connection is gone, and the dialog with it
      }
    });
  }

  #finish(end: LegEnd, options: { keepConfirming?: boolean } = {}): void {
    if (!options.keepConfirming) this.#rejectUnconfirmed(end);
    if (this.#end) return;
    this.#end = end;
    this.#over.abort(callOver); // without a reason each call would create an error with its stack trace
    this.#resolveEnded(end);
  }

  #rejectUnconfirmed(end: LegEnd | null = this.#end): void {
    if (this.#isConfirmed) return;
    this.#rejectConfirmed(new SipError('protocol', end?.cause ?? 'unspecified', 'The call ended before its ACK.'));
  }

  #gone(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#wakeGoodbye();
    this.context.stack.removeDialog(this.dialog);
    this.dialog.removeAllListeners();
    this.context.onGone(this);
  }
}

const callOver = 'The call is over.';

/** The SIP extensions that we support. */
export const supported: readonly string[] = ['100rel', 'timer', 'replaces'];

/** The methods that we accept within a dialog. */
export const dialogAllow = 'INVITE, ACK, CANCEL, BYE, OPTIONS, INFO, UPDATE, REFER, NOTIFY, PRACK';

function systemEnd(reason: string): LegEnd {
  if (/ack timeout/i.test(reason)) return { cause: 'no_ack', by: 'system', detail: { text: reason } };
  if (/session timer/i.test(reason)) return { cause: 'timeout', by: 'system', detail: { text: reason } };
  return { cause: 'unspecified', by: 'system', detail: { text: reason } };
}

function remoteEnd(bye: StackRequest): LegEnd {
  const given = reasons(readHeaders(bye.raw ?? '').get('reason'));
  const q850 = given.find((value) => value.protocol === 'Q.850');
  const sip = given.find((value) => value.protocol === 'SIP');
  const said = q850?.text ?? sip?.text;
  const detail = {
    ...(sip?.cause === undefined ? {} : { sipStatus: sip.cause }),
    ...(q850?.cause === undefined ? {} : { q850: q850.cause }),
    ...(said === undefined ? {} : { text: said }),
  };
  return { cause: 'normal_clearing', by: 'remote', ...(Object.keys(detail).length > 0 ? { detail } : {}) };
}

/** Both ends of a dialog and the route set between them, read from our INVITE and its 200, or from the INVITE that came in. */
export function endsOf(
  type: 'uac' | 'uas',
  invite: { raw: string },
  answer: { raw: string },
): Pick<DialogSnapshot, 'localUri' | 'remoteUri' | 'routeSet'> {
  const headers = readHeaders(invite.raw ?? '');
  const [from = '', to = ''] = ['from', 'to'].map((name) => nameAddress(headers.get(name)?.[0])?.uri);
  if (type === 'uas') return { localUri: to, remoteUri: from, routeSet: listElements(headers.get('record-route')) };
  const routeSet = listElements(readHeaders(answer.raw ?? '').get('record-route')).reverse();
  return { localUri: from, remoteUri: to, routeSet };
}

function localUri(dialog: StackDialog): string {
  const header = readHeaders(dialog.req.raw ?? '').get(dialog.type === 'uac' ? 'from' : 'to')?.[0];
  return nameAddress(header)?.uri ?? dialog.local.uri;
}

function cseqOf(message: { get(name: string): string | undefined }): number {
  return Number.parseInt(message.get('cseq') ?? '', 10) || 0;
}

function text(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
