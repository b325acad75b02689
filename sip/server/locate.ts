/** Where a request goes next (RFC 3261 8.1.2, 12.2.1.1; of RFC 3263 the A and AAAA lookup only). */
import { lookup } from 'node:dns';
import { isIP } from 'node:net';
import { uriOf } from './fields.js';
import type { TransportName } from './transport/path.js';
import { bareHost, parseUri } from './uri.js';

export class LocateError extends Error {}

const LOOKUP_LIMIT_MS = 5000;
const DEFAULT_PORT = 5060;

/** A next hop as a URI names it; the host may still be a name. */
export interface Hop {
  host: string;
  port: number;
  /** Null: the URI does not say. */
  transport: TransportName | null;
}

/** Throws `LocateError` for a URI no request can be sent to. */
export function hopOf(uriText: string): Hop {
  const uri = parseUri(uriOf(uriText));
  if (!uri) throw new LocateError(`invalid request-uri: ${uriText}`);
  const named = uri.parameters.get('transport')?.toLowerCase();
  if (uri.scheme === 'sips' || (named !== undefined && named !== 'udp' && named !== 'tcp')) {
    throw new LocateError('requested protocol/transport not available');
  }
  const host = bareHost(uri.parameters.get('maddr') ?? uri.host);
  return { host, port: uri.port ?? DEFAULT_PORT, transport: named ?? null };
}

/** A numeric address. Rejects with `LocateError` when the name is unknown or the answer takes too long. */
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
    // IPv4 first: media over IPv6 is not spoken
    lookup(name, { order: 'ipv4first' } as { family?: number }, (error, address) =>
      finish(() => (error ? reject(new LocateError(`no address for ${name}`)) : resolve(address))),
    );
  });
}
