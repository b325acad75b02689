import type { TSchema } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import { sipConfigProblem } from '../../call/agent/sip-agent-invite.js';
import type { StoredProviderConfig } from '../../store/tenants/secrets.js';
import type { FieldError } from '../errors.js';
import type { Provider } from '../schemas/endpoints.js';
import { body, oneOf, Type } from '../schemas/types.js';
import { fieldErrors } from '../validation.js';
import { type TargetRules, targetProblem } from './targets.js';

const text = (maxLength: number) => Type.String({ minLength: 1, maxLength });
const free = Type.Object({}, { additionalProperties: true });
const headers = Type.Record(
  Type.String({ pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$" }),
  Type.String({ maxLength: 4096, pattern: '^[\\x20-\\x7e]*$' }),
  { additionalProperties: false },
);

/** What the API must be told to judge an endpoint. */
export interface EndpointRules {
  /** Literal private, loopback and link-local hosts may be named. */
  allowPrivate: boolean;
  /** What the agent's protocol finds wrong with a configuration whose names and types are right. */
  agentConfigProblem(protocol: string, config: StoredProviderConfig): { field: string; message: string } | null;
  /** Where a named provider is, when that does not depend on the account. */
  knownAgentUrl(provider: string): string | undefined;
}

/** What all providers may take. */
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
  /** Of caller audio in one message. */
  frame_ms: Type.Unsafe<number>({ type: 'integer', enum: [20, 40] }),
  first_audio_timeout_s: Type.Number({ minimum: 0, maximum: 600 }),
  override: free,
  /** For the digest challenge of a SIP target. */
  sip_username: Type.String({ minLength: 1, maxLength: 128, pattern: '^[\\x21-\\x7e]+$' }),
  sip_password: text(256),
  /** Encryption of audio towards a SIP target. */
  srtp: oneOf(['off', 'allow', 'require']),
  /** REFER of a SIP target hands the call on. */
  allow_refer: Type.Boolean(),
};

const protocols = ['twilio', 'telnyx', 'plivo', 'vonage', 'raw'] as const;
/** What one provider knows besides. */
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

/** `provider_config` of each provider, and of webhooks: what requests are checked with, and what the API's description shows. */
export const configSchemas = Object.fromEntries(
  Object.entries(special).map(([provider, own]) => [provider, configSchema(provider, own)]),
) as Record<Provider | 'webhook', TSchema>;

const validators = Object.fromEntries(
  Object.entries(configSchemas).map(([provider, schema]) => [provider, Compile(schema)]),
) as Record<Provider | 'webhook', Validator>;

/** What is wrong with a whole `provider_config`, field by field. */
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

/** The schema here knows names and types; what a protocol must be given and can do, it says itself. */
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
