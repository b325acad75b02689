/** SIP over TCP and TLS: a listener, with the connections it accepted and those we opened, one for each peer. */
import net from 'node:net';
import tls from 'node:tls';
import { type ConnectionHome, type IdlePolicy, plainAddress, StreamConnection } from './connection.js';
import { listenError, type Path, type Receive, type TlsPeer } from './path.js';
import { connectionFailure, type TlsContexts } from './tls.js';

/** Concurrent TLS handshakes of strangers, and as many of known peers: a handshake costs us more than the client. */
const MAX_HANDSHAKES = 500;
/** Limit for a new connection to send a response whose own connection is gone. */
const RECONNECT_MS = 30_000;
/** Port in our Contact when TLS is only used for outbound connections: responses come back over those. */
const UNHEARD_TLS_PORT = 5061;

export class StreamListener implements ConnectionHome {
  private readonly byPeer = new Map<string, StreamConnection>();
  private readonly dialing = new Map<string, Promise<StreamConnection>>();
  private readonly sockets = new Set<net.Socket>();
  /** Number of inbound connections by address. */
  private readonly perAddress = new Map<string, number>();
  /** Inbound connections and TLS handshakes, counted separately: strangers take no room from known peers. */
  private readonly ofStrangers = newCrowd();
  private readonly ofKnown = newCrowd();
  private server: net.Server | null = null;

  private constructor(
    readonly transport: 'tcp' | 'tls',
    readonly host: string,
    public port: number,
    private readonly receive: Receive,
    readonly idle: IdlePolicy,
    private readonly contexts: TlsContexts | null,
  ) {}

  /** `contexts`: for TLS. Rejects with one sentence when the port is taken or the address is not ours. */
  static open(
    host: string,
    port: number,
    receive: Receive,
    idle: IdlePolicy,
    contexts: TlsContexts | null = null,
  ): Promise<StreamListener> {
    const transport = contexts ? 'tls' : 'tcp';
    const listener = new StreamListener(transport, host, port, receive, idle, contexts);
    const server = contexts ? tls.createServer(contexts.server()) : net.createServer();
    return new Promise((resolve, reject) => {
      const refuse = (error: NodeJS.ErrnoException) => reject(listenError(transport, host, port, error));
      server.once('error', refuse);
      server.listen({ port, host, ipv6Only: host.includes(':') }, () => {
        server.off('error', refuse);
        server.on('error', () => undefined);
        listener.port = (server.address() as net.AddressInfo).port;
        listener.server = server;
        listener.take(server);
        resolve(listener);
      });
    });
  }

  /** For outbound TLS connections only, without a listening socket. */
  static outgoing(host: string, receive: Receive, idle: IdlePolicy, contexts: TlsContexts): StreamListener {
    return new StreamListener('tls', host, UNHEARD_TLS_PORT, receive, idle, contexts);
  }

  get listens(): boolean {
    return this.server !== null;
  }

  get connectionCount(): number {
    return this.sockets.size;
  }

  /** Sets the certificate for connections accepted from now on. */
  renewCertificate(): void {
    if (this.contexts && this.server instanceof tls.Server) this.server.setSecureContext(this.contexts.server());
  }

  /** The open connection to that peer. With TLS: one that was verified for `peer`, or (null) one that the peer opened. */
  existing(address: string, port: number, peer: TlsPeer | null): StreamConnection | null {
    const connection = this.byPeer.get(keyOf(address, port, peer));
    return connection?.open ? connection : null;
  }

  /** The open connection to that peer, or a new one. Rejects after `limitMs`. */
  connect(address: string, port: number, peer: TlsPeer | null, limitMs: number): Promise<StreamConnection> {
    const present = this.existing(address, port, peer);
    if (present) return Promise.resolve(present);
    const key = keyOf(address, port, peer);
    const dialing = this.dialing.get(key);
    if (dialing) return dialing;
    const attempt = this.dial(address, port, peer, limitMs).finally(() => this.dialing.delete(key));
    this.dialing.set(key, attempt);
    return attempt;
  }

  private dial(address: string, port: number, peer: TlsPeer | null, limitMs: number): Promise<StreamConnection> {
    const { contexts, host } = this;
    const name = peer && peer.name !== address ? `${peer.name} (${address}:${port})` : `${address}:${port}`;
    const failed = (why: string) => new Error(`No ${this.transport.toUpperCase()} connection to ${name}: ${why}`);
    if (contexts && !peer) return Promise.reject(failed('the one it made is gone'));
    return new Promise((resolve, reject) => {
      const fromAny = host === '0.0.0.0' || host === '::';
      const to = { host: address, port, ...(fromAny ? {} : { localAddress: host }) };
      const socket = contexts && peer ? tls.connect({ ...to, ...contexts.client(peer) }) : net.connect(to);
      this.sockets.add(socket);
      let settled = false;
      const limit = setTimeout(() => socket.destroy(new Error('it did not answer in time')), limitMs);
      const refuse = (reason: string) => {
        clearTimeout(limit);
        this.sockets.delete(socket);
        if (!settled) reject(failed(reason));
        settled = true;
      };
      socket.on('error', (error) => refuse(connectionFailure(error)));
      socket.on('close', () => refuse('it closed'));
      socket.once(contexts ? 'secureConnect' : 'connect', () => {
        clearTimeout(limit);
        settled = true;
        const connection = new StreamConnection(socket, this, this.receive, false, peer);
        this.byPeer.set(keyOf(address, port, peer), connection);
        resolve(connection);
      });
    });
  }

