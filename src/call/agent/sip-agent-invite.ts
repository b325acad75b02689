/** The INVITE to a provider's SIP address: its user part, the request before it, and the headers that identify the call. */
import { AgentFailure } from '../../../media/agents/agent.js';
import type { SipCallFacts, SipConfig, SipIngress } from '../../../media/agents/descriptor.js';
import { agentProviders } from '../../../media/agents/providers/registry.js';
import { HttpError, type SafeHttp } from '../../../net/http.js';
import type { EndpointForCall as Endpoint } from '../../store/routing/endpoints.js';
import type { PartyFacts } from '../core/party-facts.js';
import { variablesOf } from './agent-target.js';

/** An endpoint behind a `sip:` target. */
type SipEndpoint = Pick<Endpoint, 'target' | 'provider' | 'providerConfig'>;

const ingressOf = (provider: string | null): SipIngress | undefined => agentProviders.get(provider ?? '')?.sip;

const requestLimitMs = 10_000;
const maxAnswerBytes = 256 * 1024;
/** A user part that needs no escaping, such as call ids and agent ids. */
const plainUser = /^[\w.+-]{1,256}$/;

/** Whether calls reach the provider only at its SIP address, because it has no WebSocket for audio. */
export function reachedBySipOnly(provider: string): boolean {
  return ingressOf(provider)?.knownTarget !== undefined;
}

/** The SIP address of a provider that has one for all its accounts. */
export function knownSipTarget(provider: string): string | undefined {
  return ingressOf(provider)?.knownTarget;
}

/** The setting that a `sip:` target needs and lacks; null: none. */
export function sipConfigProblem(
  provider: string,
  target: string,
  config: SipConfig,
): { field: string; message: string } | null {
  if (userOf(target) !== '') return null;
  const field = ingressOf(provider)?.needs?.find((name) => typeof config[name] !== 'string');
  if (field !== undefined) return { field, message: `is required for a target without a user part` };
  const named = ingressOf(provider)?.user?.(config);
  if (named === undefined || plainUser.test(named)) return null;
  return { field: ingressOf(provider)?.needs?.[0] ?? 'target', message: 'cannot be a user part of a SIP address' };
}

export interface SipInvite {
  uri: string;
  headers: Record<string, string>;
}

/**
 * Where the INVITE goes, and the provider's own headers. A target without a user part gets the provider's, else the called number. Rejects
 * with `AgentFailure` when the provider refuses the call before it begins.
 */
export async function sipInvite(
  { target, provider, providerConfig: config }: SipEndpoint,
  call: PartyFacts,
  http: SafeHttp,
  signal: AbortSignal,
): Promise<SipInvite> {
  const known = ingressOf(provider);
  const headers = known?.headers?.(call) ?? {};
  if (userOf(target) !== '') return { uri: target, headers };
  const user =
    known?.user?.(config) ??
    (await register(known, config, { ...call, variables: someVariables(config, call) }, http, signal)) ??
    call.to;
  if (!plainUser.test(user)) throw new AgentFailure('protocol', 'The provider named no user who can be called.', false);
  return { uri: target.replace(/^(sips?:)/i, `$1${user}@`), headers };
}

function someVariables(config: SipEndpoint['providerConfig'], call: PartyFacts) {
  return config.variables === undefined ? undefined : variablesOf({ providerConfig: config }, call);
}

async function register(
  known: SipIngress | undefined,
  config: SipConfig,
  call: SipCallFacts,
  http: SafeHttp,
  signal: AbortSignal,
): Promise<string | null> {
  const request = known?.register?.(config, call);
  if (request === undefined) return null;
  const limits = { timeoutMs: requestLimitMs, maxBodyBytes: maxAnswerBytes };
  const { status, body } = await http.request({ ...request, ...limits, method: 'POST' }, signal).catch(unreachable);
  if (status < 200 || status > 299) {
    const isForbidden = status === 401 || status === 403;
    const message = `The provider answered the request for a call with status ${status}.`;
    throw new AgentFailure(isForbidden ? 'unauthorized' : 'refused', message, !isForbidden && status >= 429);
  }
  const user = known?.registered?.(readJson(body.toString()));
  return typeof user === 'string' ? user : '';
}

/** The message contains neither URL nor body, because both may hold secrets. */
function unreachable(error: unknown): never {
  if (!(error instanceof HttpError)) throw error;
  if (error.code === 'blocked_address')
    throw new AgentFailure('blocked_address', "The provider's address is private, loopback or link-local.", false);
  throw new AgentFailure(error.code === 'timeout' ? 'timeout' : 'refused', 'The provider could not be reached.', true);
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function userOf(target: string): string {
  return /^sips?:([^@;?]*)@/i.exec(target)?.[1] ?? '';
}
