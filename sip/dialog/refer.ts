/** REFER in both directions (RFC 3515): transferring the far side, and being transferred by it. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { StackRequest, StackResponse } from '../drachtio/types.js';
import type { CallLeg, TransferResult } from '../leg.js';
import { SipError } from '../leg.js';
import type { DialogAccess } from './offer-answer.js';
import { referTarget, referUri, sipfragStatus } from './refer-headers.js';

export type ReferHandler = Parameters<CallLeg['onRefer']>[0];

/** A handler that does not decide in this time fails the REFER with 500. */
const decisionLimitMs = 10_000;
/** How long an accepted referral may take until its end is reported. */
const outcomeLimitMs = 180_000;

export class Referrals {
  handler: ReferHandler | null = null;
  #onResult: ((result: TransferResult) => void) | null = null;

  constructor(
    private readonly leg: DialogAccess,
    private readonly remoteTarget: () => string,
    private readonly localUri: string,
  ) {}

  async transfer(to: string, signal: AbortSignal): Promise<TransferResult> {
    const uri = referUri(to, this.remoteTarget());
    if (!uri) throw new SipError('protocol', 'unspecified', `"${to}" is neither a number nor a SIP URI.`);
    if (this.#onResult) throw new SipError('protocol', 'unspecified', 'A transfer of this call is under way already.');
    const given = new Promise<TransferResult>((resolve) => {
      this.#onResult = resolve;
    });
    try {
      await this.leg.confirmed;
      const headers = { 'Refer-To': `<${uri}>`, 'Referred-By': `<${this.localUri}>`, Contact: this.leg.contact };
      const res = await this.leg.request('REFER', { headers }, signal);
      if (res.status >= 300) return { status: 'failed', sipStatus: res.status, refused: true };
      return await Promise.race([given, aborted(AbortSignal.any([signal, this.leg.over]))]);
    } finally {
      this.#onResult = null;
    }
  }

  /** A NOTIFY of the far side about our REFER. */
  notified(req: StackRequest, res: StackResponse): void {
    const isRefer = /^\s*refer\b/i.test(req.get('event') ?? '');
    if (!isRefer || !this.#onResult) {
      res.send(489, { headers: { 'Allow-Events': 'refer' } });
      return;
    }
    res.send(200);
    const status = sipfragStatus(req.body ?? '');
    if (status !== null && status >= 200) {
      this.#onResult(status < 300 ? { status: 'completed' } : { status: 'failed', sipStatus: status });
    } else if (/^\s*terminated\b/i.test(req.get('subscription-state') ?? '')) this.#onResult({ status: 'accepted' });
  }

  /** A REFER from the far side. Without a handler it is refused with 403: only the party that pays for the new call may cause it. */
  async incoming(req: StackRequest, res: StackResponse): Promise<void> {
    try {
      const target = referTarget(req.get('refer-to'));
      if (!target) {
        res.send(400, 'Bad Refer-To');
        return;
      }
      const decision = this.handler ? await withLimit(this.handler(target)) : { refuse: 403 };
      if (this.leg.over.aborted) return;
      if ('refuse' in decision) {
        res.send(decision.refuse);
        return;
      }
      res.send(202, { headers: { Contact: this.leg.contact } });
      const event = `refer;id=${Number.parseInt(req.get('cseq') ?? '', 10) || 0}`;
      await this.#notify(event, 100);
      const outcome = decision.outcome ? await withLimit(decision.outcome, outcomeLimitMs) : 200;
      if (!this.leg.over.aborted) await this.#notify(event, outcome);
    } catch (error) {
      if (!res.finalResponseSent) res.send(500);
      this.leg.log.warn({ err: error instanceof Error ? error.message : String(error) }, 'handling a REFER failed');
    }
  }

  async #notify(event: string, status: number): Promise<void> {
    const isFinal = status >= 200;
    const headers = {
      Event: event,
      'Subscription-State': isFinal ? 'terminated;reason=noresource' : 'active;expires=180',
      'Content-Type': 'message/sipfrag;version=2.0',
      Contact: this.leg.contact,
    };
    const phrase = status < 200 ? 'Trying' : status < 300 ? 'OK' : 'Failed';
    await this.leg.request(
      'NOTIFY',
      { headers, body: `SIP/2.0 ${status} ${phrase}\r\n` },
      new AbortController().signal,
    );
  }
}

/** When the far side hangs up or sends no final NOTIFY, the transfer counts as accepted: no more is known. */
function aborted(signal: AbortSignal): Promise<TransferResult> {
  return new Promise((resolve) => {
    const accept = () => resolve({ status: 'accepted' });
    if (signal.aborted) accept();
    signal.addEventListener('abort', accept, { once: true });
  });
}

async function withLimit<T>(promise: Promise<T>, limitMs = decisionLimitMs): Promise<T> {
  const settled = new AbortController();
  const limit = sleep(limitMs, undefined, { signal: settled.signal, ref: false }).then((): never => {
    throw new SipError('timeout', 'unspecified', 'The REFER was not decided in time.');
  });
  limit.catch(() => undefined);
  try {
    return await Promise.race([promise, limit]);
  } finally {
    settled.abort();
  }
}
