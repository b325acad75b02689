/** The next hops of a request to a URI (RFC 3263), with the name to verify over TLS. */
import { parseUri } from '../inbound/identity.js';
import type { SipNames } from './dns-naptr-srv.js';
import { hopTo } from './request-targets.js';

export interface NextHop {
  /** Name or address of the hop, to choose which of our addresses faces it. */
  host: string;
  /** The hop as a URI, when it differs from the request-URI. */
  uri?: string;
}

/**
 * The hosts behind the URI, in the order to try; never empty, never rejects. `trust`: name of the TLS settings (`Gateway.trust`) for
 * connections to it.
 */
export async function nextHops(text: string, names: SipNames, trust = ''): Promise<NextHop[]> {
  const uri = parseUri(text);
  if (!uri || uri.scheme === 'tel') return [{ host: '' }];
  const isSecure = uri.scheme === 'sips' || uri.params.transport?.toLowerCase() === 'tls';
  const found = await names.hops(uri);
  if (found.length === 0 && !isSecure) return [{ host: uri.host }];
  const hops = found.length > 0 ? found : [{ host: uri.host, port: uri.port ?? 5061, transport: 'tls' as const }];
  // RFC 5922 section 4: the certificate must contain the domain of the URI, not the name from DNS.
  const check = { name: uri.host, trust };
  return hops.map(({ host, port, transport }) => ({
    host,
    uri: hopTo({ address: host, port, transport }, transport === 'tls' ? check : undefined),
  }));
}
