import net from 'node:net';
import { listenError, type Path, type Receive } from './path.js';
import { StreamFramer } from './stream-framer.js';

/** A peer that reads nothing is cut off before it fills our memory. */
const MAX_UNSENT_BYTES = 1024 * 1024;
/** A new connection for an answer whose own is gone. */
const RECONNECT_MS = 30_000;
/** A connection the peer made is its to close: it may be the only way back through address translation. */
const ACCEPTED_IDLE_MS = 3 * 3_600_000;
const KEEPALIVE_MS = 45_000;

/** When a connection nothing goes over is closed. */
export interface IdlePolicy {
  /** For those we made ourselves: they can be made again. */
  dialledMs: number;
  /** Half a message, or none at all yet, may stand this long. */
  halfMessageMs: number;
  /** Whether a call or registration still counts on the connection to that peer. */
  inUse(address: string, port: number): boolean;
  limits: ConnectionLimits;
}

export interface ConnectionLimits {
  /** Connections of all. */
  connections: number;
  /** Made by one address: behind it there may be an office full of phones, not more. */
  connectionsPerAddress: number;
}

export const DEFAULT_CONNECTION_LIMITS: ConnectionLimits = { connections: 10_000, connectionsPerAddress: 500 };

export class TcpConnection {
  private readonly framer: StreamFramer;
  private readonly closedListeners = new Set<(error: Error) => void>();
  private halfMessage: NodeJS.Timeout | null = null;
  private heard = false;
  readonly address: string;
  readonly port: number;

  constructor(
    private readonly socket: net.Socket,
    private readonly listener: TcpListener,
    receive: Receive,
    /** Made by the peer: it has to say something soon. */
    private readonly accepted: boolean,
  ) {
    this.address = plainAddress(socket.remoteAddress ?? '');
    this.port = socket.remotePort ?? 0;
    const back = listener.pathOver(this);
    const source = { transport: 'tcp' as const, address: this.address, port: this.port, back };
    this.framer = new StreamFramer({
      message: (bytes) => {
        this.heard = true;
        receive(bytes, source);
      },
      ping: () => this.write(PONG),
      broken: (head) => {
        receive(head, source);
        this.socket.end();
        this.socket.destroySoon();
      },
    });
    socket.setNoDelay(true);
    socket.setKeepAlive(true, KEEPALIVE_MS);
    const idleMs = accepted ? ACCEPTED_IDLE_MS : listener.idle.dialledMs;
    socket.setTimeout(idleMs, () => {
      if (!listener.idle.inUse(this.address, this.port)) socket.destroy();
      else socket.setTimeout(idleMs);
    });
    socket.on('data', (chunk) => {
      this.framer.push(chunk);
      this.watchHalfMessage();
    });
    socket.on('error', () => undefined); // 'close' follows
    socket.on('close', () => this.closed());
    this.watchHalfMessage();
  }

  get open(): boolean {
    return !this.socket.destroyed && this.socket.writable;
  }

  write(bytes: Buffer): void {
    if (!this.open) return;
    this.socket.write(bytes);
    if (this.socket.writableLength > MAX_UNSENT_BYTES) this.socket.destroy();
  }

  onClosed(listener: (error: Error) => void): () => void {
    this.closedListeners.add(listener);
    return () => this.closedListeners.delete(listener);
  }

  destroy(): void {
    this.socket.destroy();
  }

  private watchHalfMessage(): void {
    const wanted = this.framer.partial || (!this.heard && this.accepted);
    if (!wanted && this.halfMessage) {
      clearTimeout(this.halfMessage);
      this.halfMessage = null;
    } else if (wanted && !this.halfMessage) {
      this.halfMessage = setTimeout(() => this.socket.destroy(), this.listener.idle.halfMessageMs);
    }
  }

  private closed(): void {
    if (this.halfMessage) clearTimeout(this.halfMessage);
    this.listener.forget(this);
    const error = new Error(`The TCP connection to ${this.address}:${this.port} closed`);
    for (const listener of [...this.closedListeners]) listener(error);
    this.closedListeners.clear();
  }
}

const PONG = Buffer.from('\r\n');

/** One listening TCP port, and every connection made by either side. */
export class TcpListener {
  readonly transport = 'tcp';
  private readonly byPeer = new Map<string, TcpConnection>();
  private readonly dialing = new Map<string, Promise<TcpConnection>>();
  private readonly sockets = new Set<net.Socket>();
  /** Connections made by peers. */
  private readonly perAddress = new Map<string, number>();

  private constructor(
    private readonly server: net.Server,
    readonly host: string,
    readonly port: number,
    private readonly receive: Receive,
    readonly idle: IdlePolicy,
  ) {}

