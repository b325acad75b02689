/**
 * The words of the SIP side that the rest of Trunkline may use: an incoming call, a leg, and the gateway that makes both.
 * Nothing here is a class; `dialog.ts`, `inbound.ts` and `outbound.ts` implement it.
 */
import type { HangupCause } from './cause.js';

/** Who is at one end of a call, as the SIP headers say it. */
export interface PhoneIdentity {
  /** The identity as a person writes it: `+15551234567`, `1000`, or `anonymous`. Never empty. */
  number: string;
  /** The whole URI, `sip:` or `tel:`, without angle brackets and header parameters. */
  uri: string;
  displayName: string | null;
}

/** The trunk that vouches for a source: by address (CIDR), or by digest (a registered user, or a challenged INVITE). */
export interface TrunkMatch {
  trunkId: string;
  /** null: a trunk shared by all organizations. */
  organizationId: string | null;
  name: string;
  trustedBy: 'address' | 'digest';
}

/** A SIP peer as seen on the wire. */
export interface Peer {
  transport: 'udp' | 'tcp' | 'tls' | 'ws' | 'wss';
  address: string;
  port: number;
}

/** Who ended a leg. `local` is us: any call of `hangup`. */
export interface LegEnd {
  cause: HangupCause;
  by: 'remote' | 'local' | 'system';
  /** SIP status or Q.850 number behind the cause, for the event. */
  detail?: { sipStatus?: number; q850?: number; text?: string };
}

/** An INVITE that passed every check of the SIP layer and waits for an answer. Exactly one of `answer` and `reject` ends it. */
export interface IncomingCall {
  sipCallId: string;
  /** Header fields of the INVITE, names in lower case, repeated fields joined by ", ". */
  headers: Readonly<Record<string, string>>;
  from: PhoneIdentity;
  to: PhoneIdentity;
  trunk: TrunkMatch;
  /** Other trunks that vouch for the same source as well (two organizations at one carrier): the called number decides. */
  otherTrunks: readonly TrunkMatch[];
  peer: Peer;
  /** Our address that routes to the peer: what belongs into the SDP. */
  localAddress: string;
  /** The SDP offer; null for a delayed offer (RFC 3261 13.3.1.4): then `answer` takes an offer and `confirmed` brings the answer. */
  offer: string | null;
  /** The leg whose place this call wants (`Replaces`, RFC 3891), a confirmed one of ours; null: a call like any other. */
  replaces: CallLeg | null;
  receivedAt: Date;
  /** `performance.now()` at receipt: durations are measured on the monotonic clock. */
  receivedAtMs: number;
  /** Aborts when the caller cancels or the INVITE dies before a final answer. */
  cancelled: AbortSignal;
  /** 180, or 183 when `sdp` is given. `reliable`: with 100rel (RFC 3262) when the caller supports it. */
  ring(options?: { sdp?: string; reliable?: boolean }): Promise<void>;
  /** 200. Resolves when the 2xx is sent. Rejects with `SipError` `cancelled` when the caller was faster. */
  answer(sdp: string, headers?: Record<string, string>): Promise<CallLeg>;
  /** As `answer`, in the place of `replaces`: whoever holds that leg goes on with this phone, and the dialog before gets BYE. */
  replace(sdp: string): Promise<Pick<CallLeg, 'confirmed'>>;
  /**
   * Final refusal. A `Reason` header is made from `reason` unless `headers` has one. No-op after a final answer. Resolves when the refusal is
   * out and in the trace, or when nobody can say so any more; never rejects.
   */
  reject(refusal: { status: number; reason?: string; headers?: Record<string, string> }): Promise<void>;
}

/** An in-dialog offer from the far side. `sdp` in the result is our answer (or, for a bodiless re-INVITE, our offer). */
export type ReofferResult = { sdp: string; acked?: (answer: string) => void } | { refuse: number };

/** `refused`: the REFER itself, and nobody was called. */
export type TransferResult =
  | { status: 'accepted' | 'completed' }
  | { status: 'failed'; sipStatus: number; refused?: true };

/** One confirmed SIP dialog of a call. */
export interface CallLeg {
  sipCallId: string;
  /** The far side's SDP of the INVITE exchange; empty while a delayed offer is unanswered. */
  readonly remoteSdp: string;
  /** When the 200 was sent (inbound) or received (outbound), on the clock of `performance.now()`: billing starts here. */
  readonly answeredAtMs: number;
  /** The ACK arrived (inbound) or was sent (outbound). `sdp` when the ACK carried the answer. Rejects if the leg ends first. */
  confirmed: Promise<{ sdp?: string }>;
  /** Resolves exactly once, whoever hung up. */
  ended: Promise<LegEnd>;
  /**
   * re-INVITE with a new offer; a function makes it when its turn has come, and anew after each glare. Retries glare (491) as RFC 3261
   * 14.1 asks, until the signal aborts.
   */
  reoffer(offer: string | (() => Promise<string>), signal: AbortSignal): Promise<{ ok: string } | { refused: number }>;
  /** Answers re-INVITE and UPDATE of the far side. Without a handler they are answered with the last SDP. */
  onReoffer(handler: (offer: string | null) => Promise<ReofferResult>): void;
  /** INFO bodies (`application/dtmf-relay` and others). */
  onInfo(handler: (info: { contentType: string; body: string }) => void): void;
  sendInfo(info: { contentType: string; body: string }, signal: AbortSignal): Promise<number>;
  /**
   * A REFER from the far side: answered 202 when the handler accepts, else with its status; 403 without a handler. The far side is told
   * of the end by NOTIFY: the SIP status in `outcome`, or success at once without it.
   */
  onRefer(
    handler: (refer: {
      to: string;
      replaces: string | null;
    }) => Promise<{ accept: true; outcome?: Promise<number> } | { refuse: number }>,
  ): void;
  /** REFER to the far side; follows the NOTIFYs until a final sipfrag or the signal. */
  transfer(to: string, signal: AbortSignal): Promise<TransferResult>;
  /** BYE. Idempotent; resolves when the BYE transaction ended or its limit passed. */
  hangup(cause?: HangupCause): Promise<void>;
  /** What is needed to send a BYE for this dialog from another process. */
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
  /** Whose authorities count for a TLS connection to it: a `Gateway.trust`; absent: the server's own. */
  trust?: string;
}

