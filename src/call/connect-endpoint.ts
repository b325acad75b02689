import type { EndpointForCall as Endpoint } from '../store/routing/endpoints.js';
import type { Action } from '../webhook/actions.js';
import { WebhookFailure } from '../webhook/webhook-client.js';
import { connectAgent, type FailoverAgent } from './agent/failover-agent.js';
import { BridgedAgent, isSipTarget } from './agent/sip-agent.js';
import { CallEnded } from './core/outcome.js';
import type { CallParty } from './core/party.js';
import type { ScriptDeps } from './script/context.js';
import { firstInstructions } from './script/runner.js';

/** Who takes the call: an agent that is ready, one at the end of a SIP leg that answered, or a webhook that has said what to do. */
export type TakenUp =
  | { kind: 'agent'; agent: FailoverAgent }
  | { kind: 'bridged'; far: BridgedAgent }
  | { kind: 'steered'; endpoint: Endpoint; actions: Action[] };

/**
 * The first endpoint that can take the call, agents and webhooks alike; one after the other in their order. An agent takes the agents
 * right behind it along, to fail over to them later. Rejects with `CallEnded`, for the reason of the last one.
 */
export async function takeUp(line: CallParty, endpoints: readonly Endpoint[], rules: ScriptDeps): Promise<TakenUp> {
  const { call } = line;
  let failed: { endpoint: Endpoint; ending: CallEnded } | null = null;
  for (let at = 0; at < endpoints.length; ) {
    const endpoint = endpoints[at] as Endpoint;
    if (failed !== null)
      call.event('agent.failover', { from_endpoint_id: failed.endpoint.id, to_endpoint_id: endpoint.id });
    const upTo = !isSocketAgent(endpoint) ? at + 1 : agentsUntil(endpoints, at);
    try {
      if (endpoint.type === 'webhook')
        return { kind: 'steered', endpoint, actions: await firstInstructions(line, endpoint, rules) };
      if (isSipTarget(endpoint))
        return {
          kind: 'bridged',
          far: await BridgedAgent.dial(line, endpoint, { ...rules.bridging, http: rules.http }, rules.agents),
        };
      const agent = await connectAgent(call, line.facts, endpoints.slice(at, upTo), line.session, rules.agents);
      return { kind: 'agent', agent };
    } catch (error) {
      call.check();
      failed = { endpoint: endpoints[upTo - 1] ?? endpoint, ending: failedTakeUp(error) };
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

/** Why somebody could not take a call, as its ending; other errors are thrown on. */
export function failedTakeUp(error: unknown): CallEnded {
  if (error instanceof WebhookFailure)
    return new CallEnded({ cause: 'webhook_error', source: 'system', detail: error.message });
  if (error instanceof CallEnded) return error;
  throw error;
}
