import type { TSchema } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import { sipConfigProblem } from '../../call/agent/sip-agent-invite.js';
import type { StoredProviderConfig } from '../../store/tenants/secrets.js';
import type { FieldError } from '../errors.js';
import type { Provider } from '../schemas/endpoints.js';
import { patterns } from '../schemas/patterns.js';
import { body, oneOf, Type } from '../schemas/types.js';
import { fieldErrors } from '../validation.js';
import { type TargetRules, targetProblem } from './targets.js';

const text = (maxLength: number) => Type.String({ minLength: 1, maxLength });
const free = Type.Object({}, { additionalProperties: true });
const headers = Type.Record(
  Type.String({ pattern: patterns.httpHeader }),
  Type.String({ maxLength: 4096, pattern: patterns.asciiText }),
  { additionalProperties: false },
);

/** What the API needs to validate an endpoint. */
export interface EndpointRules {
  /** Whether literal private, loopback and link-local hosts are allowed. */
  allowPrivate: boolean;
  /** The problem that the agent's protocol finds in a configuration with valid names and types. */
  agentConfigProblem(protocol: string, config: StoredProviderConfig): { field: string; message: string } | null;
  /** The URL of a named provider, if it does not depend on the account. */
  knownAgentUrl(provider: string): string | undefined;
}

/** The fields that all providers accept. */
const common = {
  api_key: text(4096),
  model: text(256),
  voice: text(256),
  instructions: Type.String({ maxLength: 200_000 }),
  greeting: Type.String({ maxLength: 10_000 }),
  language: text(64),
  temperature: Type.Number({ minimum: 0, maximum: 2 }),
  tools: Type.Array(free, { maxItems: 128 }),
  base_url: text(2048),
  headers,
  sample_rate: Type.Unsafe<number>({ type: 'integer', enum: [8000, 16000, 24000, 48000] }),
  encoding: oneOf(['l16', 'ulaw', 'alaw']),
  /** The milliseconds of caller audio in one message. */
  frame_ms: Type.Unsafe<number>({ type: 'integer', enum: [20, 40] }),
  first_audio_timeout_s: Type.Number({ minimum: 0, maximum: 600 }),
  override: free,
  /** For the digest challenge of a SIP target. */
  sip_username: Type.String({ minLength: 1, maxLength: 128, pattern: patterns.token }),
  sip_password: text(256),
  /** Encryption of audio towards a SIP target. */
  srtp: oneOf(['off', 'allow', 'require']),
  /** Whether a REFER of the SIP target transfers the call. */
  allow_refer: Type.Boolean(),
};

const protocols = ['twilio', 'telnyx', 'plivo', 'vonage', 'raw'] as const;
/** The additional fields of each provider. */
const special: Record<Provider | 'webhook', Record<string, TSchema>> = {
  openai: { project_id: text(256) },
  elevenlabs: { agent_id: text(256) },
  deepgram: { agent_id: text(256) },
  gemini: {},
  ultravox: { agent_id: text(256) },
  hume: { config_id: text(256) },
  vapi: { assistant_id: text(256) },
  retell: { agent_id: text(256) },
  livekit: { api_secret: text(4096) },
  custom: { protocol: oneOf(protocols), auth_token: text(4096) },
  webhook: {
    events_url: text(2048),
    format: oneOf(['json', 'twiml']),
    wss_map: Type.Record(Type.String(), text(2048)),
  },
};

/** `provider_config` of each provider and of webhooks, for validation and for the OpenAPI description. */
export const configSchemas = Object.fromEntries(
  Object.entries(special).map(([provider, own]) => [provider, configSchema(provider, own)]),
) as Record<Provider | 'webhook', TSchema>;

const validators = Object.fromEntries(
  Object.entries(configSchemas).map(([provider, schema]) => [provider, Compile(schema)]),
) as Record<Provider | 'webhook', Validator>;

/** The problems of a complete `provider_config`, by field. */
export function configProblems(
  provider: Provider | 'webhook',
  config: StoredProviderConfig,
  rules: EndpointRules,
  target?: string,
): FieldError[] {
  const validator = validators[provider];
  if (!validator.Check(config)) return fieldErrors(validator.Errors(config)).map(inConfig);
  const problems = [
    ...urlProblems(config, { base_url: ['http', 'https'], events_url: ['http', 'https'] }, rules.allowPrivate),
    ...protocolProblems(provider, config, rules, target),
  ];
  return problems.map(inConfig);
}

/** The schema checks names and types; the protocol itself checks what it requires and supports. */
function protocolProblems(
  provider: string,
  config: StoredProviderConfig,
  rules: EndpointRules,
  target = '',
): FieldError[] {
  const protocol = provider === 'custom' ? String(config.protocol ?? 'twilio') : provider;
  const problem = /^sips?:/i.test(target)
    ? sipConfigProblem(provider, target, config)
    : rules.agentConfigProblem(protocol, config);
  if (problem === null) return [];
  const { field, message } = problem;
  const withoutField = message.startsWith(`${field} `) ? message.slice(field.length + 1) : message;
  return [{ path: field, message: withoutField.replace(/\.$/, '') }];
}

function configSchema(provider: string, own: Record<string, TSchema>): TSchema {
  const known = provider === 'webhook' ? own : { ...common, ...own };
  const optional = Object.entries(known).map(([name, schema]) => [name, Type.Optional(schema)]);
  return body(Object.fromEntries(optional) as Record<string, TSchema>);
}

function inConfig({ path, message }: FieldError): FieldError {
  return { path: path === '' ? 'provider_config' : `provider_config.${path}`, message };
}

function urlProblems(
  config: StoredProviderConfig,
  urls: Record<string, TargetRules['schemes']>,
  allowPrivate: boolean,
): FieldError[] {
  return Object.entries(urls).flatMap(([path, schemes]) => {
    const value = config[path];
    const credentialsGo =
      path === 'events_url'
        ? 'requests are signed with the webhook_secret instead'
        : 'set api_key or Authorization in headers instead';
    const message = typeof value === 'string' ? targetProblem(value, { schemes, allowPrivate, credentialsGo }) : null;
    return message === null ? [] : [{ path, message }];
  });
}
