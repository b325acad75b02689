import type { MediaEngine, MediaPolicy, MediaSession } from '../../media/engine.js';
import type { CallLeg, DialRequest } from '../../sip/leg.js';
import type { Logger } from '../log.js';
import type { EndpointForCall as Endpoint } from '../store/routing/endpoints.js';
import type { AnsweredBy } from '../webhook/twilio-parameters.js';
import { isSipTarget } from './agent/sip-agent.js';
import { failedTakeUp, type TakenUp, takeUp } from './connect-endpoint.js';
import type { Call } from './core/call.js';
import { endingOf } from './core/error-to-ending.js';
import type { OutboundCall } from './core/outbound-request.js';
import { CallEnded } from './core/outcome.js';
import type { CallParty } from './core/party.js';
import { watchSession } from './core/teardown.js';
import { EarlyMedia } from './dial/early-media.js';
import type { RouteLookup } from './routing/router.js';
import type { TrunkMedia } from './routing/trunk-selection.js';
import type { ScriptDeps } from './script/context.js';
import { firstInstructions } from './script/runner.js';

export interface RingingDeps {
  lookup: Pick<RouteLookup, 'getForCall'>;
  media: Pick<MediaEngine, 'open'>;
  policy: MediaPolicy;
  steering: ScriptDeps;
  log: Logger;
}

/** The far side of an outbound call until it answers: the media of the gateway that is tried now, and the agent that is connected meanwhile. */
export class RingingCallee {
  /** The result of machine detection, when the webhook waits for it. */
  answeredBy: AnsweredBy | null = null;
  session: MediaSession | null = null;
  #early: EarlyMedia | null = null;
  #leg: CallLeg | null = null;
  #taken: Promise<TakenUp> | null = null;
  readonly #endpoints: Endpoint[];

  constructor(
    private readonly call: Call,
    private readonly wish: OutboundCall,
    private readonly deps: RingingDeps,
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

  /** The endpoint, connected and silent. A call whose endpoint cannot be reached ends, ringing or not. */
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

export function partiesOf(call: Call, { organizationId, fromNumber: from, toNumber: to }: OutboundCall) {
  return { callId: call.id, organizationId, from, fromName: null, to, direction: 'outbound' as const };
}

/** Start messages carry texts; other values are written as JSON. */
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
