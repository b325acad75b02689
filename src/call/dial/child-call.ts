/** One destination of a `dial`, or of a bridged transfer: a call of its own, with its record, its money and its end. */
import { randomUUID } from 'node:crypto';
import type { MediaEngine, MediaPolicy } from '../../../media/engine.js';
import type { CallLeg } from '../../../sip/leg.js';
import type { Calls } from '../../store/calls/calls.js';
import type { Mode } from '../../store/tenants/scope.js';
import { type Dial, type DialTarget, e164, type StatusCallback } from '../../webhook/actions.js';
import { type BegunCall, Call } from '../core/call.js';
import { CallProgressEvents, type EndedAs, endedAs } from '../core/call-progress.js';
import { endingOf } from '../core/error-to-ending.js';
import { CallEnded } from '../core/outcome.js';
import type { PartyFacts } from '../core/party-facts.js';
import { CalledParty } from '../party/called.js';
import type { CallParty } from '../party/party.js';
import { type CallClosing, closeCall } from '../party/teardown.js';
import { type CallAdmission, settleAdmission } from '../routing/admission.js';
import type { ChildCallRecord } from '../routing/child-call-policy.js';
import type { Carrier, TrunkMedia } from '../routing/trunk-selection.js';
import { type AddressDialDeps, carriedNumber, dialAddress } from './dial-address.js';
import { dialCarriers } from './dial-trunks.js';
import { codecsLike } from './leg-media.js';

/** What a child call needs of the process. */
export interface ChildCallDeps extends AddressDialDeps {
  media: MediaEngine;
  policy: MediaPolicy;
  records: Calls;
  closing: CallClosing;
  carriers(organizationId: string, mode: Mode): Carrier[] | Promise<Carrier[]>;
  /** Why the organization may not call `to`; null when it may. */
  refusal(organizationId: string, mode: Mode, call: { to: string; from: string | null }): Promise<string | null>;
  /** Queues the record of the child call, and asks for its money. */
  begin(wish: ChildCallRecord): { begun: BegunCall; admission: Promise<CallAdmission> };
}

/** The call that dials. */
export interface ParentCall {
  readonly party: CallParty;
  /** The endpoint in whose name it dials. */
  readonly endpointId: string;
  /** Reports a step of the child call to `callback`, if it asked for that step. */
  status(callback: StatusCallback | null, event: string, fields: { [name: string]: string }): void;
}

/** `replaces`: a dialog of the target that it gives up for this call (RFC 3891). */
export type ChildCallTarget = Omit<DialTarget, 'screen'> & { replaces?: string | undefined };

export class ChildCall {
  readonly call: Call;
  readonly from: string;
  readonly party: CalledParty;
  /** Resolves when the callee answered. Rejects with `CallEnded`. */
  readonly answered: Promise<CalledParty>;
  /** Resolves when everything of it is closed. */
  readonly closed: Promise<void>;
  /** Its phone answered, and did not take the call. */
  declined = false;
  readonly #sipCallId = randomUUID();
  readonly #steps: CallProgressEvents;

  /** `signal`: the caller hung up, or does not want the call any more. */
  constructor(
    private readonly parent: ParentCall,
    private readonly action: Pick<Dial, 'from' | 'timeoutSec'>,
    private readonly target: ChildCallTarget,
    private readonly deps: ChildCallDeps,
    signal: AbortSignal,
  ) {
    const { facts, mode } = parent.party;
    this.from = action.from ?? [facts.from, facts.to].find((number) => e164.test(number)) ?? facts.from;
    const { begun, admission } = deps.begin({
      parentCallId: facts.callId,
      organizationId: facts.organizationId,
      mode,
      endpointId: parent.endpointId,
      from: this.from,
      to: target.to,
    });
    const call = new Call(deps.records, begun, 'outbound');
    this.call = call;
    deps.closing.live.add(call);
    const own: PartyFacts = {
      callId: call.id,
      organizationId: facts.organizationId,
      from: this.from,
      fromName: null,
      to: target.to,
      direction: 'outbound',
      parentCallId: facts.callId,
    };
    this.party = new CalledParty({ call, role: 'callee', facts: own, mode });
    this.#steps = new CallProgressEvents(call, own, (step, fields) => parent.status(target.status, step, fields));
    const giveUp = () => call.hangup('caller');
    signal.addEventListener('abort', giveUp, { once: true });
    if (signal.aborted) giveUp();
    let answer!: (party: CalledParty) => void;
    this.answered = new Promise((resolve, reject) => {
      answer = resolve;
      void call.ended.then((ending) => reject(new CallEnded(ending)));
    });
    this.answered.catch(() => {}); // also when no one awaits it
    this.closed = this.#run(answer, admission).finally(() => signal.removeEventListener('abort', giveUp));
  }

  get status(): EndedAs {
    return this.declined ? 'no-answer' : endedAs(this.call);
  }

  async #run(answer: (party: CalledParty) => void, admission: Promise<CallAdmission>): Promise<void> {
    const { call, party, deps } = this;
    try {
      this.#steps.tell('initiated');
      await call.orEnd(settleAdmission(call, admission));
      call.check();
      await party.answeredWith(await this.#dial());
      call.answer();
      await party.answer();
      this.#steps.tell('answered');
      if (this.target.sendDigits !== null) await call.orEnd(party.session.sendDtmf(this.target.sendDigits));
      answer(party);
      await call.ended;
    } catch (error) {
      call.end(endingOf(error, call, 'callee', deps.closing.log));
    } finally {
      await closeCall(party, this.#sipCallId, deps.closing);
      this.#steps.tell('completed');
    }
  }

  async #dial(): Promise<CallLeg> {
    const { call, deps, target, parent, party, from } = this;
    const { facts, mode } = parent.party;
    const { organizationId, callId: group } = facts;
    const { to, auth, replaces } = target;
    const wish = {
      ...{ sipCallId: this.#sipCallId, to, from, ringTimeoutMs: this.action.timeoutSec * 1000 },
      // A SIP leg prefers the codec of the party that it will be bridged with.
      offerFor: async (localAddress: string, media: Partial<TrunkMedia>) => {
        const codecs = media.codecs ?? (await codecsLike(parent.party.session, deps.policy.codecs));
        return party.offer(deps.media, { group, policy: { ...deps.policy, ...media, codecs }, localAddress });
      },
      onProgress: ({ status }: { status: number }) => {
        if (status !== 180 || call.ending !== null) return;
        call.ringing();
        this.#steps.tell('ringing');
      },
    };
    const number = carriedNumber(to, mode, deps.isOurs);
    if (number === null) {
      const headers = { ...(replaces !== undefined && { Replaces: replaces }), 'X-Trunkline-Call-Id': group };
      return dialAddress(call, { ...wish, organizationId, auth, headers }, deps);
    }
    const carriers = await deps.carriers(organizationId, mode);
    call.event('call.routed', { endpoint_id: parent.endpointId, trunks: carriers.map((carrier) => carrier.name) });
    return dialCarriers(call, { ...wish, to: number }, carriers, deps.dial);
  }
}

/** The result of several calls of which none was answered: the most telling one. */
export function statusOf(calls: readonly ChildCall[]): EndedAs {
  const all = calls.map((each) => each.status);
  return (['busy', 'no-answer', 'failed'] as const).find((status) => all.includes(status)) ?? 'canceled';
}
