import { agentSchemes, knownAgentUrl } from '../../../media/agents/check.js';
import { knownSipTarget, reachedBySipOnly } from '../../call/agent/sip-agent-invite.js';
import type { Endpoint, EndpointChange, NewEndpoint } from '../../store/routing/endpoints.js';
import { masksIn, type StoredProviderConfig } from '../../store/tenants/secrets.js';
import { type FieldError, invalid } from '../errors.js';
import { configProblems, type EndpointRules } from './provider-config.js';
import { targetProblem } from './targets.js';

/** Rules that schemas cannot express: the target and configuration that fit the type and provider of an endpoint. */
export interface EndpointInput {
  name: string;
  type: 'agent' | 'webhook';
  target?: string;
  provider?: string;
  provider_config?: StoredProviderConfig;
  record?: boolean;
  status?: 'active' | 'inactive';
  fallback_endpoint_id?: string | null;
}

/** What the target of this endpoint may be. */
function targetSchemes(provider: string | null, config: StoredProviderConfig | undefined): readonly string[] {
  if (provider === null) return ['http', 'https'];
  return [...agentSchemes(provider === 'custom' ? String(config?.protocol ?? 'twilio') : provider), 'sip', 'sips'];
}

/** Throws 400 with every problem found. */
export function newEndpoint(input: EndpointInput, rules: EndpointRules): NewEndpoint {
  const provider = input.type === 'agent' ? (input.provider ?? 'custom') : null;
  const target =
    input.target ??
    (provider ? (knownAgentUrl(provider, input.provider_config) ?? knownSipTarget(provider)) : undefined);
  const config = input.provider_config;
  const problems: FieldError[] = [];
  if (input.type === 'webhook' && input.provider !== undefined) {
    problems.push({ path: 'provider', message: 'is allowed for agents only' });
  }
  if (target === undefined) problems.push({ path: 'target', message: 'is required' });
  else problems.push(...targetProblems(provider, target, config, rules.allowPrivate));
  if (config === undefined && input.type === 'agent') {
    problems.push({ path: 'provider_config', message: 'is required for agents' });
  }
  if (config) {
    problems.push(...configProblems(provider ?? 'webhook', config, rules, target));
    const masks = masksIn(config);
    problems.push(...masks.map((path) => ({ path: `provider_config.${path}`, message: 'is the mask, not a secret' })));
  }
  if (problems.length > 0 || target === undefined) throw invalid(...problems);
  return {
    name: input.name,
    type: input.type,
    target,
    provider,
    providerConfig: config ?? {},
    record: input.record,
    status: input.status,
    fallbackEndpointId: input.fallback_endpoint_id,
  };
}

/** The change of a PATCH. Throws 400 with every problem found; unchanged fields are not validated again. */
export function endpointChange(
  endpoint: Endpoint,
  input: Partial<Omit<EndpointInput, 'type' | 'provider'>>,
  rules: EndpointRules,
): EndpointChange {
  const problems: FieldError[] = [];
  const config =
    input.provider_config && (mergePatch(endpoint.providerConfig, input.provider_config) as StoredProviderConfig);
  if (input.target !== undefined)
    problems.push(
      ...targetProblems(endpoint.provider, input.target, config ?? endpoint.providerConfig, rules.allowPrivate),
    );
  else if (config !== undefined && !fits(endpoint.target, targetSchemes(endpoint.provider, config)))
    problems.push({ path: 'provider_config.protocol', message: 'does not fit the scheme of the target' });
  if (input.fallback_endpoint_id === endpoint.id) {
    problems.push({ path: 'fallback_endpoint_id', message: 'must be another endpoint' });
  }
  let providerConfig: StoredProviderConfig | undefined;
  if (config) {
    // Secrets are masked on both sides; the store restores the stored ones.
    providerConfig = config;
    problems.push(
      ...configProblems(endpoint.provider ?? 'webhook', providerConfig, rules, input.target ?? endpoint.target),
    );
    const stored = new Set(masksIn(endpoint.providerConfig));
    const empty = masksIn(providerConfig).filter((path) => !stored.has(path));
    problems.push(
      ...empty.map((path) => ({ path: `provider_config.${path}`, message: 'is the mask, but no secret is stored' })),
    );
  }
  if (problems.length > 0) throw invalid(...problems);
  return {
    name: input.name,
    target: input.target,
    providerConfig,
    record: input.record,
    status: input.status,
    fallbackEndpointId: input.fallback_endpoint_id,
  };
}

function fits(target: string, schemes: readonly string[]): boolean {
  return schemes.includes(/^([a-z]+):/i.exec(target)?.[1]?.toLowerCase() ?? '');
}

function targetProblems(
  provider: string | null,
  target: string,
  config: StoredProviderConfig | undefined,
  allowPrivate: boolean,
): FieldError[] {
  if (provider !== null && reachedBySipOnly(provider) && /^wss?:/i.test(target)) {
    const message = `must be a sip: or sips: address; ${provider} has no audio WebSocket, and without a target its own SIP address is used`;
    return [{ path: 'target', message }];
  }
  const credentialsGo =
    provider === null
      ? 'requests are signed with the webhook_secret instead'
      : /^sips?:/i.test(target)
        ? 'set sip_username and sip_password in provider_config instead'
        : 'set Authorization in provider_config.headers instead';
  const message = targetProblem(target, { schemes: targetSchemes(provider, config), allowPrivate, credentialsGo });
  return message === null ? [] : [{ path: 'target', message }];
}

/** RFC 7396: null removes, objects merge, everything else replaces. */
function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const merged: Record<string, unknown> = isObject(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name];
    else merged[name] = mergePatch(merged[name], value);
  }
  return merged;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
