import { randomUUID } from 'node:crypto';
import type { MediaEngine, MediaPolicy, MediaSession } from '../../media/engine.js';
import type { CallLeg, DialRequest, SipGateway } from '../../sip/leg.js';
import type { Calls } from '../store/calls/calls.js';
import type { EndpointForCall as Endpoint } from '../store/routing/endpoints.js';
import type { Mode } from '../store/tenants/scope.js';
import { type AnsweredBy, answeredByFields } from '../webhook/twilio-parameters.js';
import { Webhook } from '../webhook/webhook-client.js';
import { converse } from './agent/conversation.js';
import { detectMachine } from './agent/machine-detection.js';
import { isSipTarget } from './agent/sip-agent.js';
import { failedTakeUp, type TakenUp, takeUp } from './connect-endpoint.js';
import { Elsewhere } from './control/bridged-transfer.js';
import { Call } from './core/call.js';
import { CallSteps } from './core/call-progress.js';
import type { OutboundCall, OutboundCalls } from './core/outbound-request.js';
import { CallEnded } from './core/outcome.js';
import type { CallParty } from './core/party.js';
import { type CallClosing, type CallParts, closeCall, endingOf, watchLeg, watchSession } from './core/teardown.js';
import { dialCarriers } from './dial/dial-trunks.js';
import { EarlyMedia } from './dial/early-media.js';
import type { RouteLookup } from './routing/router.js';
import type { Carrier, TrunkMedia } from './routing/trunk-selection.js';
import { firstInstructions, type SteerRules, steer } from './script/runner.js';

/** What an outbound call needs of the process. */
export interface OutboundDeps extends CallClosing {
  records: Calls;
  lookup: Pick<RouteLookup, 'getForCall'>;
  media: MediaEngine;
  dial: SipGateway['dial'];
  /** The ways out of an organization, in order; for test calls the carrier simulator. */
  carriers(organizationId: string, mode: Mode): Carrier[] | Promise<Carrier[]>;
  /** Whether there is any, without starting anything. */
  hasCarrier(organizationId: string, mode: Mode): boolean;
  isDraining(): boolean;
  /** Calls at once; null: no cap. */
  maxCalls: number | null;
  policy: MediaPolicy;
  steering: SteerRules;
}

export class OutboundDialler implements OutboundCalls {
  constructor(private readonly deps: OutboundDeps) {}

  refusal(organizationId: string, mode: Mode): 'no_trunk' | 'shutting_down' | 'full' | null {
    if (this.deps.isDraining()) return 'shutting_down';
    const { used, quarantined, total } = this.deps.media.load().ports;
    if (used + quarantined >= total) return 'full';
    return this.deps.hasCarrier(organizationId, mode) ? null : 'no_trunk';
  }

  start(wish: OutboundCall): void {
    void placeOutboundCall(wish, this.deps);
  }
}

