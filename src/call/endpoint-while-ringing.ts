import type { Logger } from '../log.js';
import type { EndpointForCall as Endpoint } from '../store/routing/endpoints.js';
import { isSipTarget } from './agent/sip-agent.js';
import { connectEndpoint, type FirstActions, type ReadyEndpoint } from './connect-endpoint.js';
import { endingOf } from './core/error-to-ending.js';
import type { CalledParty } from './party/called.js';
import type { RouteLookup } from './routing/router.js';
import type { ScriptDeps } from './script/context.js';

/**
 * The endpoint of an outbound call. An agent gets ready while the callee's phone rings, and again for each gateway, whose media it needs;
 * a webhook is asked, and an agent behind SIP is called, after the answer.
 */
export class EndpointWhileRinging {
  #ready: Promise<ReadyEndpoint> | null = null;
  /** Counts the gateways that were tried. */
  #gateway = 0;
  readonly #endpoints: Endpoint[];

  constructor(
    private readonly callee: CalledParty,
    endpointId: string,
    lookup: Pick<RouteLookup, 'getForCall'>,
    private readonly deps: ScriptDeps,
    private readonly log: Logger,
    private readonly first?: FirstActions,
  ) {
    this.#endpoints = withFallback(endpointId, lookup);
  }

  /** The callee's phone rings. */
  ringing(): void {
    const [first] = this.#endpoints;
    if (first?.type === 'agent' && !isSipTarget(first)) this.ready().catch(() => {}); // the call has ended then
  }

  /** Another gateway, and other media: the agent that got ready is gone with the media before. */
  nextGateway(): void {
    this.#gateway += 1;
    this.#ready = null;
  }

  /** What got ready does not know who answered: it is let go, and gets ready anew. */
  async again(): Promise<void> {
    const before = this.#ready;
    if (before === null) return;
    this.nextGateway();
    await before.catch(() => {}); // what is under way would take its place
    await this.callee.control.release('failed');
  }

  /** Resolves when the endpoint is connected, and silent. A call whose endpoint cannot be reached ends, ringing or not. */
  ready(): Promise<ReadyEndpoint> {
    this.#ready ??= this.#connect();
    return this.#ready;
  }

  async #connect(): Promise<ReadyEndpoint> {
    const { callee, deps, log, first } = this;
    const { call } = callee;
    const gateway = this.#gateway;
    try {
      return await connectEndpoint(callee, this.#endpoints, deps, first);
    } catch (error) {
      if (this.#gateway === gateway) call.end(endingOf(error, call, 'callee', log));
      throw error;
    }
  }
}

/** The endpoint that was asked for and its fallback, as far as they are active. */
function withFallback(id: string, lookup: Pick<RouteLookup, 'getForCall'>): Endpoint[] {
  const endpoint = lookup.getForCall(id);
  const fallback = endpoint?.fallbackEndpointId ? lookup.getForCall(endpoint.fallbackEndpointId) : undefined;
  return [endpoint, fallback].filter((found) => found !== undefined && found.status === 'active') as Endpoint[];
}
