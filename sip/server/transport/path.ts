/** The way to a peer, whatever carries it. */

export type TransportName = 'udp' | 'tcp' | 'tls';

/** Who must be at the other end of a TLS connection of ours. */
export interface TlsPeer {
  /** The name or address its certificate has to bear (RFC 5922 section 4): the one of the URI, whatever DNS says of it. */
  name: string;
  /** Whose authorities and client certificate count; empty: the server's own. */
  trust: string;
}

export interface TransportEndpoint {
  transport: TransportName;
  address: string;
  port: number;
}

/** A way to one peer over one of our sockets. `failed` is called at most once per `send`, never from inside it. */
export interface Path extends TransportEndpoint {
  readonly reliable: boolean;
  /** Whether it can be used without connecting first. */
  readonly alive: boolean;
  /** The port of the listener this way belongs to: what Via and Contact name. */
  readonly localPort: number;
  /** The host that listener was given, perhaps `0.0.0.0`. */
  readonly boundHost: string;
  /** Who the far end proved or has to prove to be; null without TLS, and on connections that the far end made. */
  readonly tls: TlsPeer | null;
  /** From the same listener to another place. */
  toward(address: string, port: number): Path;
  send(bytes: Buffer, failed?: (error: Error) => void): void;
  /** Calls back when the connection under it closes; never for UDP. Returns the undo. */
  onClosed(closed: (error: Error) => void): () => void;
}

/** Where a message came from. */
export interface Source extends TransportEndpoint {
  /** Back over the same socket or connection, to exactly that address and port. */
  readonly back: Path;
}

export type Receive = (bytes: Buffer, source: Source) => void;

/** A port is taken or an address is not ours: one sentence for the operator. */
export function listenError(transport: TransportName, host: string, port: number, error: NodeJS.ErrnoException): Error {
  const where = `${transport.toUpperCase()} ${host}:${port}`;
  const advice: Record<string, string> = {
    EADDRINUSE: `${where} is already in use: stop the other program or choose another SIP port.`,
    EADDRNOTAVAIL: `${where} is not an address of this machine: listen on 0.0.0.0 or on one of its own addresses.`,
    EACCES: `${where} may not be opened by this user: choose a port above 1023 or grant the right to bind it.`,
  };
  const sentence = advice[error.code ?? ''] ?? `${where} cannot be opened for SIP: ${error.message}.`;
  return Object.assign(new Error(sentence), { code: error.code ?? 'ELISTEN' });
}
