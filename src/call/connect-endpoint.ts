import type { EndpointForCall as Endpoint } from '../store/routing/endpoints.js';
import type { Action, FollowUp } from '../webhook/actions.js';
import { WebhookFailure } from '../webhook/webhook-client.js';
import { AgentConversation } from './agent/conversation.js';
import { connectAgent } from './agent/failover-agent.js';
import { isSipTarget, SipAgent } from './agent/sip-agent.js';
import { CallEnded } from './core/outcome.js';
import type { CallParty } from './party/party.js';
import type { ScriptDeps } from './script/context.js';
import { Script } from './script/runner.js';

/** An endpoint that is ready for the call. */
export interface ReadyEndpoint {
  /** Answers the call, unless a script does that later, and serves it until it ends. */
  run(): Promise<void>;
}

/** What a webhook endpoint is to do first; absent: its own address is asked. */
export type FirstActions = { actions: Action[] } | { next: FollowUp };

/**
 * The first endpoint that can take the call, in their order: an agent that is ready, an agent behind SIP that answered, or a webhook that
 * answered with actions. An agent takes the agents right behind it along, to fail over to them later. Rejects with `CallEnded`, for the
 * reason of the last endpoint. `first`: only the first endpoint counts, and it is a webhook.
 */
export async function connectEndpoint(
  party: CallParty,
  endpoints: readonly Endpoint[],
  deps: ScriptDeps,
  first?: FirstActions,
): Promise<ReadyEndpoint> {
  const { call, session } = party;
  if (first !== undefined) endpoints = endpoints.slice(0, 1);
  // One endpoint's wish counts for the whole call, whichever of them takes it.
  if (endpoints.some(({ providerConfig }) => providerConfig.redact_dtmf === true)) call.redaction.redactEveryKey();
  let failed: { endpoint: Endpoint; ending: CallEnded } | null = null;
  for (let at = 0; at < endpoints.length; ) {
    const endpoint = endpoints[at] as Endpoint;
    if (failed !== null)
      call.event('agent.failover', { from_endpoint_id: failed.endpoint.id, to_endpoint_id: endpoint.id });
    const upTo = !isSocketAgent(endpoint) ? at + 1 : agentsUntil(endpoints, at);
    try {
      if (endpoint.type === 'webhook' || first !== undefined) return await Script.ask(party, endpoint, deps, first);
      if (isSipTarget(endpoint)) return await SipAgent.dial(party, endpoint, deps);
      const agent = await connectAgent(party, party.facts, endpoints.slice(at, upTo), deps.agents);
      if (party.session !== session) throw new CallEnded({ cause: 'unspecified', source: 'system' }); // another gateway
      const conversation = new AgentConversation(party, agent, deps.limits);
      await party.control.connect(conversation);
      return conversation;
    } catch (error) {
      call.check();
      failed = { endpoint: endpoints[upTo - 1] ?? endpoint, ending: failedToConnect(error) };
    }
    at = upTo;
  }
  throw failed?.ending ?? new CallEnded({ cause: 'no_endpoint', source: 'system' });
}

function isSocketAgent(endpoint: Endpoint): boolean {
  return endpoint.type === 'agent' && !isSipTarget(endpoint);
}

function agentsUntil(endpoints: readonly Endpoint[], from: number): number {
  const next = endpoints.findIndex((endpoint, index) => index > from && !isSocketAgent(endpoint));
  return next < 0 ? endpoints.length : next;
}

/** The ending of a call whose endpoint cannot take it; other errors are thrown on. */
function failedToConnect(error: unknown): CallEnded {
  if (error instanceof WebhookFailure)
    return new CallEnded({ cause: 'webhook_error', source: 'system', detail: error.message });
  if (error instanceof CallEnded) return error;
  throw error;
}