/** What is needed to take back an INVITE of ours from another process: it may ring there, and be answered. */
export interface PendingInvite {
  callId: string;
  /** Its start line and the headers that name its transaction; no credentials, no SDP. */
  head: string;
  /** Where it was sent: a SIP URI. */
  next: string;
  /** An external SIP server's name for its transaction. */
  transactionId: string;
}

/** What a far end may still believe in when our process is gone. */
export type LeftBehind = DialogSnapshot | PendingInvite;

/** Where an outbound INVITE may go. */
export interface Gateway {
  /**
   * `sip:host[:port][;transport=tcp]`: the called number becomes the user part. With a user part the URI is called as it is.
   * `sip:<username>` of a trunk that registers with us: wherever that user is registered now.
   */
  uri: string;
  auth?: { username: string; password: string };
  /** Whose authorities and client certificate count for TLS connections to it: a name in `SipGateway.secure`. Default: the server's own. */
  trust?: string;
}

export interface DialRequest {
  /** The Call-ID of all INVITEs; made here when absent. */
  sipCallId?: string;
  to: string;
  from: string;
  fromDisplayName?: string;
  /** The host part of From; ours when absent. */
  fromDomain?: string;
  /** Tried in order; the next one only after a failure that allows it (5xx, 408, transport failure). */
  gateways: Gateway[];
  headers?: Record<string, string>;
  /** The offer for this gateway: its `localAddress` decides the address in the SDP. */
  offerFor(gateway: Gateway, localAddress: string): Promise<string>;
  onProgress?(progress: { gateway: Gateway; status: number; branch: string; sdp?: string }): void;
  /** An INVITE went out, also one more for a gateway that challenged us: what takes it back when this process dies. */
  onInvite?(pending: PendingInvite): void;
  /** A gateway failed, and the next one is tried. */
  onFailover?(failed: { gateway: Gateway; error: SipError }): void;
  ringTimeoutMs: number;
  /** Users chose the address: private, loopback and link-local ones are refused after the look-up (`destination_not_allowed`). */
  publicOnly?: boolean;
  /** The caller has other gateways besides these: a last one that is silent is given up early as well. */
  moreAreLeft?: boolean;
}

/** Whether a gateway answers our OPTIONS. */
export type GatewayState = 'unknown' | 'up' | 'down';

/** A gateway that we keep an eye on between calls. */
export interface KeptGateway {
  uri: string;
  /** We register there with this user; `domain` is the host part of our address of record, the registrar's when absent. */
  register: { username: string; password: string; domain?: string } | null;
  /** As in `Gateway`. */
  trust?: string;
}

/** One line of a call's SIP trace. */
export interface SipTraceEntry {
  at: string;
  direction: 'received' | 'sent';
  peer: Peer | null;
  /** The message as text; credentials in Authorization headers are blanked. */
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
  /** Where peers reach us: addresses of our SIP server, or what the external ones that are connected tell. */
  readonly addresses: readonly { transport: string; host: string; port: number }[];
  /** One handler. A rejected promise of it answers 500 and is counted. */
  onIncomingCall(handler: (call: IncomingCall) => Promise<void>): void;
  /** Refused INVITEs that never became a call (unknown source and the like), for the log and the metrics. */
  onRefusedInvite(handler: (refused: RefusedInvite) => void): void;
  /** Dials until a gateway answers. Rejects with `SipError` (`cause`, `sipStatus`) when none did, or when the signal aborted. */
  dial(request: DialRequest, signal: AbortSignal): Promise<CallLeg>;
  /** CIDRs whose messages the embedded server does not count against them: carriers. */
  trust(nets: readonly string[]): void;
  /** BYE for a dialog of a dead process, CANCEL for an INVITE of it. */
  endOrphan(left: LeftBehind, cause: HangupCause): Promise<void>;
  /** The trace ring of one call, oldest first; empty when unknown. Freed ten minutes after the call's end, or by `forgetTrace`. */
  trace(sipCallId: string): SipTraceEntry[];
  forgetTrace(sipCallId: string): void;
  counters(): SipCounters;
  /** True while the control connection to a SIP server is up. */
  readonly connected: boolean;
  /** A sentence for each external SIP server that is not connected. */
  readonly problems: readonly string[];
  /** From now on new INVITEs get 503 with Retry-After. */
  drain(): void;
  /** Hangs up what is left after `graceMs`, then closes everything. */
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

/** An error of the SIP layer that a person or the record can be told about. */
export class SipError extends Error {
  constructor(
    /** One of our codes: `cancelled`, `rejected`, `timeout`, `unreachable`, `not_connected`, `protocol`. */
    readonly code: 'cancelled' | 'rejected' | 'timeout' | 'unreachable' | 'not_connected' | 'protocol',
    readonly hangupCause: HangupCause,
    message: string,
    readonly sipStatus?: number,
  ) {
    super(message);
    this.name = 'SipError';
  }

  /** Another gateway may do better where this one failed; nobody is called twice who was reached and decided. */
  get mayFailOver(): boolean {
    if (this.code === 'unreachable') return true;
    const status = this.code === 'rejected' ? (this.sipStatus ?? 0) : 0;
    return status === 408 || (status >= 500 && status < 600);
  }
}
