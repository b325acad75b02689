/**
 * Requests outside of a dialog: the checks an INVITE must pass before it becomes a call, REGISTER, OPTIONS, and refusals of other methods.
 */

import type { Challenger } from '../auth/challenger.js';
import { type NodePasses, nodePassHeader } from '../auth/node-pass.js';
import { type HangupCause, refusalOf } from '../cause.js';
import type { DialogLeg } from '../dialog/dialog-leg.js';
import { supported } from '../dialog/dialog-leg.js';
import type { DialogRegistry } from '../dialog/dialog-registry.js';
import { replacesOf } from '../dialog/replaces-header.js';
import { peerOf } from '../drachtio/connection.js';
import { type HeaderLines, listElements, nameAddress, readHeaders } from '../drachtio/header.js';
import type { AdvertisedAddresses } from '../drachtio/local-address.js';
import type { Stack, StackRequest, StackResponse } from '../drachtio/types.js';
import type { WireClock } from '../drachtio/wire-clock.js';
import type { IncomingCall, NodeCallHandler, Peer, RefusedInvite, TrunkMatch } from '../leg.js';
import { rateLimited, type SipLog } from '../log.js';
import type { Bindings } from '../registrar/bindings.js';
import type { Registrar, RegistrarAnswer } from '../registrar/registrar.js';
import type { SipTrace } from '../trace.js';
import { asMatch, type TrunkTable } from '../trunk/trunk-table.js';
import { calledIdentity, callerIdentity, parseUri } from './identity.js';
import { IncomingInvite, type InviteFacts, sendRefusal } from './incoming-invite.js';
import { sdpOf } from './sdp-body.js';

export interface InboundContext {
  trunks: TrunkTable;
  bindings: Bindings;
  challenger: Challenger;
  registrar: Registrar;
  /** null: there are no other nodes. */
  passes: NodePasses | null;
  addresses: AdvertisedAddresses;
  live: DialogRegistry;
  trace: SipTrace;
  log: SipLog;
  clock: WireClock;
  /** An INVITE waits for something else than this process; see `IncomingCall`. */
  takenUp(transactionId: string): void;
}

/** Methods that we ask the server to route to us. It refuses other methods itself. */
const routed = ['invite', 'register', 'options', 'message', 'info', 'notify', 'subscribe', 'publish', 'refer'];
const allow = 'INVITE, ACK, CANCEL, BYE, OPTIONS, INFO, UPDATE, REFER, NOTIFY, PRACK, REGISTER';

/** Nodes are no trunk of anybody. */
const ofNode: TrunkMatch = { trunkId: '', organizationId: null, name: 'node', trustedBy: 'digest' };

/** Why an INVITE was refused before the call handler ran: the name of its counter. */
type Refusal =
  | 'draining'
  | 'blocked_source'
  | 'malformed'
  | 'loop'
  | 'not_ready'
  | 'unsupported'
  | 'replaces'
  | 'handler_failed';

interface RefusedHere {
  why: Refusal;
  status: number;
  cause: HangupCause;
  text: string;
  headers?: Record<string, string>;
}

type Verdict =
  | { challenge: string[] }
  | RefusedHere
  | {
      handler: (call: IncomingCall) => Promise<void>;
      facts: Omit<InviteFacts, 'peer' | 'receivedAt' | 'receivedAtMs'>;
    };

export class Inbound {
  handler: ((call: IncomingCall) => Promise<void>) | null = null;
  /** By the purpose that another node's pass names. */
  readonly nodeHandlers = new Map<string, NodeCallHandler>();
  onRefused: ((refused: RefusedInvite) => void) | null = null;
  /** Balancers that probe us learn that we want no more calls. */
  isLeaving = false;
  isDraining = false;
  incomingCalls = 0;
  readonly refused: Record<string, number> = {};
  readonly #warnBlocked: SipLog['warn'];

  constructor(private readonly context: InboundContext) {
    this.#warnBlocked = rateLimited((fields, text) => context.log.warn(fields, text), 5000);
  }

