/** What is shown instead of a secret; sent back unchanged, it means "keep the stored one". */
export const secretMask = '********';

export type StoredProviderConfig = Record<string, unknown>;

const secretNames = [
  'api_key',
  'api_secret',
  'auth_token',
  'client_secret',
  'password',
  'sip_password',
  'pre_connect_secret',
  'secret_access_key',
  'session_token',
] as const;

/** A copy fit to be shown: secrets, and the value of every header (they carry tokens under any name), replaced by the mask. */
export function maskSecrets(config: StoredProviderConfig): StoredProviderConfig {
  return mapSecrets(config, () => secretMask);
}

/** `next` with each mask replaced by what is stored in its place; a mask over nothing is dropped. */
export function keepSecrets(next: StoredProviderConfig, stored: StoredProviderConfig): StoredProviderConfig {
  const storedHeaders = isObject(stored.headers) ? stored.headers : {};
  return mapSecrets(next, (value, name, inHeaders) =>
    value === secretMask ? (inHeaders ? storedHeaders : stored)[name] : value,
  );
}

/** Paths of masks in a configuration, as in `headers.authorization`. */
export function masksIn(config: StoredProviderConfig): string[] {
  const paths: string[] = [];
  mapSecrets(config, (value, name, inHeaders) => {
    if (value === secretMask) paths.push(inHeaders ? `headers.${name}` : name);
    return value;
  });
  return paths;
}

function mapSecrets(
  config: StoredProviderConfig,
  change: (value: unknown, name: string, inHeaders: boolean) => unknown,
): StoredProviderConfig {
  const changed: StoredProviderConfig = { ...config };
  for (const name of secretNames) {
    if (typeof config[name] === 'string') changed[name] = change(config[name], name, false);
  }
  if (isObject(config.headers)) {
    const headers = Object.entries(config.headers).map(([name, value]) => [name, change(value, name, true)] as const);
    changed.headers = Object.fromEntries(headers.filter(([, value]) => value !== undefined));
  }
  return Object.fromEntries(Object.entries(changed).filter(([, value]) => value !== undefined));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
