/** One destination of a `dial`: a call of its own, with its record, its money and its end. */
import { randomUUID } from 'node:crypto';
import type { MediaEngine, MediaPolicy, MediaSession } from '../../../media/engine.js';
import { type CallLeg, SipError, type SipGateway } from '../../../sip/leg.js';
import type { Calls } from '../../store/calls/calls.js';
import type { Mode } from '../../store/tenants/scope.js';
import { clientAddress, type Dial, type DialTarget, e164, type StatusCallback } from '../../webhook/actions.js';
import { type BegunCall, Call } from '../core/call.js';
import { CallSteps, type EndedAs, endedAs } from '../core/call-progress.js';
import { endingOf } from '../core/error-to-ending.js';
import { answerReoffers } from '../core/leg-requests.js';
import { CallEnded, type Ending } from '../core/outcome.js';
import type { CallParty } from '../core/party.js';
import { type CallClosing, closeCall, watchLeg, watchSession } from '../core/teardown.js';
import type { ChildCallRecord } from '../routing/child-call-policy.js';
import type { Carrier, TrunkMedia } from '../routing/trunk-selection.js';
import type { SecondLeg } from './dial-sip.js';
import { dialCarriers } from './dial-trunks.js';
import { asTheFirstLeg, srtpTowards } from './leg-media.js';

/** What a child call needs of the process. */
export interface ChildCallDeps {
  media: MediaEngine;
  policy: MediaPolicy;
  dial: SipGateway['dial'];
  records: Calls;
  closing: CallClosing;
  carriers(organizationId: string, mode: Mode): Carrier[] | Promise<Carrier[]>;
  /** Why the organization may not call `to`; null when it may. */
  refusal(organizationId: string, mode: Mode, call: { to: string; from: string | null }): string | null;
  /** SIP addresses inside our network may be called. */
  allowPrivateTargets: boolean;
  /** Whether the organization has a trunk with this user name, which registers with us. */
  hasUser(organizationId: string, name: string): boolean;
  /** Writes the record of a call that another one makes, and holds its money. */
  begin(wish: ChildCallRecord): { begun: BegunCall; refusal: Ending | null };
}

/** The call that dials. */
export interface ParentCall {
  readonly line: CallParty;
  /** The endpoint in whose name it dials. */
  readonly endpointId: string;
  /** Reports a step of the child call to `callback`, if it asked for that step. */
  status(callback: StatusCallback | null, event: string, fields: { [name: string]: string }): void;
}

export class DialledCall {
  readonly call: Call;
  readonly from: string;
  /** Resolves when somebody answered. Rejects with `CallEnded`. */
  readonly answered: Promise<SecondLeg>;
  /** Resolves when everything of it is closed. */
  readonly closed: Promise<void>;
  private session: MediaSession | null = null;
  private leg: CallLeg | null = null;
  private readonly sipCallId = randomUUID();
  private readonly steps: CallSteps;

  /** `signal`: who dials does not want it any more. */
  constructor(
    private readonly stage: ParentCall,
    private readonly action: Pick<Dial, 'from' | 'timeoutSec'>,
    private readonly target: DialTarget & { replaces?: string | undefined },
    private readonly rules: ChildCallDeps,
    signal: AbortSignal,
  ) {
    const { facts, mode } = stage.line;
    this.from = action.from ?? (e164.test(facts.from) ? facts.from : facts.to);
    const { begun, refusal } = rules.begin({
      parentCallId: facts.callId,
      organizationId: facts.organizationId,
      mode,
      endpointId: stage.endpointId,
      from: this.from,
      to: target.to,
    });
    const call = new Call(rules.records, begun, 'outbound');
    this.call = call;
    const { organizationId, callId: parentCallId } = facts;
    this.steps = new CallSteps(
      call,
      {
        callId: call.id,
        organizationId,
        from: this.from,
        fromName: null,
        to: target.to,
        direction: 'outbound',
        parentCallId,
      },
      (step, fields) => stage.status(target.status, step, fields),
    );
    rules.closing.live.add(call);
    if (refusal !== null) call.end(refusal);
    const giveUp = () => call.hangup('caller');
    signal.addEventListener('abort', giveUp, { once: true });
    if (signal.aborted) giveUp();
    let answer!: (second: SecondLeg) => void;
    this.answered = new Promise((resolve, reject) => {
      answer = resolve;
      void call.ended.then((ending) => reject(new CallEnded(ending)));
    });
    this.answered.catch(() => {}); // whoever waits is told
    this.closed = this.run(answer).finally(() => signal.removeEventListener('abort', giveUp));
  }

  get status(): EndedAs {
    return endedAs(this.call);
  }

