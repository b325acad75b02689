/**
 * The types through which the rest of Trunkline uses the SIP side: an incoming call, a leg, and the gateway that makes both. Nothing here
 * is a class; `inbound/incoming-invite.ts`, `dialog/dialog-leg.ts` and `gateway.ts` implement them.
 */
import type { HangupCause } from './cause.js';

/** The party at one end of a call, as the SIP headers name it. */
export interface PhoneIdentity {
  /** The identity as users write it: `+15551234567`, `1000`, or `anonymous`. Never empty. */
  number: string;
  /** The whole URI, `sip:` or `tel:`, without angle brackets and header parameters. */
  uri: string;
  displayName: string | null;
}

/** The trunk that a source belongs to: proven by address (CIDR), or by digest (a registered user, or a challenged INVITE). */
export interface TrunkMatch {
  trunkId: string;
  /** null: a trunk shared by all organizations. */
  organizationId: string | null;
  name: string;
  trustedBy: 'address' | 'digest';
}

/** Takes INVITEs of other nodes of the installation; `subject` is what the other node named in its pass. */
export type NodeCallHandler = (call: IncomingCall, subject: string) => Promise<void>;

/** A SIP peer as seen on the wire. */
export interface Peer {
  transport: 'udp' | 'tcp' | 'tls' | 'ws' | 'wss';
  address: string;
  port: number;
}

/** How a leg ended, and which side ended it. `local`: we called `hangup`. */
export interface LegEnd {
  cause: HangupCause;
  by: 'remote' | 'local' | 'system';
  /** SIP status or Q.850 number behind the cause, for the event. */
  detail?: { sipStatus?: number; q850?: number; text?: string };
}

/** An INVITE that passed every check of the SIP layer and waits for its answer. Exactly one of `answer`, `replace` and `reject` ends it. */
export interface IncomingCall {
  sipCallId: string;
  /** Header fields of the INVITE, names in lower case; the values of a repeated field are joined by ", ". */
  headers: Readonly<Record<string, string>>;
  from: PhoneIdentity;
  to: PhoneIdentity;
  trunk: TrunkMatch;
  /** Other trunks that match the same source (two organizations at one carrier): the called number decides between them. */
  otherTrunks: readonly TrunkMatch[];
  peer: Peer;
  /** Our address on the route to the peer, for the SDP. */
  localAddress: string;
  /**
   * The SDP offer; null for a delayed offer (RFC 3261 13.3.1.4): then `answer` sends our offer and `confirmed` resolves with the caller's
   * answer.
   */
  offer: string | null;
  /** The confirmed leg that this INVITE replaces (`Replaces`, RFC 3891); null without that header. */
  replaces: CallLeg | null;
  receivedAt: Date;
  /** `performance.now()` at receipt: durations are measured on the monotonic clock. */
  receivedAtMs: number;
  /** Aborts when the caller cancels or the INVITE dies before a final answer. */
  cancelled: AbortSignal;
  /** What another process needs to refuse it; null once there is a leg. */
  unanswered: UnansweredInvite | null;
  /**
   * From here on the call waits for something else than this process, such as the disk: that wait does not count as overload of this
   * process. No effect when a response was sent, and with an external SIP server.
   */
  takenUp(): void;
  /** 180, or 183 when `sdp` is given. `reliable`: with 100rel (RFC 3262) when the caller supports it. */
  ring(options?: { sdp?: string; reliable?: boolean }): Promise<void>;
  /** Sends 200. Resolves when the 2xx is sent. Rejects with `SipError` `cancelled` when the caller's CANCEL arrived first. */
  answer(sdp: string, headers?: Record<string, string>): Promise<CallLeg>;
  /**
   * Final refusal. A `Reason` header is made from `reason` unless `headers` has one. No-op after a final answer. Resolves when the refusal
   * is sent and in the trace, or when that can no longer be confirmed; never rejects.
   */
  reject(refusal: { status: number; reason?: string; headers?: Record<string, string> }): Promise<void>;
}

/** The answer to an in-dialog offer from the far side. `sdp` is our answer (or, for a bodiless re-INVITE, our offer). */
export type ReofferResult = { sdp: string; acked?: (answer: string) => void } | { refuse: number };

/** `refused`: the far side refused the REFER itself and placed no call. */
export type TransferResult =
  | { status: 'accepted' | 'completed' }
  | { status: 'failed'; sipStatus: number; refused?: true };

