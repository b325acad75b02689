/**
 * The request before an agent is connected: the customer's server answers with variables, instructions, greeting, voice or language for
 * this call. The caller waits meanwhile, so that the answer has one second; without one the agent is connected as it is configured.
 */
import { uuidv7 } from 'uuidv7';
import { asValue, isVariableName, MAX_VARIABLES } from '../../../media/agents/variables.js';
import { HttpError, type SafeHttp } from '../../../net/http.js';
import type { EndpointForCall as Endpoint } from '../../store/routing/endpoints.js';
import { standardHeaders } from '../../webhook/signature.js';
import type { PartyFacts } from '../core/party-facts.js';

const limitMs = 1000;
const maxBodyBytes = 64 * 1024;
/** The fields of an answer that replace those of `provider_config`, with their longest text. */
const replaceable = { instructions: 50_000, greeting: 10_000, voice: 256, language: 64 } as const;

/** What an answer sets. */
export interface PreConnected {
  variables: Record<string, string>;
  /** Fields of `provider_config` for this call. */
  config: Partial<Record<keyof typeof replaceable, string>>;
}

/** Why an answer was not used, as a sentence without its content. */
export class PreConnectFailure extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'PreConnectFailure';
  }
}

/** Asks the endpoint's `pre_connect_url`; null without one. Rejects with `PreConnectFailure`. */
export async function preConnect(
  endpoint: Pick<Endpoint, 'id' | 'organizationId' | 'providerConfig'>,
  facts: PartyFacts,
  http: SafeHttp,
  signal: AbortSignal,
): Promise<PreConnected | null> {
  const { pre_connect_url: url, pre_connect_secret: secret } = endpoint.providerConfig;
  if (typeof url !== 'string') return null;
  const id = uuidv7();
  const now = Date.now();
  const body = JSON.stringify({
    id,
    type: 'agent.connecting',
    created_at: new Date(now).toISOString(),
    organization_id: endpoint.organizationId,
    call_id: facts.callId,
    data: {
      endpoint_id: endpoint.id,
      from_number: facts.from,
      from_name: facts.fromName,
      to_number: facts.to,
      direction: facts.direction,
      metadata: facts.metadata ?? facts.custom ?? {},
      headers: Object.fromEntries(Object.entries(facts.headers ?? {}).filter(([name]) => name.startsWith('x-'))),
    },
  });
  const signed = typeof secret === 'string' ? standardHeaders([secret], id, now, body) : {};
  const headers = { 'Content-Type': 'application/json', Accept: 'application/json', ...signed };
  const asked = http.request(
    {
      url,
      method: 'POST',
      headers,
      body,
      timeoutMs: limitMs,
      maxBodyBytes,
      trace: { callId: facts.callId, name: 'pre-connect' },
    },
    signal,
  );
  const answer = await asked.catch((error: unknown) => {
    if (!(error instanceof HttpError)) throw error;
    throw new PreConnectFailure(
      error.code === 'timeout'
        ? `pre_connect_url did not answer within ${limitMs / 1000} s.`
        : `pre_connect_url could not be used (${error.code}).`,
    );
  });
  if (answer.status < 200 || answer.status > 299)
    throw new PreConnectFailure(`pre_connect_url answered with status ${answer.status}.`);
  return answer.body.length === 0 ? { variables: {}, config: {} } : readAnswer(answer.body.toString());
}

/** Other fields of the answer are ignored; null counts as absent. Throws `PreConnectFailure`. */
export function readAnswer(text: string): PreConnected {
  const answer = objectIn(text);
  if (answer === null) throw new PreConnectFailure('pre_connect_url answered with something other than a JSON object.');
  const config: PreConnected['config'] = {};
  for (const [field, maxChars] of Object.entries(replaceable) as [keyof typeof replaceable, number][]) {
    const value = answer[field];
    if (value === undefined || value === null) continue;
    // An empty greeting lets the caller speak first; an empty voice or language means nothing.
    const least = field === 'instructions' || field === 'greeting' ? 0 : 1;
    if (typeof value !== 'string' || value.length < least || value.length > maxChars)
      throw new PreConnectFailure(
        `${field} in the answer of pre_connect_url must be text of at most ${maxChars} characters.`,
      );
    config[field] = value;
  }
  return { variables: readVariables(answer.variables ?? {}), config };
}

function readVariables(raw: unknown): Record<string, string> {
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw))
    throw new PreConnectFailure('variables in the answer of pre_connect_url must be an object.');
  const entries = Object.entries(raw);
  if (entries.length > MAX_VARIABLES)
    throw new PreConnectFailure(`variables in the answer of pre_connect_url must be at most ${MAX_VARIABLES}.`);
  return Object.fromEntries(
    entries.map(([name, value]) => {
      if (!isVariableName(name) || !['string', 'number', 'boolean'].includes(typeof value))
        throw new PreConnectFailure(
          'variables in the answer of pre_connect_url must have names of letters, digits and _, and values that are text, numbers or booleans.',
        );
      return [name, asValue(String(value))];
    }),
  );
}

function objectIn(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}
