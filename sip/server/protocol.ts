/** What the SIP server's thread and its parent say to each other. Everything here can be cloned (`mediaLagMs` and `onFailure` stay with the parent). */
import type { AdmissionLimits } from './overload/admission.js';
import type { SourceLimits } from './overload/sources.js';
import type { TimerValues } from './transactions/timers.js';
import type { ConnectionLimits } from './transport/connection.js';
import type { TlsSettings } from './transport/tls.js';

export interface SipServerOptions {
  /** Port 0 takes any free one. UDP and TCP on the same port are two entries. */
  listen: { transport: 'udp' | 'tcp' | 'tls'; host: string; port: number }[];
  /** Certificates and authorities, as PEM. */
  tls?: TlsSettings;
  /** Advertised in Via and Contact to peers outside `localNets`. */
  externalIp?: string;
  /** CIDRs. */
  localNets?: string[];
  /** RFC 3261 17.1.1.1 and table 4; tests make them short. Defaults 500, 4000, 5000. */
  timersMs?: Partial<TimerValues>;
  /** Product token of `User-Agent` and `Server`, when the application gave none. */
  product?: string;
  /** What a stranger may cost, and when new calls are refused; see `sources.ts`, `admission.ts` and `transport/connection.ts` for the defaults. */
  limits?: Partial<SourceLimits & AdmissionLimits & ConnectionLimits>;
  /** CIDRs whose messages are not counted. Default: loopback. */
  trusted?: readonly string[];
  /** Methods of requests that the network is to lose, over UDP: for a simulated carrier. */
  lostMethods?: readonly string[];
  /** Of the tokens for the flows of registered phones (`flows/flow-token.ts`). Absent: calls of other nodes are not passed on to them. */
  flowKey?: string;
  /** How late the media threads run; asked for ten times a second. */
  mediaLagMs?: () => number;
  /** An unexpected exception in the worker: it cost one message, and should be logged. */
  onFailure?: (stack: string) => void;
}

export interface SipServerStats {
  invitesReceived: number;
  messagesReceived: number;
  malformed: number;
  retransmissionsSent: number;
  /**
   * New calls refused for overload. Messages dropped: of an address that sends too fast, of strangers who together send too fast, of an
   * address that is silenced. How many addresses were silenced.
   */
  shed: { overload: number; rateLimited: number; crowded: number; silenced: number; offenders: number };
  /** How late the event loop of the thread runs. */
  lagMs: number;
  /** What is alive now; tests assert that these return to zero. */
  live: { transactions: number; dialogs: number; timers: number; tcpConnections: number };
}

/** An INVITE whose server, or node, died before its final answer. */
export interface InviteToRefuse {
  /** Its start line and the headers that a response copies. */
  raw: string;
  /** Of the provisional answers; empty: there was none. */
  localTag: string;
  peer: { transport: string; address: string; port: number };
}

/** An INVITE of ours whose server died before its final answer. */
export interface InviteToCancel {
  /** Its start line and the headers of its transaction. */
  head: string;
  /** Where it was sent: a SIP URI. */
  next: string;
}

/** What the parent sends. */
export type FromParent =
  | { kind: 'stats'; id: number }
  | { kind: 'load'; lagMs: number }
  /** The answer to the worker's `ask`: how long it takes tells how long messages wait for the main thread. */
  | { kind: 'alive' }
  | { kind: 'takenUp'; transactionIds: readonly string[] }
  | { kind: 'trust'; nets: readonly string[] }
  | { kind: 'secure'; tls: TlsSettings }
  | { kind: 'refuse'; invite: InviteToRefuse }
  | { kind: 'cancelInvite'; invite: InviteToCancel }
  | { kind: 'close' };
