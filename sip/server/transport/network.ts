/** All our SIP sockets: opens them together, chooses one by destination, closes them together. */
import { isIPv6 } from 'node:net';
import { hostInUri } from '../message/uri.js';
import type { IdlePolicy } from './connection.js';
import type { LocalAddresses } from './local-address.js';
import type { Path, Receive, TlsPeer, TransportEndpoint, TransportName } from './path.js';
import { StreamListener } from './stream.js';
import type { TlsContexts } from './tls.js';
import { UdpListener } from './udp.js';

/** Our address and port towards one peer. */
export interface LocalIdentity {
  /** The host in Via and Contact. */
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

/** An address that is certainly not ours, from the blocks for documentation (RFC 5737, RFC 3849). */
function outside(host: string): string {
  return isIPv6(host) ? '2001:db8::1' : '192.0.2.1';
}

/** Attempts to find a port that is free for both UDP and TCP. */
const PAIR_ATTEMPTS = 20;

export class Network {
  private constructor(
    private readonly listeners: (UdpListener | StreamListener)[],
    private readonly local: LocalAddresses,
    private readonly connectLimitMs: number,
  ) {}

  /** Rejects with one sentence when a port is taken or an address is not ours; then no socket stays open. */
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
      /** Ports that the kernel gave to a host's first listener with port 0: the others use the same number. */
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
        // outbound TLS to carriers works even without a TLS listener
        for (const host of new Set(listen.map((each) => each.host))) {
          const has = open.some((each) => each.transport === 'tls' && each.host === host);
          if (!has) open.push(StreamListener.outgoing(host, receive, idle, contexts));
        }
        // resolves the address that `hostports` reports for a wildcard, once
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

  /** Applies a changed certificate to our listeners. */
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
   * A path to the endpoint from one of our listeners; null when none has its transport and address family. `peer`: the identity to verify
   * over TLS; null: only a connection that the peer opened is used.
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

  /** Opens a TCP connection if there is none; rejects when that fails within the limit. */
  async connect(address: string, port: number): Promise<void> {
    const v6 = isIPv6(address);
    const listener = this.listeners.find((l) => l.transport === 'tcp' && isIPv6(l.host) === v6);
    if (!(listener instanceof StreamListener)) throw new Error('No TCP listener for that address');
    await listener.connect(address, port, null, this.connectLimitMs);
  }

  /** True when the endpoint is this server. */
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

  /** `transport/host:port` of every listener, as seen from outside or (`local`) from this machine. */
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
