import type { MediaEvent, MediaSession, MediaStats } from '../../../media/engine.js';
import type { CallLeg, LegEnd } from '../../../sip/leg.js';
import type { Mode } from '../../store/tenants/scope.js';
import type { Call } from '../core/call.js';
import { CallEnded } from '../core/outcome.js';
import type { PartyFacts } from '../core/party-facts.js';
import type { Hold, Key } from './application.js';
import { keyOfInfo } from './info-key.js';
import { MediaControl } from './media-control.js';
import { type PartyRole, recordHold, recordKey, recordMedia } from './party-record.js';

export interface PartyOptions {
  /** The call whose record it writes. */
  call: Call;
  role: PartyRole;
  facts: PartyFacts;
  mode: Mode;
  /** Header fields of the INVITE that a webhook may see, names in lower case. */
  headers?: Readonly<Record<string, string>>;
  /** The call ends this long after the answer; absent: never. */
  maxCallMs?: number;
}

/**
 * One phone of a call: owner of its media session and its SIP leg, and the only subscriber of both. What they report goes into the
 * record of the call first, then to the application that has the party, then to the observers.
 */
export abstract class CallParty {
  readonly call: Call;
  readonly role: PartyRole;
  readonly facts: PartyFacts;
  readonly mode: Mode;
  readonly headers: Readonly<Record<string, string>>;
  /** What the party talks with. */
  readonly control = new MediaControl(() => this.session);
  #session: MediaSession | null = null;
  #unsubscribe: () => void = () => {};
  #uncover: () => void = () => {};
  #leg: CallLeg | null = null;
  #resolveHungUp!: (end: LegEnd) => void;
  /** Resolves when the leg that the party has then ends. A leg that another one replaced does not count. */
  readonly hungUp = new Promise<LegEnd>((resolve) => {
    this.#resolveHungUp = resolve;
  });
  #held: Hold | null = null;
  /** The record has `call.held`, and no `call.resumed` after it. */
  #isHoldRecorded = false;
  #isClosed = false;
  readonly #observers = new Set<(event: MediaEvent) => void>();
  readonly #maxCallMs: number | null;

  constructor({ call, role, facts, mode, headers, maxCallMs }: PartyOptions) {
    this.call = call;
    this.role = role;
    this.facts = facts;
    this.mode = mode;
    this.headers = headers ?? {};
    this.#maxCallMs = maxCallMs ?? null;
  }