/** The whole story of one outbound call. Steps only go down; whatever ends the call, `finally` closes everything once. */
async function placeOutboundCall(wish: OutboundCall, deps: OutboundDeps): Promise<void> {
  const call = new Call(deps.records, wish.begun, 'outbound');
  deps.live.add(call);
  const sipCallId = randomUUID();
  const limits = { ...deps.steering.limits, maxCallMs: wish.maxDurationMs };
  const rules = { ...deps.steering, limits };
  const ringing = new RingingLine(call, wish, { ...deps, steering: rules });
  let leg: CallLeg | null = null;
  let agent: CallParts['agent'] = null;
  const steps = stepsOf(call, wish, deps);
  steps?.tell('initiated');
  for (const message of wish.warnings ?? []) call.event('webhook.warning', { endpoint_id: wish.endpointId, message });
  try {
    if (deps.maxCalls !== null && deps.live.count > deps.maxCalls)
      throw new CallEnded({ cause: 'overload', source: 'system', detail: 'The server carries all the calls it may.' });
    const carriers = await deps.carriers(wish.organizationId, wish.mode);
    call.check();
    call.event('call.routed', { endpoint_id: wish.endpointId, trunks: carriers.map((carrier) => carrier.name) });
    const { toNumber: to, fromNumber: from, ringTimeoutMs } = wish;
    const { offerFor } = ringing;
    let isRinging = false;
    const onProgress: typeof ringing.onProgress = (progress) => {
      ringing.onProgress(progress);
      if (progress.status === 180 && !isRinging) steps?.tell('ringing');
      isRinging ||= progress.status === 180;
    };
    leg = await dialCarriers(call, { sipCallId, to, from, ringTimeoutMs, offerFor, onProgress }, carriers, deps.dial);
    watchLeg(leg, call, 'callee');
    call.check();
    call.pickedUp(leg.answeredAtMs);
    await call.orEnd(leg.confirmed);
    const line = await ringing.answered(leg);
    call.phones.set(leg, { session: line.session, organizationId: wish.organizationId });
    call.elsewhere = new Elsewhere({
      dialling: rules.dialling,
      line: () => line,
      endpointId: wish.endpointId,
    });
    const answeredBy = detectMachine(call, line.session, wish);
    void answeredBy.then(
      call.guarded((found) => {
        if (found !== null) tellAnsweredBy(call, wish, deps, found);
      }),
    );
    let isTold = false;
    const tellAnswered = () => {
      if (isTold) return;
      isTold = true;
      call.answer(); // whoever answered is on the line, agent or not
      steps?.tell('answered');
    };
    if (wish.waitsForMachine) {
      tellAnswered();
      ringing.answeredBy = await call.orEnd(answeredBy);
    }
    let taken: TakenUp;
    try {
      taken = await call.orEnd(ringing.takenUp());
    } finally {
      tellAnswered();
    }
    if (taken.kind === 'steered') return await steer(line, taken.endpoint, taken.actions, rules);
    if (taken.kind === 'bridged') {
      agent = taken.far;
      return await taken.far.talk(leg, limits);
    }
    ({ agent } = taken);
    await converse(call, leg, line.session, taken.agent, limits);
  } catch (error) {
    await deps.steering.limits.apology.end(call, ringing.session, endingOf(error, call, 'callee', deps.log));
  } finally {
    await closeCall(call, { session: ringing.session, agent, leg, sipCallId }, deps);
    steps?.tell('completed');
  }
}

/** Sent to whoever wants to know who answered. */
function tellAnsweredBy(call: Call, wish: OutboundCall, deps: OutboundDeps, found: AnsweredBy): void {
  const endpoint = deps.lookup.getForCall(wish.endpointId);
  if (!wish.machineStatus || endpoint === undefined) return;
  const { http, notices } = deps.steering;
  const facts = { ...partiesOf(call, wish), answered: true, ended: call.ending !== null };
  const webhook = new Webhook(endpoint, http, call.cookies);
  notices.send(call.id, webhook.form(wish.machineStatus, facts, answeredByFields(found)));
}

function partiesOf(call: Call, { organizationId, fromNumber: from, toNumber: to }: OutboundCall) {
  return { callId: call.id, organizationId, from, fromName: null, to, direction: 'outbound' as const };
}

function stepsOf(call: Call, wish: OutboundCall, deps: OutboundDeps): CallSteps | null {
  const { status } = wish;
  const endpoint = deps.lookup.getForCall(wish.endpointId);
  if (!status || endpoint === undefined) return null;
  const { http, notices } = deps.steering;
  const webhook = new Webhook(endpoint, http, call.cookies);
  const facts = partiesOf(call, wish);
  return new CallSteps(call, facts, (step, fields) => {
    if (status.events.includes(step))
      notices.send(call.id, webhook.form(status.to, { ...facts, answered: false, ended: false }, fields));
  });
}

/** Our end of a call that is not answered yet: the media of the gateway that is tried now, and the agent that gets ready meanwhile. */
class RingingLine {
  /** Who answered, when the webhook waits for it. */
  answeredBy: AnsweredBy | null = null;
  session: MediaSession | null = null;
  #early: EarlyMedia | null = null;
  #leg: CallLeg | null = null;
  #taken: Promise<TakenUp> | null = null;
  readonly #endpoints: Endpoint[];