  /** A path to a peer's address; connects when needed. */
  pathTo(address: string, port: number, peer: TlsPeer | null, limitMs: number): Path {
    return this.path(address, port, peer, null, limitMs);
  }

  /** A path back over a connection; when that is gone, over a new one to the same address (RFC 3261 18.2.2). */
  pathOver(connection: StreamConnection): Path {
    return this.path(connection.address, connection.port, connection.tls, connection, RECONNECT_MS);
  }

  private path(
    address: string,
    port: number,
    peer: TlsPeer | null,
    first: StreamConnection | null,
    limitMs: number,
  ): Path {
    let connection = first;
    const present = () => (connection?.open ? connection : this.existing(address, port, peer));
    const watching = new Set<(error: Error) => void>();
    let unhook: (() => void) | null = null;
    // callbacks also cover a connection that is opened after they were registered
    const hook = () => {
      if (unhook || !connection || watching.size === 0) return;
      unhook = connection.onClosed((error) => {
        unhook = null;
        for (const closed of [...watching]) closed(error);
      });
    };
    return {
      transport: this.transport,
      address,
      port,
      tls: peer,
      reliable: true,
      get alive() {
        return present() !== null;
      },
      localPort: this.port,
      boundHost: this.host,
      toward: (otherAddress, otherPort) => this.pathTo(otherAddress, otherPort, peer, limitMs),
      send: (bytes, failed) => {
        connection = present();
        if (connection) connection.write(bytes);
        else
          this.connect(address, port, peer, limitMs).then(
            (made) => {
              connection = made;
              hook();
              made.write(bytes);
            },
            (error: Error) => failed?.(error),
          );
      },
      onClosed: (closed) => {
        watching.add(closed);
        connection = present();
        hook();
        return () => {
          watching.delete(closed);
          if (watching.size > 0) return;
          unhook?.();
          unhook = null;
        };
      },
    };
  }

  forget(connection: StreamConnection): void {
    const key = keyOf(connection.address, connection.port, connection.tls);
    if (this.byPeer.get(key) === connection) this.byPeer.delete(key);
  }

  private take(server: net.Server): void {
    if (!(server instanceof tls.Server)) {
      server.on('connection', (socket) => {
        if (this.admit(socket)) this.accepted(socket);
      });
      return;
    }
    // each connection is reported as TCP first, then as secure or as failed
    const handshaken = (address: string | undefined, port: number | undefined) => {
      for (const crowd of [this.ofStrangers, this.ofKnown]) crowd.handshaking.delete(`${address}|${port}`);
    };
    server.on('connection', (socket) => {
      const { remoteAddress, remotePort } = socket;
      const { handshaking } = this.crowdAt(plainAddress(remoteAddress ?? ''));
      if (handshaking.size >= MAX_HANDSHAKES || !this.admit(socket)) {
        socket.destroy();
        return;
      }
      handshaking.add(`${remoteAddress}|${remotePort}`);
      socket.on('close', () => handshaken(remoteAddress, remotePort));
    });
    server.on('secureConnection', (socket) => {
      handshaken(socket.remoteAddress, socket.remotePort);
      this.accepted(socket);
    });
    server.on('tlsClientError', (_error, socket) => {
      handshaken(socket.remoteAddress, socket.remotePort);
      socket.destroy();
    });
  }

  private crowdAt(address: string): Crowd {
    return this.idle.knows(address) ? this.ofKnown : this.ofStrangers;
  }

  /** True when one more connection from that address is allowed; else destroys it. */
  private admit(socket: net.Socket): boolean {
    const address = plainAddress(socket.remoteAddress ?? '');
    const crowd = this.crowdAt(address);
    const before = this.perAddress.get(address) ?? 0;
    const { connections, connectionsPerAddress } = this.idle.limits;
    if (crowd.connections >= connections || before >= connectionsPerAddress || address === '') {
      socket.destroy();
      return false;
    }
    crowd.connections++;
    this.sockets.add(socket);
    this.perAddress.set(address, before + 1);
    socket.on('close', () => {
      crowd.connections--;
      this.sockets.delete(socket);
      const left = (this.perAddress.get(address) ?? 1) - 1;
      if (left > 0) this.perAddress.set(address, left);
      else this.perAddress.delete(address);
    });
    return true;
  }

  private accepted(socket: net.Socket): void {
    const connection = new StreamConnection(socket, this, this.receive, true, null);
    this.byPeer.set(keyOf(connection.address, connection.port, null), connection);
  }

  close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    const { server } = this;
    return server ? new Promise((resolve) => server.close(() => resolve())) : Promise.resolve();
  }
}

interface Crowd {
  connections: number;
  /** TLS connections in their handshake: `address|port`. */
  readonly handshaking: Set<string>;
}

function newCrowd(): Crowd {
  return { connections: 0, handshaking: new Set() };
}

/** Connections to one address that were verified for different names, or by different authorities, are kept apart. */
function keyOf(address: string, port: number, peer: TlsPeer | null): string {
  return peer ? `${address}|${port}|${peer.name}|${peer.trust}` : `${address}|${port}`;
}
