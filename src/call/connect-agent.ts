import { AgentFailure, type AgentTarget, type Plain } from '../../media/agents/agent.js';
import type { AgentLink, MediaSession } from '../../media/engine.js';
import type { EndpointForCall as Endpoint } from '../store/endpoints.js';
import type { Call } from './call.js';
import { CallEnded } from './outcome.js';

export interface AgentRules {
  /** Budget per endpoint, from connecting until ready. */
  connectTimeoutMs: number;
  allowPrivateTargets: boolean;
  /** Protocols this build can speak. */
  protocols: ReadonlySet<string>;
  /** Host names of built-in agents → the address they listen on now. */
  builtInAgents: ReadonlyMap<string, URL>;
}

/** The agent of the first endpoint that is ready within its budget; a refusal that may pass is tried once more. Rejects `agent_unreachable`. */
export async function connectAgent(
  call: Call,
  facts: Omit<AgentTarget['call'], 'custom'>,
  endpoints: readonly Endpoint[],
  session: MediaSession,
  rules: AgentRules,
): Promise<{ agent: AgentLink; endpoint: Endpoint }> {
  let failed: { endpoint: Endpoint; message: string } | null = null;
  for (const endpoint of endpoints) {
    if (failed !== null)
      call.event('agent.failover', { from_endpoint_id: failed.endpoint.id, to_endpoint_id: endpoint.id });
    const budget = AbortSignal.timeout(rules.connectTimeoutMs);
    const startedAtMs = performance.now();
    for (let attempt = 1; ; attempt += 1) {
      call.event('agent.connecting', {
        endpoint_id: endpoint.id,
        provider: endpoint.provider ?? endpoint.type,
        attempt,
      });
      try {
        const remainingMs = Math.max(1, rules.connectTimeoutMs - (performance.now() - startedAtMs));
        const target = agentTarget(endpoint, facts, rules, remainingMs);
        const agent = await session.prepareAgent(target, AbortSignal.any([call.signal, budget]));
        call.event('agent.connected', {
          endpoint_id: endpoint.id,
          provider: endpoint.provider ?? endpoint.type,
          attempt,
        });
        return { agent, endpoint };
      } catch (error) {
        if (call.ending !== null) throw new CallEnded(call.ending);
        const failure = error instanceof AgentFailure ? error : new AgentFailure('protocol', String(error), false);
        call.event('agent.failed', {
          endpoint_id: endpoint.id,
          reason: failure.reason,
          message: failure.message,
          attempt,
        });
        failed = { endpoint, message: failure.message };
        if (!failure.retryable || attempt === 2 || budget.aborted) break;
      }
    }
  }
  throw new CallEnded({
    cause: 'agent_unreachable',
    source: 'system',
    detail: failed?.message ?? 'The endpoint has no agent.',
  });
}

function agentTarget(
  endpoint: Endpoint,
  facts: Omit<AgentTarget['call'], 'custom'>,
  rules: AgentRules,
  connectTimeoutMs: number,
): AgentTarget {
  const config = endpoint.providerConfig;
  const protocol =
    endpoint.provider === 'custom' ? String(config.protocol ?? 'twilio') : (endpoint.provider ?? endpoint.type);
  if (endpoint.type !== 'agent' || !/^wss?:/i.test(endpoint.target) || !rules.protocols.has(protocol))
    throw new AgentFailure(
      'protocol',
      `This version cannot reach a ${endpoint.type} endpoint of "${protocol}" at this target.`,
      false,
    );
  const url = new URL(endpoint.target);
  const builtIn = rules.builtInAgents.get(url.hostname);
  if (builtIn !== undefined) {
    url.protocol = builtIn.protocol;
    url.host = builtIn.host;
  }
  return {
    protocol,
    url: url.href,
    config: config as Plain, // it came out of JSON
    call: { ...facts, custom: {} },
    connectTimeoutMs,
    firstAudioTimeoutMs: 0,
    allowPrivateAddress: rules.allowPrivateTargets || builtIn !== undefined,
  };
}
