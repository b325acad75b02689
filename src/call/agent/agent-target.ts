import { AgentFailure, type AgentTarget, type Plain } from '../../../media/agents/agent.js';
import { agentConfigProblem, agentSchemes } from '../../../media/agents/check.js';
import { renderVariables } from '../../../media/agents/variables.js';
import type { EndpointForCall as Endpoint } from '../../store/routing/endpoints.js';
import type { PartyFacts } from '../core/party-facts.js';

export interface AgentTargetRules {
  allowPrivateTargets: boolean;
  /** Frames of caller audio for endpoints that do not set it; default 20. */
  frameMs?: 20 | 40;
  /** Protocols this build can speak. */
  protocols: ReadonlySet<string>;
  /** Host names of built-in agents → the address they listen on now. */
  builtInAgents: ReadonlyMap<string, URL>;
  /** Headers of the WebSocket's upgrade request that say which trace it belongs to; absent: no traces are made. */
  traceHeaders?(callId: string): Record<string, string>;
}

/** A named provider sends something within this time; stream protocols may be silent without limit. */
const firstAudioTimeoutSec = 10;

/** The values of the endpoint's `variables` for this call. */
export function variablesOf(
  { providerConfig }: Pick<Endpoint, 'providerConfig'>,
  facts: PartyFacts,
): Record<string, string> {
  const { callId, from, to, direction, fromName, custom = {}, metadata = custom, headers = {} } = facts;
  const templates = (providerConfig.variables ?? {}) as Record<string, string>;
  return renderVariables(templates, { callId, from, to, direction, fromName, metadata, headers });
}

/** Why a configuration with the fields of this call would be refused; null when it would not. */
export function refusedConfig(endpoint: Endpoint, { config }: { config: object }): string | null {
  const { provider, providerConfig } = endpoint;
  const protocol = provider === 'custom' ? String(providerConfig.protocol ?? 'twilio') : (provider ?? '');
  return agentConfigProblem(protocol, { ...providerConfig, ...config })?.message ?? null;
}

/** Where and how the media side reaches the agent of an endpoint. Throws `AgentFailure` for one that this version cannot reach. */
export function agentTarget(
  endpoint: Endpoint,
  call: AgentTarget['call'],
  rules: AgentTargetRules,
  connectTimeoutMs: number,
): AgentTarget {
  const config = endpoint.providerConfig;
  const named = endpoint.provider !== 'custom';
  const protocol = named ? (endpoint.provider ?? endpoint.type) : String(config.protocol ?? 'twilio');
  const scheme = /^([a-z]+):/i.exec(endpoint.target)?.[1]?.toLowerCase() ?? '';
  if (endpoint.type !== 'agent' || !agentSchemes(protocol).includes(scheme) || !rules.protocols.has(protocol))
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
  const limitSec =
    typeof config.first_audio_timeout_s === 'number' ? config.first_audio_timeout_s : named ? firstAudioTimeoutSec : 0;
  return {
    protocol,
    url: url.href,
    config: config as Plain, // it was JSON
    call,
    ...(rules.traceHeaders && { headers: rules.traceHeaders(call.callId) }),
    connectTimeoutMs,
    firstAudioTimeoutMs: limitSec * 1000,
    frameMs: config.frame_ms === 20 || config.frame_ms === 40 ? config.frame_ms : rules.frameMs,
    ...(typeof config.jitter_buffer_ms === 'number' && { jitterBufferMs: config.jitter_buffer_ms }),
    ...(config.remove_echo === true && { removeEcho: true }),
    allowPrivateAddress: rules.allowPrivateTargets || builtIn !== undefined,
    ...(endpoint.record && { recorded: true }),
  };
}
