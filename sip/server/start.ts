/** The embedded SIP server as its parent sees it: a worker that speaks drachtio's control protocol on a loopback TCP port. */

export interface SipServerOptions {
  /** Port 0 takes any free one. UDP and TCP on the same port are two entries. */
  listen: { transport: 'udp' | 'tcp'; host: string; port: number }[];
  /** Advertised in Via and Contact to peers outside `localNets`. */
  externalIp?: string;
  /** CIDRs. */
  localNets?: string[];
  /** RFC 3261 17.1.1.1 and table 4; tests make them short. Defaults 500, 4000, 5000. */
  timersMs?: { t1?: number; t2?: number; t4?: number };
  /** Product token of `User-Agent` and `Server`, when the application gave none. */
  product?: string;
}

export interface SipServerStats {
  invitesReceived: number;
  messagesReceived: number;
  malformed: number;
  retransmissionsSent: number;
  /** What is alive now; tests assert that these return to zero. */
  live: { transactions: number; dialogs: number; timers: number; tcpConnections: number };
}

export interface SipServer {
  /** Where drachtio-srf connects, and the random secret it must know. */
  control: { host: string; port: number; secret: string };
  addresses: { transport: 'udp' | 'tcp'; host: string; port: number }[];
  /** Resolves if the worker dies by itself. */
  died: Promise<Error>;
  stats(): Promise<SipServerStats>;
  /** Closes sockets, timers and the worker. Idempotent. */
  close(): Promise<void>;
}

/** Starts the worker. Rejects with one clear sentence when a port is taken or an address is not ours. */
export declare function startSipServer(options: SipServerOptions): Promise<SipServer>;