/** One confirmed SIP dialog of a call. */
export interface CallLeg {
  sipCallId: string;
  /** The far side's SDP of the INVITE exchange; empty until a delayed offer is answered. */
  readonly remoteSdp: string;
  /** When the 200 was sent (inbound) or received (outbound), on the clock of `performance.now()`: billing starts here. */
  readonly answeredAtMs: number;
  /**
   * Resolves when the ACK arrived (inbound) or was sent (outbound). `sdp` when the ACK carried the answer. Rejects if the leg ends first.
   */
  confirmed: Promise<{ sdp?: string }>;
  /** Resolves exactly once, whichever side hung up. */
  ended: Promise<LegEnd>;
  /**
   * Sends a re-INVITE with a new offer; a function makes the offer when its turn has come, and again after each glare. Retries glare (491)
   * as RFC 3261 14.1 requires, until the signal aborts.
   */
  reoffer(offer: string | (() => Promise<string>), signal: AbortSignal): Promise<{ ok: string } | { refused: number }>;
  /** Answers the far side's re-INVITE and UPDATE. Without a handler they are answered with the last SDP. */
  onReoffer(handler: (offer: string | null) => Promise<ReofferResult>): void;
  /** Bodies of incoming INFO requests (`application/dtmf-relay` and others). */
  onInfo(handler: (info: { contentType: string; body: string }) => void): void;
  sendInfo(info: { contentType: string; body: string }, signal: AbortSignal): Promise<number>;
  /**
   * A REFER from the far side: answered 202 when the handler accepts, else with the handler's status; 403 without a handler. A NOTIFY
   * reports the outcome: the SIP status in `outcome`, or success at once without it.
   */
  onRefer(
    handler: (refer: {
      to: string;
      replaces: string | null;
    }) => Promise<{ accept: true; outcome?: Promise<number> } | { refuse: number }>,
  ): void;
  /** Sends REFER to the far side; follows the NOTIFYs until a final sipfrag or the signal. */
  transfer(to: string, signal: AbortSignal): Promise<TransferResult>;
  /** Sends BYE. Idempotent; resolves when the BYE transaction ended or its limit passed. */
  hangup(cause?: HangupCause): Promise<void>;
  /** The dialog state that another process needs to send a BYE. */
  snapshot(): DialogSnapshot;
}

export interface DialogSnapshot {
  callId: string;
  localTag: string;
  remoteTag: string;
  localUri: string;
  remoteUri: string;
  remoteTarget: string;
  routeSet: string[];
  localCseq: number;
  peer: Peer;
  localAddress: string;
  /** Name of the TLS trust settings (`Gateway.trust`) for a connection to the peer; absent: the server's own. */
  trust?: string;
}

/** The state that another process needs to cancel an INVITE of ours, which may still ring there and be answered. */
export interface PendingInvite {
  callId: string;
  /** Its start line and the headers that identify its transaction; no credentials, no SDP. */
  head: string;
  /** Where it was sent: a SIP URI. */
  next: string;
  /** An external SIP server's identifier of the transaction. */
  transactionId: string;
}

/** The state that another process needs to refuse an INVITE that we never answered. */
export interface UnansweredInvite {
  callId: string;
  /** Its start line and the headers that a response copies; no SDP. */
  raw: string;
  /** Of our provisional responses; empty: there was none. */
  localTag: string;
  peer: Peer;
  /** An external SIP server's identifier of the transaction. */
  transactionId: string;
}

/** What the far end may still hold after our process died. */
export type UnfinishedDialog = DialogSnapshot | PendingInvite | UnansweredInvite;

/** Where an outbound INVITE may go. */
export interface Gateway {
  /**
   * `sip:host[:port][;transport=tcp]`: the called number becomes the user part. A URI with a user part is called unchanged.
   * `sip:<username>` of a trunk that registers with us: the current contacts of that user.
   */
  uri: string;
  auth?: { username: string; password: string };
  /**
   * Name in `SipGateway.secure` of the certificate authorities and the client certificate for TLS connections to it. Default: the server's
   * own.
   */
  trust?: string;
}

export interface DialRequest {
  /** The Call-ID of all INVITEs; generated when absent. */
  sipCallId?: string;
  to: string;
  from: string;
  fromDisplayName?: string;
  /** The host part of From; ours when absent. */
  fromDomain?: string;
  /** Tried in order; the next one only after a failure that allows it (5xx, 408, transport failure). */
  gateways: Gateway[];
  headers?: Record<string, string>;
  /** Makes the offer for this gateway; `localAddress` is the address for the SDP. */
  offerFor(gateway: Gateway, localAddress: string): Promise<string>;
  onProgress?(progress: { gateway: Gateway; status: number; branch: string; sdp?: string }): void;
  /** An INVITE was sent, or sent again with credentials: the state to cancel it with when this process dies. */
  onInvite?(pending: PendingInvite): void;
  /** A gateway failed, and the next one is tried. */
  onFailover?(failed: { gateway: Gateway; error: SipError }): void;
  ringTimeoutMs: number;
  /**
   * The address comes from a user: private, loopback and link-local addresses are refused after the look-up (`destination_not_allowed`).
   */
  publicOnly?: boolean;
  /** The address comes from a user of this organization: a number at another's carrier is refused (`destination_not_allowed`). */
  writtenBy?: string;
  /** The caller will try other gateways after these: a silent last gateway is given up early as well. */
  moreAreLeft?: boolean;
}

