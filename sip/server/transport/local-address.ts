/** Our address as a peer can reach it: the bound address, the routed one, or the external one. */
import { BlockList, isIP, isIPv6 } from 'node:net';
import { routedAddress } from './routed-address.js';

const MAX_REMEMBERED = 10_000;

export class LocalAddresses {
  private readonly local = new BlockList();
  private readonly routed = new Map<string, string>();
  private readonly asking = new Map<string, Promise<string>>();

  constructor(
    private readonly externalIp: string | null,
    localNets: readonly string[],
  ) {
    for (const net of localNets) {
      const [address, bits] = net.split('/');
      const family = isIP(address ?? '');
      const prefix = bits === undefined ? (family === 6 ? 128 : 32) : Number(bits);
      if (family === 0 || !Number.isInteger(prefix) || prefix < 0 || prefix > (family === 6 ? 128 : 32)) {
        throw Object.assign(new Error(`${net} is not an address range: write it as 10.0.0.0/8.`), {
          code: 'EINVALIDNET',
        });
      }
      this.local.addSubnet(address!, prefix, family === 6 ? 'ipv6' : 'ipv4');
    }
  }

  /** The address that routes to the peer; null when `resolve` has to find it first. */
  known(boundHost: string, peer: string): string | null {
    return boundHost !== '0.0.0.0' && boundHost !== '::' ? boundHost : (this.routed.get(peer) ?? null);
  }

  /** Looks up the route. Never rejects: without one it is the loopback address, until it is looked up again. */
  resolve(boundHost: string, peer: string): Promise<string> {
    const known = this.known(boundHost, peer);
    if (known !== null) return Promise.resolve(known);
    let asking = this.asking.get(peer);
    if (!asking) {
      asking = routedAddress(peer).then((address) => {
        this.asking.delete(peer);
        if (address === null) return isIPv6(peer) ? '::1' : '127.0.0.1';
        if (this.routed.size >= MAX_REMEMBERED) this.routed.clear();
        this.routed.set(peer, address);
        return address;
      });
      this.asking.set(peer, asking);
    }
    return asking;
  }

  /** Our address in Via and Contact for that peer. */
  advertised(localAddress: string, peer: string): string {
    if (this.externalIp === null) return localAddress;
    return this.local.check(peer, isIPv6(peer) ? 'ipv6' : 'ipv4') ? localAddress : this.externalIp;
  }
}
