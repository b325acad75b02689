/** Where a request to a URI goes (RFC 3263), and who has to be there when it is TLS. */
import { parseUri } from '../inbound/identity.js';
import type { SipNames } from './dns-naptr-srv.js';
import { hopTo } from './request-targets.js';

export interface NextHop {
  /** Name or address: which of our addresses faces it? */
  host: string;
  /** Its URI, where that is not the URI itself. */
  uri?: string;
}

/**
 * One hop for each host that the URI stands for, in the order in which they are tried; never empty, never rejects. `trust`: whose
 * authorities and certificate count for TLS connections to it (`Gateway.trust`).
 */
export async function nextHops(text: string, names: SipNames, trust = ''): Promise<NextHop[]> {
  const uri = parseUri(text);
  if (!uri || uri.scheme === 'tel') return [{ host: '' }];
  const isSecure = uri.scheme === 'sips' || uri.params.transport?.toLowerCase() === 'tls';
  const found = await names.hops(uri);
  if (found.length === 0 && !isSecure) return [{ host: uri.host }];
  const hops = found.length > 0 ? found : [{ host: uri.host, port: uri.port ?? 5061, transport: 'tls' as const }];
  // RFC 5922 section 4: the name that was asked for has to be in the certificate, not what DNS made of it
  const check = { name: uri.host, trust };
  return hops.map(({ host, port, transport }) => ({
    host,
    uri: hopTo({ address: host, port, transport }, transport === 'tls' ? check : undefined),
  }));
}
