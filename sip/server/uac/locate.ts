/** The next hop of a request (RFC 3261 8.1.2, 12.2.1.1; of RFC 3263 only the A and AAAA look-up). */
import { lookup } from 'node:dns';
import { isIP } from 'node:net';
import { uriOf } from '../message/fields.js';
import { bareHost, parseUri } from '../message/uri.js';
import type { TlsPeer, TransportName } from '../transport/path.js';

export class LocateError extends Error {}

const LOOKUP_LIMIT_MS = 5000;
const DEFAULT_PORT = 5060;
const DEFAULT_TLS_PORT = 5061;
const TRANSPORTS: ReadonlySet<string> = new Set<TransportName>(['udp', 'tcp', 'tls']);

/** A next hop as named by a URI; the host may still be a name. */
export interface Hop {
  host: string;
  port: number;
  /** Null when the URI names none. */
  transport: TransportName | null;
}

/** Throws `LocateError` for a URI that no request can be sent to. */
export function hopOf(uriText: string): Hop {
  const uri = parseUri(uriOf(uriText));
  if (!uri) throw new LocateError(`invalid request-uri: ${uriText}`);
  const named = uri.parameters.get('transport')?.toLowerCase();
  // 26.2.2: `sips` means TLS over TCP only
  const isUnfit = uri.scheme === 'sips' ? named === 'udp' : named !== undefined && !TRANSPORTS.has(named);
  if (isUnfit) throw new LocateError('requested protocol/transport not available');
  const transport = uri.scheme === 'sips' ? 'tls' : ((named as TransportName | undefined) ?? null);
  const host = bareHost(uri.parameters.get('maddr') ?? uri.host);
  return { host, port: uri.port ?? (transport === 'tls' ? DEFAULT_TLS_PORT : DEFAULT_PORT), transport };
}

/** The identity to verify over TLS: named by the application in the URI's parameters (`hopTo`), else the URI's host. */
export function tlsPeerOf(uriText: string): TlsPeer | null {
  const parameters = parseUri(uriOf(uriText))?.parameters;
  const name = parameters?.get('tls-name');
  return name === undefined ? null : { name: bareHost(name), trust: parameters?.get('tls-trust') ?? '' };
}

/** Resolves to a numeric address. Rejects with `LocateError` when the name is unknown or the look-up takes too long. */
export function addressOf(host: string, signal: AbortSignal): Promise<string> {
  return isIP(host) ? Promise.resolve(host) : lookUp(host, signal);
}

function lookUp(name: string, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const finish = (act: () => void) => {
      clearTimeout(limit);
      signal.removeEventListener('abort', aborted);
      act();
    };
    const limit = setTimeout(
      () => finish(() => reject(new LocateError(`no address for ${name} in time`))),
      LOOKUP_LIMIT_MS,
    );
    const aborted = () => finish(() => reject(new LocateError('the server closes')));
    if (signal.aborted) return aborted();
    signal.addEventListener('abort', aborted, { once: true });
    // IPv4 first: media over IPv6 is not supported
    lookup(name, { order: 'ipv4first' } as { family?: number }, (error, address) =>
      finish(() => (error ? reject(new LocateError(`no address for ${name}`)) : resolve(address))),
    );
  });
}
