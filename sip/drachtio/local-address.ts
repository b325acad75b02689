/** Which of our addresses a peer should be told: in the SDP, where only we know it, and in our log. */
import { createSocket } from 'node:dgram';
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { AddressRanges } from '../server/overload/prefix-table.js';
import type { ServerAddress } from './connection.js';

export interface LocalAddressOptions {
  /** Peers outside of `localNets` are told this one. */
  externalIp?: string;
  /** CIDRs. */
  localNets: readonly string[];
  /** Where our media sockets are bound, perhaps a wildcard: an external SIP server listens somewhere else. Absent: where SIP listens. */
  mediaHost?: string;
}

/** No packet goes there (RFC 5737): only the route to it is looked up. */
const anywhere = '192.0.2.1';

const wildcards = new Set(['0.0.0.0', '::', '']);

export class AdvertisedAddresses {
  readonly #localNets: AddressRanges;

  /** Throws one clear sentence for a CIDR that cannot be read. */
  constructor(private readonly options: LocalAddressOptions) {
    this.#localNets = new AddressRanges(options.localNets);
  }

  /** What a peer is told when our end of the path to it is `own`. */
  shownTo(peerAddress: string, own: string): string {
    const { externalIp } = this.options;
    return externalIp && isIP(peerAddress) && !this.#localNets.has(peerAddress) ? externalIp : own;
  }

  /** Our address towards an incoming request's peer. `listener` is where it arrived, perhaps a wildcard. */
  async facing(peerAddress: string, listener: string): Promise<string> {
    const own = this.options.mediaHost ?? listener;
    return this.shownTo(peerAddress, wildcards.has(own) ? await routedAddress(peerAddress) : own);
  }

  /** Our address towards a host that we are about to call; a name that does not resolve gets the default route's. */
  async towards(host: string, listeners: readonly ServerAddress[]): Promise<string> {
    const peer = isIP(host) ? host : await resolve(host);
    const own = listeners.find((listener) => isIP(listener.host) === isIP(peer)) ?? listeners[0];
    return this.facing(peer, own?.host ?? '');
  }
}

async function resolve(host: string): Promise<string> {
  const limit = new Promise<never>((_, reject) => setTimeout(() => reject(new Error('no answer')), 3000).unref());
  try {
    return (await Promise.race([lookup(host), limit])).address;
  } catch {
    return anywhere;
  }
}

/** The address the kernel would send from. Connecting a datagram socket asks the routing table and sends nothing. */
function routedAddress(peer: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = createSocket(isIP(peer) === 6 ? 'udp6' : 'udp4');
    const done = (address: string) => {
      socket.close();
      resolve(address);
    };
    socket.once('error', () => done('127.0.0.1'));
    socket.connect(9, peer, () => done(socket.address().address));
  });
}
