/**
 * An incoming INVITE that waits for its answer. Exactly one of `answer`, `reject`, the caller's CANCEL and the loss of the SIP
 * server ends it.
 */
import { DialogLeg, dialogAllow, endsOf, supported } from '../dialog/dialog-leg.js';
import type { DialogRegistry } from '../dialog/dialog-registry.js';
import { type HeaderLines, hasToken, lineText, listElements, nameAddress, quotedText } from '../drachtio/header.js';
import type { Stack, StackRequest, StackResponse } from '../drachtio/types.js';
import type { WireClock } from '../drachtio/wire-clock.js';
import type {
  CallLeg,
  DialogSnapshot,
  IncomingCall,
  Peer,
  PhoneIdentity,
  TrunkMatch,
  UnansweredInvite,
} from '../leg.js';
import { SipError } from '../leg.js';
import type { SipLog } from '../log.js';

export interface InviteFacts {
  headers: HeaderLines;
  from: PhoneIdentity;
  to: PhoneIdentity;
  trunk: TrunkMatch;
  otherTrunks: readonly TrunkMatch[];
  peer: Peer;
  offer: string | null;
  replaces: DialogLeg | null;
  receivedAt: Date;
  receivedAtMs: number;
}

export interface InviteContext {
  stack: Stack;
  log: SipLog;
  live: DialogRegistry;
  clock: WireClock;
  takenUp(transactionId: string): void;
  /** Called once, when the INVITE has its final answer and, if that was a 200, the leg is gone. */
  onGone(): void;
}

/** The server confirms a message as soon as it is sent. */
const sendLimitMs = 5000;
/** 64·T1: by then a reliable 1xx without PRACK has failed (RFC 3262 3). */
const prackLimitMs = 33_000;
/** A provisional response is repeated before a proxy's three minutes are over (RFC 3261 13.3.1.1). */
const ringAgainMs = 60_000;

/** A response has them from its request (RFC 3261 8.2.6.2). */
const responseHeaders = ['Via', 'From', 'To', 'Call-ID', 'CSeq'];

export class IncomingInvite implements IncomingCall {
  readonly sipCallId: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly from: PhoneIdentity;
  readonly to: PhoneIdentity;
  readonly trunk: TrunkMatch;
  readonly otherTrunks: readonly TrunkMatch[];
  readonly peer: Peer;
  readonly offer: string | null;
  readonly replaces: DialogLeg | null;
  readonly receivedAt: Date;
  readonly receivedAtMs: number;
  /** Set before the call handler runs. */
  localAddress = '';
  readonly #cancelled = new AbortController();
  #state: 'pending' | 'answering' | 'answered' | 'rejected' | 'dead' = 'pending';
  #lastRing: { sdp?: string; reliable?: boolean } | null = null;
  #ringAgain: NodeJS.Timeout | undefined;
  #leg: DialogLeg | null = null;
  /** Our tag, from the provisional response; empty before. */
  #localTag = '';

  constructor(
    private readonly req: StackRequest,
    private readonly res: StackResponse,
    private readonly facts: InviteFacts,
    private readonly context: InviteContext,
  ) {
    this.sipCallId = req.get('call-id') ?? '';
    this.headers = joined(facts.headers);
    this.from = facts.from;
    this.to = facts.to;
    this.trunk = facts.trunk;
    this.otherTrunks = facts.otherTrunks;
    this.peer = facts.peer;
    this.offer = facts.offer;
    this.replaces = facts.replaces;
    this.receivedAt = facts.receivedAt;
    this.receivedAtMs = facts.receivedAtMs;
    context.live.ringing.add(this);
    if (this.replaces) this.replaces.isBeingReplaced = true;
    req.on('cancel', (cancel) =>
      this.#die(/prack timeout/i.test(cancel.get('reason') ?? '') ? noPrack() : callerLeft()),
    );
  }

  get cancelled(): AbortSignal {
    return this.#cancelled.signal;
  }

  /** No final answer was sent yet. */
  get isPending(): boolean {
    return this.#state === 'pending' || this.#state === 'answering';
  }

  /** The SIP server that has the transaction. */
  get server(): Stack {
    return this.context.stack;
  }

  /** The leg that `answer` made. */
  get leg(): DialogLeg | null {
    return this.#leg;
  }