  constructor(
    private readonly call: Call,
    private readonly wish: OutboundCall,
    private readonly deps: OutboundDeps,
  ) {
    this.#endpoints = endpointsOf(wish.endpointId, deps.lookup);
  }

  /** Each gateway gets media of its own: nothing that an earlier one said or heard is left in it. */
  readonly offerFor = async (localAddress: string, media: TrunkMedia): Promise<string> => {
    const { call, deps } = this;
    const old = this.session;
    this.session = null;
    this.#taken = null;
    await old?.close();
    call.check();
    const policy = { ...deps.policy, ...media };
    const session = await deps.media.open({ group: call.id, offer: null, policy, localAddress, role: 'callee' });
    this.session = session;
    this.#early = new EarlyMedia(session, () => call.earlyMedia());
    watchSession(session, call, () => this.session === session);
    call.check();
    return session.offer();
  };

  readonly onProgress: NonNullable<DialRequest['onProgress']> = ({ status, sdp }) => {
    if (status < 180 || this.call.ending !== null) return;
    if (status === 180) this.call.ringing();
    if (sdp !== undefined) this.#early?.answered(sdp);
    // An agent gets ready while it rings; a webhook is asked, and an agent behind SIP is called, when somebody answers.
    const [first] = this.#endpoints;
    if (first?.type === 'agent' && !isSipTarget(first)) this.takenUp().catch(() => {}); // the call has ended then
  };

  async answered(leg: CallLeg): Promise<CallParty> {
    if (this.session === null) throw new CallEnded({ cause: 'unspecified', source: 'system' });
    this.#leg = leg;
    const { address } = leg.snapshot().peer;
    await this.call.orEnd(this.session.accept(leg.remoteSdp, { provisional: false, signalledFrom: address }));
    return this.#line(this.session);
  }

  /** Who talks, connected and silent. A call whose endpoint cannot be reached has ended, ringing or not. */
  takenUp(): Promise<TakenUp> {
    this.#taken ??= this.#takeUp(this.session);
    return this.#taken;
  }

  async #takeUp(session: MediaSession | null): Promise<TakenUp> {
    const { call, deps } = this;
    try {
      if (session === null) throw new CallEnded({ cause: 'unspecified', source: 'system' });
      return await this.#whoTalks(this.#line(session));
    } catch (error) {
      if (this.session === session) call.end(endingOf(error, call, 'callee', deps.log));
      throw error;
    }
  }

  async #whoTalks(line: CallParty): Promise<TakenUp> {
    const { wish, deps } = this;
    const [endpoint] = this.#endpoints;
    if (wish.instructions === undefined || endpoint === undefined) return takeUp(line, this.#endpoints, deps.steering);
    if ('actions' in wish.instructions) return { kind: 'steered', endpoint, actions: wish.instructions.actions };
    try {
      const actions = await firstInstructions(line, endpoint, deps.steering, wish.instructions.next);
      return { kind: 'steered', endpoint, actions };
    } catch (error) {
      this.call.check();
      throw failedTakeUp(error);
    }
  }

  #line(session: MediaSession): CallParty {
    const { call, wish } = this;
    const leg = () => this.#leg;
    const answeredBy = () => this.answeredBy;
    return {
      call,
      session,
      facts: {
        ...partiesOf(call, wish),
        custom: asTexts(wish.metadata),
        get answeredBy() {
          return answeredBy();
        },
      },
      mode: wish.mode,
      headers: {},
      get leg() {
        return leg();
      },
      answer: async () => {
        const answered = leg();
        if (answered === null) throw new CallEnded({ cause: 'unspecified', source: 'system' });
        return answered;
      },
    };
  }
}

/** Start messages carry texts: what is none is written as JSON. */
function asTexts(metadata: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(metadata).map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  );
}

/** The endpoint that was asked for and its fallback. */
function endpointsOf(id: string, lookup: Pick<RouteLookup, 'getForCall'>): Endpoint[] {
  const endpoint = lookup.getForCall(id);
  const fallback = endpoint?.fallbackEndpointId ? lookup.getForCall(endpoint.fallbackEndpointId) : undefined;
  return [endpoint, fallback].filter((found) => found !== undefined && found.status === 'active') as Endpoint[];
}