  private async run(answer: (second: SecondLeg) => void): Promise<void> {
    const { call, rules } = this;
    try {
      this.steps.tell('initiated');
      call.check();
      this.leg = await this.dial();
      watchLeg(this.leg, call, 'callee');
      call.check();
      call.pickedUp(this.leg.answeredAtMs);
      await call.orEnd(this.leg.confirmed);
      const session = this.session as MediaSession | null;
      if (session === null) throw new CallEnded({ cause: 'unspecified', source: 'system' });
      const { address } = this.leg.snapshot().peer;
      await call.orEnd(session.accept(this.leg.remoteSdp, { provisional: false, signalledFrom: address }));
      answerReoffers(this.leg, session);
      call.answer();
      call.phones.set(this.leg, { session, organizationId: this.stage.line.facts.organizationId });
      this.steps.tell('answered');
      if (this.target.sendDigits !== null) await call.orEnd(session.sendDtmf(this.target.sendDigits));
      answer({ leg: this.leg, session });
      await call.ended;
    } catch (error) {
      call.end(endingOf(error, call, 'callee', rules.closing.log));
    } finally {
      await closeCall(
        call,
        { session: this.session, agent: null, leg: this.leg, sipCallId: this.sipCallId },
        rules.closing,
      );
      this.steps.tell('completed');
    }
  }

  private async dial(): Promise<CallLeg> {
    const { call, rules, target, stage, sipCallId, from } = this;
    const { facts, mode } = stage.line;
    const ringTimeoutMs = this.action.timeoutSec * 1000;
    const onProgress = ({ status }: { status: number }) => {
      if (status !== 180 || call.ending !== null) return;
      call.ringing();
      this.steps.tell('ringing');
    };
    const offerFor = (localAddress: string, media: TrunkMedia) => this.offer(localAddress, media);
    if (e164.test(target.to)) {
      const carriers = await rules.carriers(facts.organizationId, mode);
      call.event('call.routed', { endpoint_id: stage.endpointId, trunks: carriers.map((carrier) => carrier.name) });
      const wish = { sipCallId, to: target.to, from, ringTimeoutMs, offerFor, onProgress };
      return dialCarriers(call, wish, carriers, rules.dial);
    }
    call.assign({ sipCallId });
    const user = clientAddress.exec(target.to)?.[1];
    if (user !== undefined && !rules.hasUser(facts.organizationId, user))
      throw new CallEnded({ cause: 'not_found', source: 'system', detail: `There is no user "${user}".` });
    const { uri, headers } = user === undefined ? sipDestination(target.to) : { uri: `sip:${user}`, headers: {} };
    const leg = rules.dial(
      {
        sipCallId,
        to: uri,
        from,
        gateways: [{ uri, ...(target.auth === null ? {} : { auth: target.auth }) }],
        headers: {
          ...headers,
          ...(target.replaces === undefined ? {} : { Replaces: target.replaces }),
          'X-Trunkline-Call-Id': facts.callId,
        },
        ringTimeoutMs,
        // Where a user is, it has said with its password.
        publicOnly: user === undefined && !rules.allowPrivateTargets,
        offerFor: async (_gateway, localAddress) =>
          offerFor(localAddress, {
            codecs: await asTheFirstLeg(stage.line.session, rules.policy.codecs),
            srtp: srtpTowards(uri),
          }),
        onProgress,
        onInvite: (pending) => call.dialog(pending),
      },
      call.signal,
    );
    return user === undefined ? leg : leg.catch(notThere);
  }

  /** Each gateway gets media of its own. Beside the caller's, so that both can be joined. */
  private async offer(localAddress: string, media: TrunkMedia): Promise<string> {
    const { rules, stage, call } = this;
    const old = this.session;
    this.session = null;
    await old?.close();
    call.check();
    const policy = { ...rules.policy, ...media };
    const group = stage.line.call.id;
    const session = await rules.media.open({ group, offer: null, policy, localAddress, role: 'callee' });
    this.session = session;
    watchSession(session, call, () => this.session === session, 'callee');
    call.check();
    return session.offer();
  }
}

/** A user who is registered nowhere does not answer. */
function notThere(error: unknown): never {
  if (error instanceof SipError && error.code === 'unreachable')
    throw new CallEnded({ cause: 'no_answer', source: 'system', detail: error.message });
  throw error;
}

/** `?X-Name=value` of a SIP URI are header fields of the INVITE; others are not ours to set. */
function sipDestination(text: string): { uri: string; headers: { [name: string]: string } } {
  const [uri = text, query = ''] = text.split('?', 2);
  const headers = [...new URLSearchParams(query)].filter(([name]) => /^x-[\w-]{1,60}$/i.test(name));
  return { uri, headers: Object.fromEntries(headers.map(([name, value]) => [name, value.replace(/[\r\n]/g, ' ')])) };
}

/** Why nobody was reached, of several: the one that says most. */
export function statusOf(calls: readonly DialledCall[]): EndedAs {
  const all = calls.map((each) => each.status);
  return (['busy', 'no-answer', 'failed'] as const).find((status) => all.includes(status)) ?? 'canceled';
}