  takenUp(): void {
    if (this.#lastRing === null && this.#state === 'pending') this.context.takenUp(this.req.stackTxnId);
  }

  async ring(options: { sdp?: string; reliable?: boolean } = {}): Promise<void> {
    this.#mustBePending();
    this.#lastRing = options;
    this.#ringAgain ??= setInterval(() => {
      this.#ring({ ...this.#lastRing, reliable: false }).catch(() => undefined); // the next attempt, or the end of the call, reports it
    }, ringAgainMs).unref();
    await this.#ring(options);
  }

  async #ring(options: { sdp?: string; reliable?: boolean }): Promise<void> {
    const demanded = hasToken(this.facts.headers.get('require'), '100rel');
    const reliable = demanded || (options.reliable === true && hasToken(this.facts.headers.get('supported'), '100rel'));
    const headers: Record<string, string> = { Allow: dialogAllow };
    if (reliable) headers.Require = '100rel';
    if (options.sdp !== undefined) headers['Content-Type'] = 'application/sdp';
    await this.#limited<void>(
      reliable ? prackLimitMs : sendLimitMs,
      'The ringing was not confirmed.',
      (resolve, reject) => {
        this.res.send(
          options.sdp === undefined ? 180 : 183,
          { headers, ...(options.sdp === undefined ? {} : { body: options.sdp }) },
          (err, sent) => {
            this.#localTag = nameAddress(sent?.get('to'))?.params.tag ?? '';
            if (err) reject(new SipError('protocol', 'unspecified', `The ringing could not be sent: ${words(err)}.`));
            else if (!reliable) resolve();
          },
          reliable ? () => resolve() : undefined,
        );
      },
    );
  }

  async answer(sdp: string, headers: Record<string, string> = {}): Promise<CallLeg> {
    this.#mustBePending();
    if (this.#state === 'answering')
      throw new SipError('protocol', 'unspecified', 'The call is being answered already.');
    this.#state = 'answering';
    clearInterval(this.#ringAgain);
    const handedOverMs = performance.now();
    let inTime = true;
    try {
      const leg = await this.#limited<DialogLeg>(sendLimitMs, 'The answer was not confirmed.', (resolve, reject) => {
        const own = { Allow: dialogAllow, Supported: supported.join(', '), 'Content-Type': 'application/sdp' };
        // The callback form: the promise of createUAS settles a tick later, and a BYE in the same chunk would find no listener.
        this.context.stack.createUAS(
          this.req,
          this.res,
          { localSdp: sdp, headers: { ...own, ...clean(headers) } },
          (err, dialog) => {
            if (err || !dialog) {
              // The server no longer knows the transaction when it has itself answered a CANCEL with 487.
              if (/unknown transaction/.test(words(err))) this.#die(callerLeft());
              reject(this.#cancelled.signal.reason ?? new SipError('protocol', 'unspecified', words(err)));
              return;
            }
            // Without a dialog id the server has echoed an earlier final response: its 487 to a CANCEL that came first.
            if (!dialog.id) {
              this.context.stack.removeDialog(dialog);
              const error = callerLeft();
              this.#die(error);
              reject(error);
              return;
            }
            const made = new DialogLeg(dialog, {
              stack: this.context.stack,
              log: this.context.log,
              peer: this.peer,
              localAddress: this.localAddress,
              localSdp: sdp,
              answeredAtMs: this.context.clock.sentMs(dialog.res.stackTime, handedOverMs),
              remoteSdp: this.offer ?? '',
              onGone: (gone) => {
                this.context.live.left(gone);
                this.context.onGone();
              },
            });
            this.context.live.legs.add(made);
            this.#leg = made;
            if (!inTime) void made.hangup('unspecified');
            resolve(made);
          },
        );
      });
      this.#settle('answered');
      return leg;
    } catch (error) {
      inTime = false;
      if (this.isPending) {
        this.#settle('dead');
        this.context.onGone();
      }
      throw error;
    }
  }

  async reject(refusal: { status: number; reason?: string; headers?: Record<string, string> }): Promise<void> {
    if (this.#state !== 'pending') return;
    this.#settle('rejected');
    const sent = this.#limited<void>(sendLimitMs, 'The refusal was not confirmed.', (resolve) =>
      sendRefusal(this.res, refusal, () => resolve()),
    );
    this.context.onGone();
    await sent.catch(() => undefined);
  }

  get unanswered(): UnansweredInvite | null {
    if (this.#leg !== null) return null;
    const [startLine = ''] = this.req.raw.split('\r\n', 1);
    const copied = responseHeaders.flatMap((name) =>
      (this.facts.headers.get(name.toLowerCase()) ?? []).map((value) => `${name}: ${value}`),
    );
    const raw = [startLine, ...copied, '', ''].join('\r\n');
    const { stackTxnId: transactionId } = this.req;
    return { callId: this.sipCallId, raw, transactionId, localTag: this.#localTag, peer: this.peer };
  }

  /** The dialog that the far side may hold: our 200 is on its way, but its sending is not confirmed yet. */
  get unconfirmed(): DialogSnapshot | null {
    if (this.#state !== 'answering' || this.#leg !== null || this.#localTag === '') return null;
    const { headers } = this.facts;
    return {
      callId: this.sipCallId,
      localTag: this.#localTag,
      remoteTag: nameAddress(headers.get('from')?.[0])?.params.tag ?? '',
      ...endsOf('uas', this.req, this.res),
      remoteTarget: nameAddress(listElements(headers.get('contact'))[0])?.uri ?? '',
      localCseq: 0,
      peer: this.peer,
      localAddress: this.localAddress,
    };
  }

  /** The SIP server is lost, and the transaction with it. */
  lost(): void {
    this.#die(new SipError('not_connected', 'signalling_lost', 'The connection to the SIP server was lost.'));
  }

  #die(reason: SipError): void {
    if (!this.isPending) return;
    this.#settle('dead');
    this.#cancelled.abort(reason);
    this.context.onGone();
  }

  #settle(state: 'answered' | 'rejected' | 'dead'): void {
    this.#state = state;
    clearInterval(this.#ringAgain);
    this.context.live.ringing.delete(this);
    if (this.replaces) this.replaces.isBeingReplaced = false;
    this.context.live.settled();
  }

  #mustBePending(): void {
    if (this.#state === 'dead') throw this.#cancelled.signal.reason ?? callerLeft();
    if (!this.isPending) throw new SipError('protocol', 'unspecified', 'The call has its final answer already.');
  }

  /** Runs a step that the server must confirm; the caller's CANCEL or the time limit ends the wait. */
  #limited<T>(
    limitMs: number,
    late: string,
    step: (resolve: (value: T) => void, reject: (error: unknown) => void) => void,
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const { signal } = this.#cancelled;
      const settle = (act: () => void) => {
        clearTimeout(timer);
        signal.removeEventListener('abort', onCancelled);
        act();
      };
      const failed = (error: unknown) => settle(() => reject(error));
      const onCancelled = () => failed(signal.reason);
      const timer = setTimeout(() => failed(new SipError('timeout', 'unspecified', late)), limitMs);
      signal.addEventListener('abort', onCancelled, { once: true });
      try {
        step((value) => settle(() => resolve(value)), failed);
      } catch (error) {
        failed(new SipError('not_connected', 'signalling_lost', `${words(error)}`));
      }
    });
  }
}