  /** Registers the handlers on one control connection. */
  wire(stack: Stack): void {
    const take = (req: StackRequest, res: StackResponse, next: () => void) => {
      try {
        this.#take(stack, req, res, next);
      } catch (error) {
        this.context.log.error({ err: words(error), method: req.method }, 'request handling failed');
        if (!res.finalResponseSent) res.send(500);
      }
    };
    for (const method of routed) stack.use(method, take);
    stack.use(take);
  }

  #take(stack: Stack, req: StackRequest, res: StackResponse, next: () => void): void {
    if (req.has('replaces') && req.method !== 'INVITE') {
      res.send(400);
      return;
    }
    const hasToTag = /;\s*tag\s*=/i.test(req.get('to') ?? '');
    switch (req.method) {
      case 'ACK':
      case 'PRACK': // the library handles it
        next();
        return;
      case 'CANCEL':
        return;
      case 'OPTIONS':
        if (this.isLeaving && !hasToTag) {
          res.send(503, { headers: { 'Retry-After': '60' } });
          return;
        }
        res.send(200, { headers: { Allow: allow, Accept: 'application/sdp', Supported: supported.join(', ') } });
        return;
      case 'INVITE':
      case 'REGISTER':
        if (hasToTag) break;
        if (req.method === 'INVITE') this.#invite(stack, req, res);
        else this.#register(stack, req, res);
        return;
      case 'SUBSCRIBE':
      case 'PUBLISH':
      case 'NOTIFY':
        res.send(489, { headers: { 'Allow-Events': 'refer' } });
        return;
      case 'MESSAGE':
      case 'REFER':
        if (hasToTag) break;
        res.send(405, { headers: { Allow: allow } });
        return;
    }
    res.send(481); // the dialog ended a moment ago, or never existed
  }

  #register(stack: Stack, req: StackRequest, res: StackResponse): void {
    const peer = peerOf(req.protocol, req.source_address, req.source_port);
    if (!peer) {
      res.send(400);
      return;
    }
    const request = { uri: req.uri, headers: readHeaders(req.raw), peer, server: stack };
    this.context.registrar.register(request).then(
      (answer) => sendAnswer(res, answer),
      (error) => {
        this.context.log.error({ err: words(error), method: req.method }, 'request handling failed');
        if (!res.finalResponseSent) res.send(500);
      },
    );
  }

  #invite(stack: Stack, req: StackRequest, res: StackResponse): void {
    const receivedAtMs = this.context.clock.receivedMs(req.stackTime);
    const received = { receivedAt: new Date(Date.now() - (performance.now() - receivedAtMs)), receivedAtMs };
    const peer = peerOf(req.protocol, req.source_address, req.source_port);
    if (!peer) {
      res.send(400);
      return;
    }
    const verdict = this.#examine(req, peer);
    if ('challenge' in verdict) {
      sendAnswer(res, { status: 401, headers: { 'WWW-Authenticate': verdict.challenge } });
      return;
    }
    if ('why' in verdict) {
      const { why, status, cause, text, headers } = verdict;
      this.refused[why] = (this.refused[why] ?? 0) + 1;
      sendRefusal(res, { status, reason: text, headers });
      this.#report(req, peer, status, cause, received.receivedAt);
      return;
    }
    this.incomingCalls++;
    const { live, log, trace, clock, takenUp } = this.context;
    const sipCallId = req.get('call-id') ?? '';
    trace.keep(sipCallId);
    const onGone = () => trace.ended(sipCallId);
    const facts = { ...verdict.facts, ...received, peer };
    const call = new IncomingInvite(req, res, facts, { stack, live, log, clock, takenUp, onGone });
    void this.#run(call, verdict.handler, req.receivedOn ?? '');
  }

  /** The checks, cheapest first: most requests to a public port fail the second. */
  #examine(req: StackRequest, peer: Peer): Verdict {
    const { context } = this;
    const node = this.#node(req);
    if (node === 'forged') return refusal('blocked_source', 403, 'blocked_source', 'Unknown source');
    if (node === null && this.isDraining)
      return refusal('draining', 503, 'system_shutdown', 'Shutting down', { 'Retry-After': '60' });
    const vouched = node === null ? this.#trunksOf(req, peer) : [ofNode];
    if (vouched === 'challenge' || vouched === 'stale') {
      return { challenge: context.challenger.challenges(vouched === 'stale') };
    }
    const [trunk, ...otherTrunks] = vouched;
    if (!trunk) {
      this.#warnBlocked(
        { address: peer.address, port: peer.port, to: req.uri },
        'invite from an unknown source refused',
      );
      return refusal('blocked_source', 403, 'blocked_source', 'Unknown source');
    }
    const headers = readHeaders(req.raw);
    const fromTag = nameAddress(headers.get('from')?.[0])?.params.tag ?? '';
    if (context.live.isOurs(`${req.get('call-id')};from-tag=${fromTag}`)) {
      return refusal('loop', 482, 'unspecified', 'The call looped back');
    }
    // Without a Contact createUAS would send its 200 and fail afterwards.
    if (!nameAddress(listElements(headers.get('contact'))[0])) {
      return refusal('malformed', 400, 'unspecified', 'Missing Contact');
    }
    if (!parseUri(req.uri)) return refusal('malformed', 416, 'not_found', 'Unsupported URI scheme');
    const from = callerIdentity(headers, true);
    const to = calledIdentity(req.uri, headers);
    if (!from || !to) return refusal('malformed', 400, 'unspecified', 'Unreadable From or To');
    const unknown = listElements(headers.get('require')).filter((option) => !supported.includes(option.toLowerCase()));
    if (unknown.length > 0) {
      return refusal('unsupported', 420, 'unspecified', 'Unsupported extension', { Unsupported: unknown.join(', ') });
    }
    const body = sdpOf(req);
    if (body.kind === 'unsupported') {
      return refusal('unsupported', 415, 'incompatible_media', 'SDP expected', { Accept: 'application/sdp' });
    }
    if (!acceptsSdp(headers.get('accept'))) {
      return refusal('unsupported', 406, 'incompatible_media', 'Accept excludes application/sdp', {
        Accept: 'application/sdp',
      });
    }
    const replaces = this.#replaced(headers);
    if (replaces !== null && 'why' in replaces) return replaces;
    const handler = node ?? this.handler;
    if (!handler) return refusal('not_ready', 503, 'overload', 'Not ready', { 'Retry-After': '5' });
    const offer = body.kind === 'sdp' ? body.sdp : null;
    return { handler, facts: { headers, from, to, trunk, otherTrunks, offer, replaces } };
  }

  /**
   * The leg that the INVITE replaces (RFC 3891 section 3). A dialog that still rings cannot be replaced: we did not open it, or the agent
   * is not connected yet.
   */
  #replaced(headers: HeaderLines): DialogLeg | RefusedHere | null {
    const wanted = replacesOf(headers);
    if (wanted === null) return null;
    if (wanted === 'malformed') return refusal('malformed', 400, 'unspecified', 'Unreadable Replaces');
    const leg = this.context.live.replaceable(wanted);
    if (leg === 'past') return refusal('replaces', 603, 'call_rejected', 'The call is over');
    if (leg === null) return refusal('replaces', 481, 'not_found', 'No such call');
    if (leg.isBeingReplaced) return refusal('replaces', 481, 'not_found', 'Another replacement is pending');
    if (wanted.earlyOnly) return refusal('replaces', 486, 'user_busy', 'The call is answered');
    return leg;
  }

  async #run(call: IncomingInvite, handler: (call: IncomingCall) => Promise<void>, receivedOn: string): Promise<void> {
    try {
      const own = receivedOn.slice(0, Math.max(0, receivedOn.lastIndexOf(':'))).replace(/^\[|\]$/g, '');
      call.localAddress = await this.context.addresses.facing(call.peer.address, own);
      await handler(call);
      if (!call.isPending) return;
      this.context.log.error({ sip_call_id: call.sipCallId }, 'call handler gave no final answer');
    } catch (error) {
      if (call.cancelled.aborted) return; // the caller cancelled, and the handler failed to answer
      this.context.log.error({ sip_call_id: call.sipCallId, err: words(error) }, 'call handler failed');
    }
    this.refused.handler_failed = (this.refused.handler_failed ?? 0) + 1;
    void call.reject(refusalOf('unspecified'));
    void call.leg?.hangup('unspecified');
  }

  /**
   * The trunks that an INVITE belongs to: by source address, else by password. A registration says where a phone is called, not which host
   * sends from there: UDP addresses are forged, and NAT reassigns ports. So an INVITE from a registered source must also prove its user,
   * unless that user's own trunk lists the address. When some trunk has a password, every other source is challenged, with the same answer
   * whatever its user.
   */
  #trunksOf(req: StackRequest, peer: Peer): TrunkMatch[] | 'challenge' | 'stale' {
    const { trunks, bindings, challenger } = this.context;
    const byAddress = trunks.trusting(peer.address);
    const username = bindings.userAt(peer);
    const registered = username === undefined ? undefined : trunks.withUsername(username);
    if (registered && registered.direction !== 'outbound') {
      const own = byAddress.find(({ trunkId }) => trunkId === registered.id);
      if (own) return [own];
    } else if (byAddress.length > 0 || !trunks.challengesInvites) return byAddress;
    const authorization = readHeaders(req.raw).get('authorization');
    const trunkOf = (name: string) => {
      const trunk = trunks.withUsername(name);
      return trunk && trunk.direction !== 'outbound' ? trunk : undefined;
    };
    const verdict = challenger.verify(
      { method: 'INVITE', uri: req.uri, authorization },
      (name) => trunkOf(name)?.password ?? undefined,
    );
    if (verdict.kind === 'missing') return 'challenge';
    if (verdict.kind === 'stale') return 'stale';
    const trunk = verdict.kind === 'ok' ? trunkOf(verdict.username) : undefined;
    return trunk ? [asMatch(trunk, 'digest')] : [];
  }

  /** The handler of another node's INVITE; null: the INVITE says nothing of nodes. */
  #node(req: StackRequest): ((call: IncomingCall) => Promise<void>) | 'forged' | null {
    if (!req.has(nodePassHeader)) return null;
    const pass = this.context.passes?.check(req.get(nodePassHeader) ?? '', req.get('call-id') ?? '');
    const handler = this.nodeHandlers.get(pass?.purpose ?? '');
    return pass && handler ? (call) => handler(call, pass.subject) : 'forged';
  }

  #report(req: StackRequest, peer: Peer, status: number, cause: HangupCause, at: Date): void {
    if (!this.onRefused) return;
    const headers: HeaderLines = readHeaders(req.raw);
    const from = nameAddress(headers.get('from')?.[0])?.uri ?? '';
    try {
      this.onRefused({ sipCallId: req.get('call-id') ?? '', from, to: req.uri, peer, status, cause, at });
    } catch (error) {
      this.context.log.error({ err: words(error) }, 'refused-invite handler failed');
    }
  }
}

/** RFC 3261 20.1: without an `Accept` header SDP is acceptable; an empty one accepts nothing. */
function acceptsSdp(accept: readonly string[] | undefined): boolean {
  if (accept === undefined) return true;
  return listElements(accept).some((range) => /^(application\/sdp|application\/\*|\*\/\*)\s*(;|$)/i.test(range.trim()));
}

function refusal(
  why: Refusal,
  status: number,
  cause: HangupCause,
  text: string,
  headers?: Record<string, string>,
): RefusedHere {
  return { why, status, cause, text, headers };
}

/**
 * Sends one header on several lines: the library would join the values with commas, and clients cannot split challenges, which contain
 * commas.
 */
function sendAnswer(res: StackResponse, answer: RegistrarAnswer): void {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(answer.headers)) {
    headers[name] = typeof value === 'string' ? value : value.join(`\r\n${name}: `);
  }
  if (answer.reason === undefined) res.send(answer.status, { headers });
  else res.send(answer.status, answer.reason, { headers });
}

function words(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