  static open(host: string, port: number, receive: Receive, idle: IdlePolicy): Promise<TcpListener> {
    const server = net.createServer();
    return new Promise((resolve, reject) => {
      const refuse = (error: NodeJS.ErrnoException) => reject(listenError('tcp', host, port, error));
      server.once('error', refuse);
      server.listen({ port, host, ipv6Only: host.includes(':') }, () => {
        server.off('error', refuse);
        server.on('error', () => undefined);
        const listener = new TcpListener(server, host, (server.address() as net.AddressInfo).port, receive, idle);
        server.on('connection', (socket) => listener.accept(socket));
        resolve(listener);
      });
    });
  }

  get connectionCount(): number {
    return this.sockets.size;
  }

  /** The open connection to that peer, whoever made it. */
  existing(address: string, port: number): TcpConnection | null {
    const connection = this.byPeer.get(`${address}|${port}`);
    return connection?.open ? connection : null;
  }

  /** An open connection, made now if there is none. Rejects after `limitMs`. */
  connect(address: string, port: number, limitMs: number): Promise<TcpConnection> {
    const present = this.existing(address, port);
    if (present) return Promise.resolve(present);
    const key = `${address}|${port}`;
    const dialing = this.dialing.get(key);
    if (dialing) return dialing;
    const attempt = this.dial(address, port, limitMs).finally(() => this.dialing.delete(key));
    this.dialing.set(key, attempt);
    return attempt;
  }

  private dial(address: string, port: number, limitMs: number): Promise<TcpConnection> {
    return new Promise((resolve, reject) => {
      const fromAny = this.host === '0.0.0.0' || this.host === '::';
      const socket = net.connect({ host: address, port, ...(fromAny ? {} : { localAddress: this.host }) });
      this.sockets.add(socket);
      let settled = false;
      const limit = setTimeout(() => socket.destroy(new Error('it did not answer in time')), limitMs);
      const refuse = (reason: string) => {
        clearTimeout(limit);
        this.sockets.delete(socket);
        if (!settled) reject(new Error(`No TCP connection to ${address}:${port}: ${reason}`));
        settled = true;
      };
      socket.on('error', (error) => refuse(error.message));
      socket.on('close', () => refuse('it closed'));
      socket.once('connect', () => {
        clearTimeout(limit);
        settled = true;
        const connection = new TcpConnection(socket, this, this.receive, false);
        this.byPeer.set(`${address}|${port}`, connection);
        resolve(connection);
      });
    });
  }

  /** To a peer's address; connects when needed. */
  pathTo(address: string, port: number, limitMs: number): Path {
    return this.path(address, port, null, limitMs);
  }

  /** Back over a connection; when it is gone, by a new one to the same place (RFC 3261 18.2.2). */
  pathOver(connection: TcpConnection): Path {
    return this.path(connection.address, connection.port, connection, RECONNECT_MS);
  }

  private path(address: string, port: number, first: TcpConnection | null, limitMs: number): Path {
    let connection = first;
    const present = () => (connection?.open ? connection : this.existing(address, port));
    const watching = new Set<(error: Error) => void>();
    let unhook: (() => void) | null = null;
    // who waits for the end of a connection is told also when it is made only afterwards
    const hook = () => {
      if (unhook || !connection || watching.size === 0) return;
      unhook = connection.onClosed((error) => {
        unhook = null;
        for (const closed of [...watching]) closed(error);
      });
    };
    return {
      transport: 'tcp',
      address,
      port,
      reliable: true,
      get alive() {
        return present() !== null;
      },
      localPort: this.port,
      boundHost: this.host,
      toward: (otherAddress, otherPort) => this.pathTo(otherAddress, otherPort, limitMs),
      send: (bytes, failed) => {
        connection = present();
        if (connection) connection.write(bytes);
        else
          this.connect(address, port, limitMs).then(
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

  forget(connection: TcpConnection): void {
    const key = `${connection.address}|${connection.port}`;
    if (this.byPeer.get(key) === connection) this.byPeer.delete(key);
  }

  private accept(socket: net.Socket): void {
    const address = plainAddress(socket.remoteAddress ?? '');
    const before = this.perAddress.get(address) ?? 0;
    if (
      this.sockets.size >= this.idle.limits.connections ||
      before >= this.idle.limits.connectionsPerAddress ||
      address === ''
    ) {
      socket.destroy();
      return;
    }
    this.sockets.add(socket);
    this.perAddress.set(address, before + 1);
    socket.on('close', () => {
      this.sockets.delete(socket);
      const left = (this.perAddress.get(address) ?? 1) - 1;
      if (left > 0) this.perAddress.set(address, left);
      else this.perAddress.delete(address);
    });
    const connection = new TcpConnection(socket, this, this.receive, true);
    this.byPeer.set(`${connection.address}|${connection.port}`, connection);
  }

  close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    return new Promise((resolve) => this.server.close(() => resolve()));
  }
}

/** `::ffff:10.0.0.1` is 10.0.0.1. */
function plainAddress(address: string): string {
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address;
}
