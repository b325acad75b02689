/** One TCP or TLS connection: reading messages, sending messages, and idle timeouts. */
import type net from 'node:net';
import type { Path, Receive, TlsPeer } from './path.js';
import { StreamFramer } from './stream-framer.js';
import { connectionFailure } from './tls.js';

/** A peer that does not read is disconnected before its unsent data fills our memory. */
const MAX_UNSENT_BYTES = 1024 * 1024;
/** The peer closes a connection that it opened: it may be the only way back through NAT. */
const ACCEPTED_IDLE_MS = 3 * 3_600_000;
const KEEPALIVE_MS = 45_000;
const PONG = Buffer.from('\r\n');

/** When an idle connection is closed. */
export interface IdlePolicy {
  /** For connections that we opened: they can be opened again. */
  dialledMs: number;
  /** Limit for an incomplete first or later message. */
  halfMessageMs: number;
  /** True while a call or registration needs the connection to that peer. */
  inUse(address: string, port: number): boolean;
  /** True when the address is not a stranger's. */
  knows(address: string): boolean;
  limits: ConnectionLimits;
}

export interface ConnectionLimits {
  /** Limit for connections of strangers, and the same again for those of known peers. */
  connections: number;
  /** Limit per address: enough for an office full of phones. */
  connectionsPerAddress: number;
}

export const DEFAULT_CONNECTION_LIMITS: ConnectionLimits = { connections: 10_000, connectionsPerAddress: 500 };

/** The part of the listener that its connections use. */
export interface ConnectionHome {
  readonly transport: 'tcp' | 'tls';
  readonly idle: IdlePolicy;
  pathOver(connection: StreamConnection): Path;
  forget(connection: StreamConnection): void;
}

export class StreamConnection {
  private readonly framer: StreamFramer;
  private readonly closedListeners = new Set<(error: Error) => void>();
  private halfMessage: NodeJS.Timeout | null = null;
  private heard = false;
  private failure: Error | null = null;
  readonly address: string;
  readonly port: number;

  constructor(
    private readonly socket: net.Socket,
    private readonly home: ConnectionHome,
    receive: Receive,
    /** The peer opened it: it must send a message soon. */
    private readonly accepted: boolean,
    /** The peer that was verified; null when the peer opened the connection, or without TLS. */
    readonly tls: TlsPeer | null,
  ) {
    this.address = plainAddress(socket.remoteAddress ?? '');
    this.port = socket.remotePort ?? 0;
    const back = home.pathOver(this);
    const source = { transport: home.transport, address: this.address, port: this.port, back };
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
    const idleMs = accepted ? ACCEPTED_IDLE_MS : home.idle.dialledMs;
    socket.setTimeout(idleMs, () => {
      if (!home.idle.inUse(this.address, this.port)) socket.destroy();
      else socket.setTimeout(idleMs);
    });
    socket.on('data', (chunk) => {
      this.framer.push(chunk);
      this.watchHalfMessage();
    });
    socket.on('error', (error) => {
      this.failure = error; // 'close' follows
    });
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
      this.halfMessage = setTimeout(() => this.socket.destroy(), this.home.idle.halfMessageMs);
    }
  }

  private closed(): void {
    if (this.halfMessage) clearTimeout(this.halfMessage);
    this.home.forget(this);
    const why = this.failure === null ? '' : `: ${connectionFailure(this.failure)}`;
    const where = `${this.home.transport.toUpperCase()} connection to ${this.address}:${this.port}`;
    const error = new Error(`The ${where} closed${why}`);
    for (const listener of [...this.closedListeners]) listener(error);
    this.closedListeners.clear();
  }
}

/** `::ffff:10.0.0.1` becomes 10.0.0.1. */
export function plainAddress(address: string): string {
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address;
}