  /** Throws `CallEnded` before there is one. */
  get session(): MediaSession {
    if (this.#session === null) throw new CallEnded({ cause: 'unspecified', source: 'system' });
    return this.#session;
  }

  get hasMedia(): boolean {
    return this.#session !== null;
  }

  /** null until answered. */
  get leg(): CallLeg | null {
    return this.#leg;
  }

  /** The phone holds the call, perhaps since its first offer or answer; null when it does not. */
  get held(): Hold | null {
    return this.#held;
  }

  /** Answers the call, or returns the leg that there is, and opens `control`. Rejects with `CallEnded` when the call ended first. */
  abstract answer(): Promise<CallLeg>;

  /** Lets a caller hear media before the answer (183 with SDP). False: the party does not wait for an answer, or offered no media yet. */
  async ringWithMedia(): Promise<boolean> {
    return false;
  }

  /** Reports the events of the media to `on` until the returned function is called. An exception in `on` ends this call alone. */
  observe(on: (event: MediaEvent) => void): () => void {
    const guarded = this.call.guarded(on);
    this.#observers.add(guarded);
    return () => this.#observers.delete(guarded);
  }

  /** The media of this party from now on, before the answer only. Use `dropSession` first if there was another one. */
  protected useSession(session: MediaSession): void {
    const { call } = this;
    this.#session = session;
    this.#held = session.held;
    this.#uncover = call.redaction.cover(session);
    this.#unsubscribe = session.onEvent(call.guarded((event) => this.#heard(event)));
    void session.lost.then(
      call.guarded((how) => {
        if (this.#session !== session || this.role === 'agent') return;
        if (how === 'rtp-timeout') call.event('media.timeout');
        call.end({ cause: how === 'rtp-timeout' ? 'media_timeout' : 'engine_gone', source: 'system' });
      }),
    );
    if (this.#isClosed) void session.close();
  }

  /** Closes the session; nothing of it counts any more. */
  protected async dropSession(): Promise<void> {
    const session = this.#session;
    this.#session = null;
    this.#held = null;
    this.#unsubscribe();
    this.#uncover();
    await session?.close();
  }

  /** The leg of this party from now on; the one before, if any, gets BYE. */
  useLeg(leg: CallLeg): void {
    const { call } = this;
    const before = this.#leg;
    this.#leg = leg;
    call.phones.set(leg, this);
    call.dialog(leg.snapshot());
    leg.confirmed.catch(() => {}); // the reason is in `ended`
    leg.onReoffer((offer) => this.#answerReoffer(offer));
    leg.onInfo(
      call.guarded((info) => {
        const digit = keyOfInfo(info);
        if (digit !== null) this.#pressed({ digit, method: 'info', passedOn: false }, null);
      }),
    );
    leg.onRefer((refer) => this.#referred(refer));
    void leg.ended.then(
      call.guarded((end) => {
        if (this.#leg !== leg) return;
        this.#resolveHungUp(end);
        if (this.role === 'agent') return;
        const { cause, by, detail } = end;
        const text = detail?.text === undefined ? {} : { detail: detail.text };
        call.end({ cause, source: by === 'remote' ? this.role : 'system', ...text });
      }),
    );
    if (before === null) return;
    call.phones.delete(before);
    void before.hangup('transferred');
  }

  /** Answered, and both sides can hear each other. Idempotent. */
  protected open(): void {
    if (this.control.isOpen || this.call.ending !== null) return;
    this.#recordHold();
    this.#limitDuration();
    this.control.open();
  }

  /** Closes the media; resolves with the final figures. Idempotent. */
  async closeMedia(): Promise<MediaStats | null> {
    this.#isClosed = true;
    this.#session?.attach(null);
    return (await this.#session?.close()) ?? null;
  }

  #heard(event: MediaEvent): void {
    const { call, control } = this;
    if (event.type === 'held' || event.type === 'resumed') {
      this.#held = event.type === 'held' ? { sends: event.sends } : null;
      this.#recordHold();
      control.hold(this.#held);
    } else if (event.type === 'dtmf') {
      const { digit, form, passedOn, durationMs } = event;
      this.#pressed({ digit, method: form === 'event' ? 'rfc4733' : 'inband', passedOn }, durationMs);
    } else if (event.type === 'moved') void this.#followMove().catch(() => {});
    else recordMedia(event, call, this.role);
    for (const observe of [...this.#observers]) observe(event);
  }

  #pressed(key: Key, durationMs: number | null): void {
    if (!this.#isRecorded) return;
    recordKey(key, durationMs, this.call, this.role);
    this.control.key(key);
  }

  #recordHold(): void {
    const isHeld = this.#held !== null;
    if (isHeld === this.#isHoldRecorded || !this.#isRecorded) return;
    this.#isHoldRecorded = isHeld;
    recordHold(isHeld, this.call, this.role);
  }

  /** Keys and holds before the answer are not recorded. An agent's answer may come before the caller's. */
  get #isRecorded(): boolean {
    return this.role === 'agent' ? this.#leg !== null : this.call.answered;
  }

  /** The phone may change codec, address and direction at any time (RFC 3264, section 8). */
  async #answerReoffer(offer: string | null): ReturnType<Parameters<CallLeg['onReoffer']>[0]> {
    try {
      const { session } = this;
      if (offer !== null) return { sdp: await session.answer(offer) };
      return {
        sdp: await session.offer(),
        acked: (answer) => void session.accept(answer, { provisional: false }).catch(() => {}),
      };
    } catch {
      return { refuse: 488 };
    }
  }

  /** The media moved to another server: a re-INVITE tells the phone. Without its answer the session ends as lost by itself. */
  async #followMove(): Promise<void> {
    const { session } = this;
    const over = new AbortController();
    void this.call.ended.then(() => over.abort());
    const result = await this.#leg?.reoffer(() => session.offer(), over.signal);
    if (result && 'ok' in result) await session.accept(result.ok, { provisional: false });
  }

  /** Refused by default: otherwise a caller could make the organization pay for a call to anywhere. */
  async #referred(refer: { to: string; replaces: string | null }): ReturnType<Parameters<CallLeg['onRefer']>[0]> {
    const { call, role } = this;
    const application = this.control.current;
    if (application?.onRefer !== undefined) return application.onRefer(refer);
    if (role !== 'agent') {
      const detail = `The ${role} may not transfer the call.`;
      call.event('transfer.failed', { to: refer.to, source: role, reason: 'not_allowed', detail, sip_status: 403 });
    }
    return { refuse: 403 };
  }

  #limitDuration(): void {
    const { call } = this;
    if (this.#maxCallMs === null) return;
    const timer = setTimeout(() => call.end({ cause: 'time_limit', source: 'system' }), this.#maxCallMs);
    void call.ended.then(() => clearTimeout(timer));
  }
}
