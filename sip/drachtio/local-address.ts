/** Our address as a peer should see it: for the SDP and the log. */
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { AddressRanges } from '../server/overload/prefix-table.js';
import { routedAddress } from '../server/transport/routed-address.js';
import type { ServerAddress } from './connection.js';

export interface LocalAddressOptions {
  /** Our address as advertised to peers outside of `localNets`. */
  externalIp?: string;
  /** CIDRs. */
  localNets: readonly string[];
  /**
   * The address of our media sockets, perhaps a wildcard, when an external SIP server listens elsewhere. Absent: the address of the SIP
   * listener.
   */
  mediaHost?: string;
}

/** A documentation address (RFC 5737): used for a route look-up only, no packet is sent to it. */
const anywhere = '192.0.2.1';

const wildcards = new Set(['0.0.0.0', '::', '']);

export class AdvertisedAddresses {
  readonly #localNets: AddressRanges;

  /** Throws one clear sentence for a CIDR that cannot be read. */
  constructor(private readonly options: LocalAddressOptions) {
    this.#localNets = new AddressRanges(options.localNets);
  }

  /** The address to advertise to a peer when our local address towards it is `own`. */
  shownTo(peerAddress: string, own: string): string {
    const { externalIp } = this.options;
    return externalIp && isIP(peerAddress) && !this.#localNets.has(peerAddress) ? externalIp : own;
  }

  /** Whether a call to this host and port would come back to us. */
  isOurs(host: string, port: number, listeners: readonly ServerAddress[]): boolean {
    const here = listeners.filter((listener) => listener.port === port);
    if (here.some((listener) => listener.host === host)) return true;
    if (here.length > 0 && host === this.options.externalIp) return true;
    return here.some((listener) => wildcards.has(listener.host)) && hostsOfThisMachine().includes(host);
  }

  /** Our address towards the peer of an incoming request. `listener`: the address it arrived on, perhaps a wildcard. */
  async facing(peerAddress: string, listener: string): Promise<string> {
    const own = this.options.mediaHost ?? listener;
    return this.shownTo(peerAddress, wildcards.has(own) ? await addressTowards(peerAddress) : own);
  }

  /** Our address for hosts of our own network: that of the listener, or for a wildcard the one of the default route. */
  async reached(listener: string): Promise<string> {
    return wildcards.has(listener) ? addressTowards(anywhere) : listener;
  }

  /** Our address towards a host to call; for a name that does not resolve, the address of the default route. */
  async destinationField(host: string, listeners: readonly ServerAddress[]): Promise<string> {
    const peer = isIP(host) ? host : await resolve(host);
    const own = listeners.find((listener) => isIP(listener.host) === isIP(peer)) ?? listeners[0];
    return this.facing(peer, own?.host ?? '');
  }
}

function hostsOfThisMachine(): string[] {
  return Object.values(networkInterfaces()).flatMap((all) => all?.map(({ address }) => address) ?? []);
}

async function resolve(host: string): Promise<string> {
  const limit = new Promise<never>((_, reject) => setTimeout(() => reject(new Error('no answer')), 3000).unref());
  try {
    return (await Promise.race([lookup(host), limit])).address;
  } catch {
    return anywhere;
  }
}

/** The loopback address when there is no route. */
async function addressTowards(peer: string): Promise<string> {
  return (await routedAddress(peer)) ?? '127.0.0.1';
}
