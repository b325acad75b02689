/** Reads `provider_config`: each function returns a checked value or throws `AgentConfigError` with the field's name. */
import { validateHeaderName, validateHeaderValue } from 'node:http';
import { AgentConfigError, type AudioFormat, type Plain } from './agent.js';

export type ConfigObject = { readonly [key: string]: Plain };

/** Set by the WebSocket handshake or by HTTP; another value would break the upgrade. */
const RESERVED_HEADERS =
  /^(host|connection|upgrade|content-length|transfer-encoding|expect|te|trailer|sec-websocket-.*)$/i;

/** null and a missing config count as an empty object. */
export function configObject(raw: Plain | undefined): ConfigObject {
  if (raw === null || raw === undefined) return {};
  if (typeof raw !== 'object' || Array.isArray(raw))
    throw new AgentConfigError('', 'provider_config must be an object.');
  return raw;
}

/** An optional field with a non-empty string. */
export function optionalText(config: ConfigObject, field: string): string | undefined {
  const value = own(config, field);
  if (value === undefined) return undefined;
  if (typeof value !== 'string' || value === '')
    throw new AgentConfigError(field, `${field} must be a non-empty string.`);
  return value;
}

/** An optional field with a string, which may be empty. */
export function optionalString(config: ConfigObject, field: string): string | undefined {
  const value = own(config, field);
  if (value === undefined || typeof value === 'string') return value;
  throw new AgentConfigError(field, `${field} must be a string.`);
}

export function optionalNumber(config: ConfigObject, field: string, least: number, most: number): number | undefined {
  const value = own(config, field);
  if (value === undefined) return undefined;
  if (typeof value !== 'number' || !(value >= least && value <= most))
    throw new AgentConfigError(field, `${field} must be a number from ${least} to ${most}.`);
  return value;
}

export function optionalObject(config: ConfigObject, field: string): ConfigObject | undefined {
  const value = own(config, field);
  if (value === undefined) return undefined;
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new AgentConfigError(field, `${field} must be an object.`);
  return value;
}

/** A field with one of the `allowed` values; the first is the default. */
export function choice<T extends string | number>(
  config: ConfigObject,
  field: string,
  allowed: readonly [T, ...T[]],
): T {
  const value = own(config, field);
  if (value === undefined) return allowed[0];
  const found = allowed.find((each) => each === value);
  if (found === undefined) throw new AgentConfigError(field, `${field} must be one of ${allowed.join(', ')}.`);
  return found;
}

/** `encoding` and `sample_rate`; the first value of each is the default. G.711 only has 8000 Hz. */
export function audioFormat<E extends AudioFormat['encoding'], R extends AudioFormat['sampleRateHz']>(
  config: ConfigObject,
  encodings: readonly [E, ...E[]],
  pcmRates: readonly [R, ...R[]],
): { encoding: E; sampleRateHz: R | 8000 } {
  const encoding = choice(config, 'encoding', encodings);
  const rates: readonly [R | 8000, ...(R | 8000)[]] = encoding === 'l16' ? pcmRates : [8000];
  return { encoding, sampleRateHz: choice(config, 'sample_rate', rates) };
}

/** Headers of the upgrade request. */
export function upgradeHeaders(config: ConfigObject): Record<string, string> {
  const value = own(config, 'headers');
  if (value === undefined) return {};
  if (typeof value !== 'object' || Array.isArray(value))
    throw new AgentConfigError('headers', 'headers must be an object.');
  const headers: Record<string, string> = {};
  for (const [name, text] of Object.entries(value ?? {})) {
    if (typeof text !== 'string') throw new AgentConfigError('headers', 'Each header must be a string.');
    if (RESERVED_HEADERS.test(name))
      throw new AgentConfigError('headers', `${name} is set by the WebSocket handshake.`);
    try {
      validateHeaderName(name);
      validateHeaderValue(name, text);
    } catch {
      throw new AgentConfigError('headers', 'A header has a name or a value that HTTP does not allow.');
    }
    headers[name] = text;
  }
  return headers;
}

function own(config: ConfigObject, field: string): Plain | undefined {
  const value = Object.hasOwn(config, field) ? config[field] : undefined;
  return value === null ? undefined : value;
}
