/**
 * Keeps connections to user-configured addresses out of our network. A name is resolved once, every address of the answer is checked, and
 * the connection goes to a checked address, so changing the DNS answer between check and connect has no effect.
 */
import { type LookupAddress, type LookupOptions, lookup } from 'node:dns';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/** The address of Azure's host agent, which looks public. */
const PUBLIC_LOOKING: ReadonlySet<string> = new Set(['168.63.129.16']);

/** The address is inside our network, or the name resolves to one that is. */
export class BlockedAddressError extends Error {
  readonly code = 'EBLOCKEDADDRESS';

  constructor() {
    super('The address is private, loopback, link-local or reserved.');
    this.name = 'BlockedAddressError';
  }
}

/** A `lookup` option of `net.connect`, `tls.connect` and `http.request`. */
export type LookupFunction = (
  hostname: string,
  options: LookupOptions,
  callback: (error: NodeJS.ErrnoException | null, address: string | LookupAddress[], family?: number) => void,
) => void;

/**
 * True when `address` (IPv4 or IPv6 text, as a resolver writes it) is reachable on the public internet. False for text that is not an
 * address.
 */
export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 0) return false;
  const parsed = ipaddr.parse(address);
  if (parsed.range() !== 'unicast') return false;
  // Global unicast is 2000::/3 (RFC 4291 section 2.4); nothing outside of it is public, such as the old IPv4-compatible ::/96.
  if (parsed instanceof ipaddr.IPv6) return (parsed.parts[0] ?? 0) >> 13 === 1;
  return !PUBLIC_LOOKING.has(parsed.toString());
}

/**
 * Refuses a URL whose host is a literal address inside our network: sockets connect to literals without calling `lookup`. `URL` has already
 * turned decimal, octal, hexadecimal and full-width spellings into the plain one.
 *
 * @throws BlockedAddressError
 */
export function refuseInternalLiteral(url: URL): void {
  const host = url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname;
  const name = host.replace(/\.$/, '');
  if (isIP(name) !== 0 && !isPublicAddress(name)) throw new BlockedAddressError();
  if (name === 'localhost' || name.endsWith('.localhost')) throw new BlockedAddressError();
}

/** `safeLookup` with another resolver, for tests. */
export function createSafeLookup(resolve: typeof lookup): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      const first = addresses?.[0];
      if (error !== null || first === undefined) {
        callback(error ?? new BlockedAddressError(), []);
      } else if (!addresses.every((each) => isPublicAddress(each.address))) {
        callback(new BlockedAddressError(), []);
      } else if (options.all) {
        callback(null, addresses);
      } else {
        callback(null, first.address, first.family);
      }
    });
  };
}

/** Like `dns.lookup`, but fails with `BlockedAddressError` when any address of the answer is inside our network. */
export const safeLookup: LookupFunction = createSafeLookup(lookup);