/** Our SIP server reports this with its 504. */
function noPrack(): SipError {
  return new SipError('timeout', 'no_ack', 'The caller sent no PRACK for the reliable provisional response.');
}

function callerLeft(): SipError {
  return new SipError('cancelled', 'originator_cancel', 'The caller hung up.');
}

/** Sends a final refusal with its `Reason` header; a status that the library does not know goes out as 500. */
export function sendRefusal(
  res: StackResponse,
  refusal: { status: number; reason?: string; headers?: Record<string, string> },
  sent?: () => void,
): void {
  const headers = clean(refusal.headers ?? {});
  const hasReason = Object.keys(headers).some((name) => name.toLowerCase() === 'reason');
  if (!hasReason && refusal.reason !== undefined) {
    headers.Reason = `SIP;cause=${refusal.status};text=${quotedText(refusal.reason)}`;
  }
  try {
    res.send(refusal.status, { headers }, sent);
  } catch {
    if (res.finalResponseSent) sent?.();
    else res.send(500, { headers }, sent);
  }
}

/** Headers that are safe to send: control characters are removed from values, headers with an invalid name are dropped. */
export function clean(headers: Record<string, string>): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (/^[A-Za-z0-9\-.!%*_+`'~]+$/.test(name)) kept[name] = lineText(value);
  }
  return kept;
}

function joined(headers: HeaderLines): Record<string, string> {
  const record: Record<string, string> = Object.create(null);
  for (const [name, lines] of headers) record[name] = lines.join(', ');
  return record;
}

function words(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
