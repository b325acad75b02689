/** Checks SIP addresses that users configure: the name is resolved, and the INVITE is sent only to an address that was checked. */
import { promises as dns } from 'node:dns';
import { isIP } from 'node:net';
import { isPublicAddress } from '../../net/safe-lookup.js';
import { parseUri } from '../inbound/identity.js';
import { SipError } from '../leg.js';
import { hopTo, type InviteTarget } from './request-targets.js';

export type ResolveHost = (host: string) => Promise<{ address: string }[]>;

const system: ResolveHost = (host) => dns.lookup(host, { all: true });
const lookupLimitMs = 5000;

/**
 * The target with a checked next hop; over TLS the certificate must still be for the name. Rejects with `SipError`:
 * `destination_not_allowed` for private, loopback and link-local addresses, `unreachable` for a name that does not resolve.
 */
export async function publicTarget(target: InviteTarget, resolve: ResolveHost = system): Promise<InviteTarget> {
  const hop = parseUri(target.nextHop ?? target.requestUri);
  const host = target.host.replace(/^\[|\]$/g, '').replace(/\.$/, '');
  const addresses = isIP(host) === 0 ? await lookedUp(host, target, resolve) : [host];
  const [first] = addresses;
  if (first === undefined || /(^|\.)localhost$/i.test(host) || !addresses.every(isPublicAddress)) {
    const why = `${target.gateway.uri} is at a private, loopback, link-local or reserved address.`;
    throw new SipError('protocol', 'destination_not_allowed', why);
  }
  const transport = hop?.params.transport?.toLowerCase() ?? 'udp';
  if (!hop || (transport !== 'udp' && transport !== 'tcp' && transport !== 'tls')) return target;
  const { 'tls-name': name, 'tls-trust': trust = '' } = hop.params;
  const check = name === undefined ? undefined : { name, trust };
  if (!check && (transport === 'tls' || hop.scheme === 'sips')) return target;
  return { ...target, host: first, nextHop: hopTo({ transport, address: first, port: hop.port ?? 5060 }, check) };
}

async function lookedUp(host: string, target: InviteTarget, resolve: ResolveHost): Promise<string[]> {
  try {
    return await addressesOf(host, resolve);
  } catch {
    throw new SipError('unreachable', 'carrier_unreachable', `The name in ${target.gateway.uri} cannot be looked up.`);
  }
}

/** The addresses of a name. Rejects when it does not resolve within 5 s. */
export async function addressesOf(host: string, resolve: ResolveHost = system): Promise<string[]> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('no answer in time')), lookupLimitMs);
  });
  try {
    return (await Promise.race([resolve(host), limit])).map((found) => found.address);
  } finally {
    clearTimeout(timer);
  }
}
