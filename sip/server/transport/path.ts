/** The path to a peer, independent of the transport. */

export type TransportName = 'udp' | 'tcp' | 'tls';

/** The identity to verify on an outbound TLS connection. */
export interface TlsPeer {
  /** The name or address that its certificate must contain (RFC 5922 section 4): that of the URI, not of a DNS answer. */
  name: string;
  /** Name of the authorities and client certificate to use; empty: the server's own. */
  trust: string;
}

export interface TransportEndpoint {
  transport: TransportName;
  address: string;
  port: number;
}

/** A path to one peer over one of our sockets. `failed` is called at most once per `send`, and never synchronously. */
export interface Path extends TransportEndpoint {
  readonly reliable: boolean;
  /** True when it can be used without connecting first. */
  readonly alive: boolean;
  /** The port of its listener, for Via and Contact. */
  readonly localPort: number;
  /** The host its listener is bound to, perhaps `0.0.0.0`. */
  readonly boundHost: string;
  /** The identity that the far end has proved or must prove; null without TLS, and on connections that the far end opened. */
  readonly tls: TlsPeer | null;
  /** A path from the same listener to another address. */
  toward(address: string, port: number): Path;
  send(bytes: Buffer, failed?: (error: Error) => void): void;
  /** Calls back when the underlying connection closes; never for UDP. Returns a function that removes the callback. */
  onClosed(closed: (error: Error) => void): () => void;
}

/** The source of a message. */
export interface Source extends TransportEndpoint {
  /** The path back over the same socket or connection, to exactly that address and port. */
  readonly back: Path;
}

export type Receive = (bytes: Buffer, source: Source) => void;

/** The error for a port that cannot be opened, as one sentence for the operator. */
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
