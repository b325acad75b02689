import { randomUUID } from 'node:crypto';
import type { MediaEngine, MediaPolicy, MediaSession } from '../../media/engine.js';
import type { CallLeg, DialRequest, SipGateway } from '../../sip/leg.js';
import type { Calls } from '../store/calls.js';
import type { EndpointForCall as Endpoint } from '../store/endpoints.js';
import type { Mode } from '../store/scope.js';
import { Call } from './call.js';
import type { Carrier } from './carriers.js';
import { type CallClosing, closeCall, endingOf, watchLeg, watchSession } from './closing.js';
import { type AgentRules, type CallAgent, connectAgent } from './connect-agent.js';
import { type ConverseLimits, converse } from './converse.js';
import { dialCarriers } from './dial-carriers.js';
import type { OutboundCall, OutboundCalls } from './outbound-calls.js';
import { CallEnded } from './outcome.js';
import type { RouteLookup } from './router.js';

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
  agents: AgentRules;
  limits: Omit<ConverseLimits, 'maxCallMs'>;
}

export class OutboundDialler implements OutboundCalls {
  constructor(private readonly deps: OutboundDeps) {}

  refusal(organizationId: string, mode: Mode): 'no_trunk' | 'shutting_down' | null {
    if (this.deps.isDraining()) return 'shutting_down';
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
  const line = new RingingLine(call, wish, deps);
  let leg: CallLeg | null = null;
  let agent: CallAgent | null = null;
  try {
    if (deps.maxCalls !== null && deps.live.count > deps.maxCalls)
      throw new CallEnded({ cause: 'overload', source: 'system', detail: 'The server carries all the calls it may.' });
    const carriers = await deps.carriers(wish.organizationId, wish.mode);
    call.check();
    call.event('call.routed', { endpoint_id: wish.endpointId, trunks: carriers.map((carrier) => carrier.name) });
    const { toNumber: to, fromNumber: from, ringTimeoutMs } = wish;
    const { offerFor, onProgress } = line;
    leg = await dialCarriers(call, { sipCallId, to, from, ringTimeoutMs, offerFor, onProgress }, carriers, deps.dial);
    watchLeg(leg, call, 'callee');
    call.check();
    await call.orEnd(leg.confirmed);
    call.pickedUp();
    const session = await line.answered(leg.remoteSdp);
    try {
      agent = await call.orEnd(line.agent());
    } finally {
      call.answer(); // whoever answered is on the line, agent or not
    }
    await converse(call, leg, session, agent, { ...deps.limits, maxCallMs: wish.maxDurationMs });
  } catch (error) {
    call.end(endingOf(error, call, 'callee', deps.log));
  } finally {
    await closeCall(call, { session: line.session, agent, leg, sipCallId }, deps);
  }
}

/** Our end of a call that is not answered yet: the media of the gateway that is tried now, and the agent that gets ready meanwhile. */
class RingingLine {
  session: MediaSession | null = null;
  #agent: Promise<CallAgent> | null = null;

  constructor(
    private readonly call: Call,
    private readonly wish: OutboundCall,
    private readonly deps: OutboundDeps,
  ) {}

  /** Each gateway gets media of its own: nothing that an earlier one said or heard is left in it. */
  readonly offerFor = async (localAddress: string, codecs: MediaPolicy['codecs']): Promise<string> => {
    const { call, deps } = this;
    const old = this.session;
    this.session = null;
    this.#agent = null;
    await old?.close();
    call.check();
    const policy = { ...deps.policy, codecs };
    const session = await deps.media.open({ group: call.id, offer: null, policy, localAddress, role: 'callee' });
    this.session = session;
    watchSession(session, call, () => this.session === session);
    call.check();
    return session.offer();
  };

  readonly onProgress: NonNullable<DialRequest['onProgress']> = ({ status, sdp }) => {
    if (status < 180 || this.call.ending !== null) return;
    if (status === 180) this.call.ringing();
    if (sdp !== undefined) this.#earlyMedia(sdp);
    this.agent().catch(() => {}); // the call has ended then
  };

  #earlyMedia(sdp: string): void {
    this.call.earlyMedia();
    // An early answer that does not fit is no reason to give up: the final one decides.
    this.session?.accept(sdp, { provisional: true }).catch(() => {});
  }

  async answered(sdp: string): Promise<MediaSession> {
    if (this.session === null) throw new CallEnded({ cause: 'unspecified', source: 'system' });
    await this.call.orEnd(this.session.accept(sdp, { provisional: false }));
    return this.session;
  }

  /** Connected and silent. A call whose agent cannot be reached has ended, ringing or not. */
  agent(): Promise<CallAgent> {
    this.#agent ??= this.#connect(this.session);
    return this.#agent;
  }

  async #connect(session: MediaSession | null): Promise<CallAgent> {
    const { call, wish, deps } = this;
    try {
      if (session === null) throw new CallEnded({ cause: 'unspecified', source: 'system' });
      const facts = {
        callId: call.id,
        organizationId: wish.organizationId,
        from: wish.fromNumber,
        to: wish.toNumber,
        direction: 'outbound' as const,
      };
      const endpoints = endpointsOf(wish.endpointId, deps.lookup);
      return (await connectAgent(call, facts, endpoints, session, deps.agents)).agent;
    } catch (error) {
      if (this.session === session) call.end(endingOf(error, call, 'callee', deps.log));
      throw error;
    }
  }
}

/** The endpoint that was asked for and its fallback. */
function endpointsOf(id: string, lookup: Pick<RouteLookup, 'getForCall'>): Endpoint[] {
  const endpoint = lookup.getForCall(id);
  const fallback = endpoint?.fallbackEndpointId ? lookup.getForCall(endpoint.fallbackEndpointId) : undefined;
  return [endpoint, fallback].filter((found) => found !== undefined && found.status === 'active') as Endpoint[];
}