/** Whether a gateway answers our OPTIONS requests. */
export type GatewayState = 'unknown' | 'up' | 'down';

/** A gateway that is probed, and registered with, between calls. */
export interface MonitoredGateway {
  uri: string;
  /** Register there as this user; `domain` is the host part of our address of record, the registrar's when absent. */
  register: { username: string; password: string; domain?: string } | null;
  /** As in `Gateway`. */
  trust?: string;
}

/** An INVITE that asks a media server for an endpoint. */
export interface MediaServerInvite {
  uri: string;
  headers: Record<string, string>;
  /** Absent: the media server offers. */
  offer?: string;
}

/** One message of a call's SIP trace. */
export interface SipTraceEntry {
  at: string;
  direction: 'received' | 'sent';
  peer: Peer | null;
  /** The message as text; credentials in Authorization headers and SRTP keys are blanked. */
  message: string;
}

export interface SipCounters {
  incomingCalls: number;
  /** Refused before the call logic, by reason: `blocked_source`, `malformed`, `draining`, … */
  refused: Record<string, number>;
  activeLegs: number;
  registrations: number;
}

/** The SIP side of the process. */
export interface SipGateway {
  /** The addresses at which peers reach us: those of the embedded server, or those that connected external servers report. */
  readonly addresses: readonly { transport: string; host: string; port: number }[];
  /** Whether a SIP URI names one of these addresses, so that a call to it would come back to us. */
  isOurs(uri: string): boolean;
  /** The handler of incoming calls; there is one. If its promise rejects, the call is answered 500 and counted. */
  onIncomingCall(handler: (call: IncomingCall) => Promise<void>): void;
  /**
   * The handler of INVITEs that other nodes of this installation send for a purpose. They are taken while this node drains, and belong to no
   * trunk: `trunk.trunkId` is empty.
   */
  onNodeCall(purpose: string, handler: NodeCallHandler): void;
  /** Header fields by which another node recognizes our INVITE, within half a minute. Empty when there are no other nodes. */
  nodePass(purpose: string, subject: string, sipCallId: string): Record<string, string>;
  /** `HOST:PORT;transport=…`, at which other nodes reach this one by SIP. Throws `SipError` while no SIP server is connected. */
  nodeAddress(): Promise<string>;
  /** Refused INVITEs that never became a call (unknown source and the like), for the log and the metrics. */
  onRefusedInvite(handler: (refused: RefusedInvite) => void): void;
  /** Dials until a gateway answers. Rejects with `SipError` (`cause`, `sipStatus`) when none did, or when the signal aborted. */
  dial(request: DialRequest, signal: AbortSignal): Promise<CallLeg>;
  /** CIDRs of known peers (carriers): the embedded server's limits for strangers do not apply to them. */
  trust(nets: readonly string[]): void;
  /** Sends BYE for a dialog, or CANCEL for an INVITE, of a process that died. */
  endOrphan(left: UnfinishedDialog, cause: HangupCause): Promise<void>;
  /** The SIP trace of one call, oldest message first; empty when unknown. Freed ten minutes after the call's end, or by `forgetTrace`. */
  trace(sipCallId: string): SipTraceEntry[];
  forgetTrace(sipCallId: string): void;
  counters(): SipCounters;
  /** True while the control connection to a SIP server is up. */
  readonly connected: boolean;
  /** One sentence for each external SIP server that is not connected. */
  readonly problems: readonly string[];
  /** From now on OPTIONS outside of dialogs are answered 503: balancers that probe us send no more calls. */
  leave(): void;
  /** From now on new INVITEs are refused with 503 and Retry-After. */
  drain(): void;
  /** Hangs up the remaining calls after `graceMs`, then closes everything. */
  stop(graceMs: number): Promise<void>;
}

export interface RefusedInvite {
  sipCallId: string;
  from: string;
  to: string;
  peer: Peer;
  status: number;
  cause: HangupCause;
  at: Date;
}

/** An error of the SIP layer, with a sentence for people and a cause for the call's record. */
export class SipError extends Error {
  constructor(
    readonly code: 'cancelled' | 'rejected' | 'timeout' | 'unreachable' | 'not_connected' | 'protocol',
    readonly hangupCause: HangupCause,
    message: string,
    readonly sipStatus?: number,
  ) {
    super(message);
    this.name = 'SipError';
  }

  /** True when another gateway may succeed. False when the called party was reached and decided: it must not be called twice. */
  get mayFailOver(): boolean {
    if (this.code === 'unreachable') return true;
    const status = this.code === 'rejected' ? (this.sipStatus ?? 0) : 0;
    // 430 (RFC 5626 5.3.1): the connection to the phone is gone, at the node that had it
    return status === 408 || status === 430 || (status >= 500 && status < 600);
  }
}
