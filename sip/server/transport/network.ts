/** All our SIP sockets: opened together, chosen by where a message goes, closed together. */
import { isIPv6 } from 'node:net';
import { hostInUri } from '../message/uri.js';
import type { IdlePolicy } from './connection.js';
import type { LocalAddresses } from './local-address.js';
import type { Path, Receive, TlsPeer, TransportEndpoint, TransportName } from './path.js';
import { StreamListener } from './stream.js';
import type { TlsContexts } from './tls.js';
import { UdpListener } from './udp.js';

/** How we are known to one peer. */
export interface LocalIdentity {
  /** In Via and Contact. */
  host: string;
  port: number;
  /** The address of this machine that routes to the peer. */
  localAddress: string;
}

export interface ListenAddress {
  transport: TransportName;
  host: string;
  port: number;
}

/** Some address that is surely not ours: of the blocks kept for documentation (RFC 5737, RFC 3849). */
function outside(host: string): string {
  return isIPv6(host) ? '2001:db8::1' : '192.0.2.1';
}

/** How often a common free port for UDP and TCP is looked for. */
const PAIR_ATTEMPTS = 20;

export class Network {
  private constructor(
    private readonly listeners: (UdpListener | StreamListener)[],
    private readonly local: LocalAddresses,
    private readonly connectLimitMs: number,
  ) {}

  /** Rejects with one sentence when a port is taken or an address is not ours; nothing stays open then. */
  static async open(
    listen: readonly ListenAddress[],
    local: LocalAddresses,
    connectLimitMs: number,
    receive: Receive,
    idle: IdlePolicy,
    contexts: TlsContexts,
    lostMethods: readonly string[] = [],
  ): Promise<Network> {
    for (let attempt = 1; ; attempt++) {
      const open: (UdpListener | StreamListener)[] = [];
      /** Ports given by the kernel to the first of a host's listeners with port 0: the others take the same number. */
      const chosen = new Map<string, number>();
      try {
        for (const { transport, host, port } of listen) {
          if (transport === 'tls' && !contexts.mayListen)
            throw new Error('SIP over TLS needs a certificate and its key.');
          const other = transport === 'tls' ? 'none' : transport === 'udp' ? 'tcp' : 'udp';
          const wanted = port === 0 ? (chosen.get(`${host} ${other}`) ?? 0) : port;
          const listener =
            transport === 'udp'
              ? await UdpListener.open(host, wanted, receive, lostMethods)
              : await StreamListener.open(host, wanted, receive, idle, transport === 'tls' ? contexts : null);
          open.push(listener);
          if (port === 0 && wanted === 0) chosen.set(`${host} ${transport}`, listener.port);
        }
        // carriers behind TLS can be called even where none can call us
        for (const host of new Set(listen.map((each) => each.host))) {
          const has = open.some((each) => each.transport === 'tls' && each.host === host);
          if (!has) open.push(StreamListener.outgoing(host, receive, idle, contexts));
        }
        // what `hostports` says of a wildcard address is asked for once, here
        await Promise.all(open.map(({ host }) => local.resolve(host, outside(host))));
        return new Network(open, local, connectLimitMs);
      } catch (error) {
        await Promise.all(open.map((listener) => listener.close()));
        const collision = chosen.size > 0 && (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
        if (!collision || attempt >= PAIR_ATTEMPTS) throw error;
      }
    }
  }

  get addresses(): ListenAddress[] {
    return this.heard.map(({ transport, host, port }) => ({ transport, host, port }));
  }

  private get heard(): (UdpListener | StreamListener)[] {
    return this.listeners.filter((listener) => listener instanceof UdpListener || listener.listens);
  }

  /** The certificate of our listeners has changed. */
  renewCertificate(): void {
    for (const listener of this.listeners) if (listener instanceof StreamListener) listener.renewCertificate();
  }

  get tcpConnections(): number {
    return this.listeners.reduce((sum, l) => sum + (l instanceof StreamListener ? l.connectionCount : 0), 0);
  }

  has(transport: TransportName): boolean {
    return this.listeners.some((listener) => listener.transport === transport);
  }

  /**
   * A way to that endpoint from one of our listeners, or null when none fits its transport and address family. `peer`: who has to be there
   * when it is TLS; null: only a connection that he made himself will do.
   */
  pathTo(endpoint: TransportEndpoint, peer: TlsPeer | null = null): Path | null {
    const v6 = isIPv6(endpoint.address);
    for (const listener of this.listeners) {
      if (listener.transport !== endpoint.transport || isIPv6(listener.host) !== v6) continue;
      return listener instanceof UdpListener
        ? listener.pathTo(endpoint.address, endpoint.port)
        : listener.pathTo(endpoint.address, endpoint.port, peer, this.connectLimitMs);
    }
    return null;
  }

  /** Makes sure there is a TCP connection; rejects when there is none within the limit. */
  async connect(address: string, port: number): Promise<void> {
    const v6 = isIPv6(address);
    const listener = this.listeners.find((l) => l.transport === 'tcp' && isIPv6(l.host) === v6);
    if (!(listener instanceof StreamListener)) throw new Error('No TCP listener for that address');
    await listener.connect(address, port, null, this.connectLimitMs);
  }

  /** Whether that endpoint is this server. */
  isOwn(endpoint: TransportEndpoint, localAddress: string): boolean {
    return this.listeners.some(
      (l) =>
        l.transport === endpoint.transport &&
        l.port === endpoint.port &&
        (l.host === endpoint.address ||
          ((l.host === '0.0.0.0' || l.host === '::') && endpoint.address === localAddress)),
    );
  }

  knownIdentity(path: Path): LocalIdentity | null {
    const localAddress = this.local.known(path.boundHost, path.address);
    return localAddress === null ? null : this.identityFrom(path, localAddress);
  }

  async identity(path: Path): Promise<LocalIdentity> {
    return this.identityFrom(path, await this.local.resolve(path.boundHost, path.address));
  }

  /** `transport/host:port` of every listener, as a peer outside or (`local`) this machine sees them. */
  hostports(local: boolean): string {
    return this.heard
      .map(({ transport, host, port }) => {
        const ours = this.local.known(host, outside(host)) ?? host;
        return `${transport}/${hostInUri(local ? ours : this.local.advertised(ours, outside(host)))}:${port}`;
      })
      .join(',');
  }

  async close(): Promise<void> {
    await Promise.all(this.listeners.map((listener) => listener.close()));
  }

  private identityFrom(path: Path, localAddress: string): LocalIdentity {
    return { host: this.local.advertised(localAddress, path.address), port: path.localPort, localAddress };
  }
}
