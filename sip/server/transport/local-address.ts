/** Our address as a peer can reach it: the bound address, the routed one, or the external one. */
import dgram from 'node:dgram';
import { BlockList, isIP, isIPv6 } from 'node:net';

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

  /** Looks up the route with a connected UDP socket that sends nothing. Never rejects: falls back to the loopback address. */
  resolve(boundHost: string, peer: string): Promise<string> {
    const known = this.known(boundHost, peer);
    if (known !== null) return Promise.resolve(known);
    let asking = this.asking.get(peer);
    if (!asking) {
      asking = askKernel(peer).then((address) => {
        this.asking.delete(peer);
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

function askKernel(peer: string): Promise<string> {
  return new Promise((resolve) => {
    const v6 = isIPv6(peer);
    const fallback = v6 ? '::1' : '127.0.0.1';
    const socket = dgram.createSocket(v6 ? 'udp6' : 'udp4');
    const done = (address: string) => {
      socket.close();
      resolve(address);
    };
    socket.once('error', () => done(fallback));
    socket.connect(5060, peer, () => {
      let address = fallback;
      try {
        address = socket.address().address;
      } catch {
        // the route disappeared between the two calls
      }
      done(address);
    });
  });
}
