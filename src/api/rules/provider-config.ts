import { Compile, type Validator } from 'typebox/compile';
import { agentConfigProblem } from '../../../media/agents/check.js';
import {
  answeringConfig,
  type ConfigProperties,
  choiceField,
  configSchema,
} from '../../../media/agents/config-schema.js';
import { providersSelectedBy } from '../../../media/agents/providers/registry.js';
import { templateProblem } from '../../../media/agents/variables.js';
import { sipConfigProblem } from '../../call/agent/sip-agent-invite.js';
import type { StoredProviderConfig } from '../../store/tenants/secrets.js';
import type { FieldError } from '../errors.js';
import { body, oneOf, Type } from '../schemas/types.js';
import { fieldErrors } from '../validation.js';
import { type TargetRules, targetProblem } from './targets.js';

/** What the API needs to validate an endpoint. */
export interface EndpointRules {
  /** Whether literal private, loopback and link-local hosts are allowed. */
  allowPrivate: boolean;
}

/** `provider_config` of each provider and of webhooks, for validation and for the OpenAPI description. */
export const configSchemas: Readonly<Record<string, object>> = {
  ...Object.fromEntries(
    providersSelectedBy('provider').map(({ provider, config }) => [provider, configSchema(config)]),
  ),
  custom: configSchema(customConfig()),
  webhook: body({
    events_url: Type.Optional(Type.String({ minLength: 1, maxLength: 2048 })),
    format: Type.Optional(oneOf(['json', 'twiml', 'texml', 'plivo', 'ncco'])),
    method: Type.Optional(oneOf(['GET', 'POST'])),
    redact_dtmf: Type.Optional(Type.Boolean()),
    ...optional(answeringConfig),
    status_callback_url: Type.Optional(Type.String({ minLength: 1, maxLength: 2048 })),
    wss_map: Type.Optional(Type.Record(Type.String(), Type.String({ minLength: 1, maxLength: 2048 }))),
  }),
};

function optional(fields: ConfigProperties) {
  return Object.fromEntries(
    Object.entries(fields).map(([name, field]) => [name, Type.Optional(Type.Unsafe<unknown>(field))]),
  );
}

const validators = new Map<string, Validator>(
  Object.entries(configSchemas).map(([provider, schema]) => [provider, Compile(schema)]),
);

/** The problems of a complete `provider_config`, by field. */
export function configProblems(
  provider: string,
  config: StoredProviderConfig,
  rules: EndpointRules,
  target?: string,
): FieldError[] {
  const validator = validators.get(provider);
  if (validator !== undefined && !validator.Check(config)) return fieldErrors(validator.Errors(config)).map(inConfig);
  const problems = [
    ...urlProblems(
      config,
      {
        ...{ base_url: ['http', 'https'], events_url: ['http', 'https'] },
        ...{ pre_connect_url: ['http', 'https'], status_callback_url: ['http', 'https'] },
      },
      rules.allowPrivate,
    ),
    ...variableProblems(provider, config, target),
    ...protocolProblems(provider, config, target),
  ];
  return problems.map(inConfig);
}

/** The schema checks names and types; the protocol itself checks what it requires and supports. */
function protocolProblems(provider: string, config: StoredProviderConfig, target = ''): FieldError[] {
  const protocol = provider === 'custom' ? String(config.protocol ?? 'twilio') : provider;
  const problem = /^sips?:/i.test(target)
    ? sipConfigProblem(provider, target, config)
    : agentConfigProblem(protocol, config);
  if (problem === null) return [];
  const { field, message } = problem;
  const withoutField = message.startsWith(`${field} `) ? message.slice(field.length + 1) : message;
  return [{ path: field, message: withoutField.replace(/\.$/, '') }];
}

/** A bot of one's own takes the fields of every stream protocol. */
function customConfig(): ConfigProperties {
  const streams = providersSelectedBy('protocol');
  const protocol = choiceField(...streams.map(({ provider }) => provider));
  return { protocol, ...Object.assign({}, ...streams.map(({ config }) => config)) };
}

/** Templates are checked when they are saved, not when a call needs them. */
function variableProblems(provider: string, config: StoredProviderConfig, target = ''): FieldError[] {
  const problems: FieldError[] = [];
  const bySip = /^sips?:/i.test(target);
  if (bySip && config.pre_connect_url !== undefined)
    problems.push({ path: 'pre_connect_url', message: 'is not used with a SIP target' });
  if (bySip && config.variables !== undefined && provider !== 'retell')
    problems.push({ path: 'variables', message: 'cannot be sent to this SIP target; use headers instead' });
  for (const [name, template] of Object.entries((config.variables ?? {}) as Record<string, string>)) {
    const message = templateProblem(template);
    if (message !== null) problems.push({ path: `variables.${name}`, message });
  }
  return problems;
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
      path === 'events_url' || path === 'status_callback_url'
        ? 'requests are signed with the webhook_secret instead'
        : path === 'pre_connect_url'
          ? 'set pre_connect_secret to have requests signed instead'
          : 'set api_key or Authorization in headers instead';
    const message = typeof value === 'string' ? targetProblem(value, { schemes, allowPrivate, credentialsGo }) : null;
    return message === null ? [] : [{ path, message }];
  });
}
