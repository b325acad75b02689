/**
 * Offer and answer inside a confirmed dialog (RFC 3261 14, RFC 3311). Our offers are sent one at a time, the far side's are answered one at
 * a time, and the two never overlap.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { StackRequest, StackResponse } from '../drachtio/types.js';
import { sdpOf } from '../inbound/sdp-body.js';
import type { CallLeg, ReofferResult } from '../leg.js';
import { SipError } from '../leg.js';
import type { SipLog } from '../log.js';

/** What the leg provides to its parts. */
export interface DialogAccess {
  request(
    method: string,
    options: { headers?: Record<string, string>; body?: string },
    signal: AbortSignal,
  ): Promise<StackResponse>;
  /** Aborts when the leg ends. */
  over: AbortSignal;
  confirmed: Promise<unknown>;
  /** True for the side that made the Call-ID: it waits longer after a glare. */
  ownsCallId: boolean;
  /** Our `Contact` value in this dialog. */
  contact: string;
  log: SipLog;
  /** The far side no longer knows the dialog (RFC 3261 12.2.1.2): ends the leg. */
  giveUp(sipStatus: number): void;
}

/** An offer without a decision in this time is refused with 500; until then the far side hears silence. */
const decisionLimitMs = 10_000;
/**
 * An offer may follow the ACK so closely that no handler is set yet. It waits this long for one, and is then answered with our last SDP.
 */
const listenerLimitMs = 1000;
const maxGlares = 6;

type MakeOffer = Parameters<CallLeg['reoffer']>[0];

export class Offers {
  #handler: ((offer: string | null) => Promise<ReofferResult>) | null = null;
  #listened!: () => void;
  readonly #listener = new Promise<void>((resolve) => {
    this.#listened = resolve;
  });
  #queue: Promise<unknown> = Promise.resolve();
  #isOurs = false;
  #theirs: Promise<void> | null = null;
  #onAck: ((answer: string) => void) | null = null;

  constructor(
    private readonly leg: DialogAccess,
    private localSdp: string,
    public remoteSdp: string,
  ) {}

  /** Sets the handler of the far side's offers. */
  listen(handler: (offer: string | null) => Promise<ReofferResult>): void {
    this.#handler = handler;
    this.#listened();
  }

  reoffer(make: MakeOffer, signal: AbortSignal): Promise<{ ok: string } | { refused: number }> {
    const turn = this.#queue.then(() => this.#reoffer(make, signal));
    this.#queue = turn.catch(() => undefined);
    return turn;
  }

  async #reoffer(make: MakeOffer, signal: AbortSignal): Promise<{ ok: string } | { refused: number }> {
    // RFC 3261 14.1: no new INVITE while another INVITE transaction of either side is open, including the first one and its ACK.
    await this.leg.confirmed;
    for (let glares = 0; ; glares++) {
      while (this.#theirs) await this.#theirs;
      if (signal.aborted) return { refused: glares > 0 ? 491 : 487 };
      // From here on no offer of the far side is accepted: the state that our offer is made from still holds when it is answered.
      this.#isOurs = true;
      let sdp: string;
      let res: StackResponse;
      try {
        sdp = typeof make === 'string' ? make : await make();
        res = await this.#offer(sdp, signal);
      } finally {
        this.#isOurs = false;
      }
      if (res.status < 300) {
        this.localSdp = sdp;
        this.remoteSdp = res.body;
        return { ok: res.body };
      }
      if (res.status === 481 || res.status === 408) this.leg.giveUp(res.status);
      if (res.status !== 491 || glares >= maxGlares) return { refused: res.status };
      const waitMs = this.leg.ownsCallId ? 2100 + Math.random() * 1900 : Math.random() * 2000;
      await sleep(waitMs, undefined, { signal: AbortSignal.any([signal, this.leg.over]) }).catch(() => undefined);
    }
  }

  #offer(sdp: string, signal: AbortSignal): Promise<StackResponse> {
    const headers = { Contact: this.leg.contact, 'Content-Type': 'application/sdp' };
    return this.leg.request('INVITE', { headers, body: sdp }, signal);
  }

  /** A re-INVITE or an UPDATE from the far side. */
  async incoming(req: StackRequest, res: StackResponse): Promise<void> {
    try {
      if (this.#isOurs) {
        res.send(491);
        return;
      }
      if (this.#theirs) {
        res.send(500, { headers: { 'Retry-After': String(Math.floor(Math.random() * 11)) } });
        return;
      }
      const work = this.#answer(req, res);
      this.#theirs = work;
      await work;
    } catch (error) {
      this.leg.log.error({ err: error instanceof Error ? error.message : String(error) }, 'answering an offer failed');
      if (!res.finalResponseSent) res.send(500);
    } finally {
      this.#theirs = null;
    }
  }

  async #answer(req: StackRequest, res: StackResponse): Promise<void> {
    const body = sdpOf(req);
    if (body.kind === 'unsupported') {
      res.send(415, { headers: { Accept: 'application/sdp' } });
      return;
    }
    const isUpdate = req.method === 'UPDATE';
    if (isUpdate && body.kind === 'none') {
      res.send(200, { headers: { Contact: this.leg.contact } }); // a session refresh: the session stays as it is
      return;
    }
    const offer = body.kind === 'sdp' ? body.sdp : null;
    const result = await this.#decide(offer);
    if (this.leg.over.aborted) {
      res.send(487, {}, () => undefined); // if the far side sent BYE, the server has answered this already; if we did, it has not
      return;
    }
    if ('refuse' in result) {
      res.send(result.refuse);
      return;
    }
    this.localSdp = result.sdp;
    if (offer !== null) this.remoteSdp = offer;
    else this.#onAck = result.acked ?? null;
    res.send(200, {
      body: result.sdp,
      headers: { Contact: this.leg.contact, 'Content-Type': 'application/sdp' },
    });
  }

  async #decide(offer: string | null): Promise<ReofferResult> {
    if (!this.#handler) await this.#untilListener();
    if (!this.#handler) return { sdp: this.localSdp };
    const decided = new AbortController();
    const limit = sleep(decisionLimitMs, undefined, { signal: decided.signal }).then(
      () => {
        throw new SipError('timeout', 'unspecified', 'The offer was not decided in time.');
      },
      () => ({ refuse: 500 }),
    );
    try {
      return await Promise.race([this.#handler(offer), limit]);
    } finally {
      decided.abort();
    }
  }

  async #untilListener(): Promise<void> {
    const came = new AbortController();
    const signal = AbortSignal.any([came.signal, this.leg.over]);
    await Promise.race([this.#listener, sleep(listenerLimitMs, undefined, { signal }).catch(() => undefined)]);
    came.abort();
  }

  /** The ACK of an answered re-INVITE; it carries the answer when the re-INVITE had no offer. */
  acknowledged(answer: string | undefined): void {
    const onAck = this.#onAck;
    this.#onAck = null;
    if (!onAck || answer === undefined) return;
    this.remoteSdp = answer;
    try {
      onAck(answer);
    } catch (error) {
      this.leg.log.error(
        { err: error instanceof Error ? error.message : String(error) },
        'handling the answer in an ACK failed',
      );
    }
  }
}
