import type { TSchema } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import type { ProviderConfig } from '../store/secrets.js';
import type { FieldError } from './errors.js';
import type { Provider } from './schemas/endpoints.js';
import { body, oneOf, Type } from './schemas/words.js';
import { type TargetRules, targetProblem } from './targets.js';
import { fieldErrors } from './validation.js';

const text = (maxLength: number) => Type.String({ minLength: 1, maxLength });
const free = Type.Object({}, { additionalProperties: true });
const headers = Type.Record(
  Type.String({ pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$" }),
  Type.String({ maxLength: 4096, pattern: '^[\\x20-\\x7e]*$' }),
  { additionalProperties: false },
);

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
  first_audio_timeout_s: Type.Number({ minimum: 0, maximum: 600 }),
  override: free,
  /** For the digest challenge of a SIP target. */
  sip_username: Type.String({ minLength: 1, maxLength: 128, pattern: '^[\\x21-\\x7e]+$' }),
  sip_password: text(256),
};

const protocols = ['twilio', 'telnyx', 'plivo', 'vonage', 'raw'] as const;
type Protocol = (typeof protocols)[number];

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

const validators = Object.fromEntries(
  Object.entries(special).map(([provider, own]) => [provider, compile(provider, own)]),
) as Record<Provider | 'webhook', Validator>;

/** The audio each stream protocol can carry: encoding to sample rates, the default first. */
const protocolAudio: Record<Protocol, Record<string, readonly number[]>> = {
  twilio: { ulaw: [8000] },
  telnyx: { ulaw: [8000], alaw: [8000], l16: [16000, 8000] },
  plivo: { ulaw: [8000], l16: [8000, 16000] },
  vonage: { l16: [16000, 8000, 24000] },
  raw: { l16: [8000, 16000, 24000], ulaw: [8000] },
};

/** Where a named provider is, when it does not depend on the account. */
export const knownTargets: Partial<Record<Provider, string>> = {
  openai: 'wss://api.openai.com/v1/realtime',
  elevenlabs: 'wss://api.elevenlabs.io/v1/convai/conversation',
  deepgram: 'wss://agent.deepgram.com/v1/agent/converse',
  gemini:
    'wss://generativelanguage.googleapis.com/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent',
  hume: 'wss://api.hume.ai/v0/evi/chat',
};

/** What is wrong with a whole `provider_config`, field by field. */
export function configProblems(
  provider: Provider | 'webhook',
  config: ProviderConfig,
  allowPrivate: boolean,
): FieldError[] {
  const validator = validators[provider];
  if (!validator.Check(config)) return fieldErrors(validator.Errors(config)).map(inConfig);
  const problems = [
    ...urlProblems(config, { base_url: ['http', 'https'], events_url: ['http', 'https'] }, allowPrivate),
    ...(provider === 'custom' ? audioProblems(config) : []),
  ];
  return problems.map(inConfig);
}

function compile(provider: string, own: Record<string, TSchema>): Validator {
  const known = provider === 'webhook' ? own : { ...common, ...own };
  const optional = Object.entries(known).map(([name, schema]) => [name, Type.Optional(schema)]);
  return Compile(body(Object.fromEntries(optional) as Record<string, TSchema>));
}

function inConfig({ path, message }: FieldError): FieldError {
  return { path: path === '' ? 'provider_config' : `provider_config.${path}`, message };
}

function urlProblems(
  config: ProviderConfig,
  urls: Record<string, TargetRules['schemes']>,
  allowPrivate: boolean,
): FieldError[] {
  return Object.entries(urls).flatMap(([path, schemes]) => {
    const value = config[path];
    const message = typeof value === 'string' ? targetProblem(value, { schemes, allowPrivate }) : null;
    return message === null ? [] : [{ path, message }];
  });
}

function audioProblems(config: ProviderConfig): FieldError[] {
  const protocol = (config.protocol ?? 'twilio') as Protocol;
  const carried = protocolAudio[protocol];
  const encoding = (config.encoding as string | undefined) ?? Object.keys(carried)[0] ?? '';
  const rates = carried[encoding];
  if (!rates)
    return [{ path: 'encoding', message: `must be ${listed(Object.keys(carried))} with protocol ${protocol}` }];
  if (config.sample_rate === undefined || rates.includes(config.sample_rate as number)) return [];
  return [
    { path: 'sample_rate', message: `must be ${listed(rates)} with protocol ${protocol} and encoding ${encoding}` },
  ];
}

function listed(values: readonly (string | number)[]): string {
  return values.join(' or ');
}
