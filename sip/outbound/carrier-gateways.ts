/** Keeps numbers that users write into SIP addresses away from other organizations' carriers, which take calls by our address alone. */
import { isIP } from 'node:net';
import { parseUri } from '../inbound/identity.js';
import { SipError } from '../leg.js';
import type { TrunkRecord } from '../trunk/trunk-table.js';
import type { InviteTarget } from './request-targets.js';
import { addressesOf, type ResolveHost } from './resolve-public-uri.js';

const number = /^\+?[\d*#().-]{3,}$/;
const loopback = /^(127\.|::1$)/;

/**
 * Rejects with `SipError` `destination_not_allowed` when the target is a number at a gateway of a trunk that is not the organization's own:
 * such a call would pass by the allowed prefixes, the price and the limits of outbound calls. Gateways are told by their addresses, whatever name
 * and port leads there; on this machine, where several servers share one, by the port too.
 */
export async function refuseForeignCarrier(
  target: InviteTarget,
  organizationId: string,
  trunks: Iterable<TrunkRecord>,
  resolve?: ResolveHost,
): Promise<void> {
  const called = parseUri(target.requestUri);
  if (!called || !number.test(called.user)) return;
  const places = [...trunks]
    .filter(
      (trunk) => trunk.direction !== 'inbound' && trunk.organizationId !== organizationId && !asksForPassword(trunk),
    )
    .flatMap((trunk) => trunk.gateways.flatMap(({ uri }) => parseUri(uri) ?? []));
  if (places.length === 0) return;
  const found = async (name: string) => {
    const host = name.toLowerCase();
    return isIP(host) === 0 ? addressesOf(host, resolve).catch(() => [host]) : [host];
  };
  const [wanted, ...carriers] = await Promise.all([target.host, ...places.map(({ host }) => host)].map(found));
  const isThere = carriers.some((addresses, i) =>
    addresses.some(
      (address) =>
        wanted?.includes(address) && (!loopback.test(address) || (called.port ?? 5060) === (places[i]?.port ?? 5060)),
    ),
  );
  if (isThere) {
    const why = `${target.gateway.uri} is a number at a carrier's gateway. Call the number itself: it goes over a trunk.`;
    throw new SipError('protocol', 'destination_not_allowed', why);
  }
}

/** Its carrier knows our calls by these credentials, which are not given to users: two organizations may have accounts with it. */
function asksForPassword({ username, password }: TrunkRecord): boolean {
  return username !== null && password !== null;
}
