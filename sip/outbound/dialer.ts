/** Outbound calls: tries one gateway after another until the called party decides. */
import { randomBytes, randomUUID } from 'node:crypto';
import { outcomeOfAnswer, unansweredOutcomes } from '../cause.js';
import type { DialogLeg } from '../dialog/dialog-leg.js';
import type { DialogRegistry } from '../dialog/dialog-registry.js';
import type { ControlLink } from '../drachtio/connection.js';
import { quotedText } from '../drachtio/header.js';
import type { AdvertisedAddresses } from '../drachtio/local-address.js';
import type { Stack } from '../drachtio/types.js';
import type { WireClock } from '../drachtio/wire-clock.js';
import { escapeUser } from '../inbound/identity.js';
import { clean } from '../inbound/incoming-invite.js';
import { type DialRequest, type Gateway, type PendingInvite, SipError } from '../leg.js';
import type { SipLog } from '../log.js';
import type { SipTrace } from '../trace.js';
import type { TrunkTable } from '../trunk/trunk-table.js';
import { refuseForeignCarrier } from './carrier-gateways.js';
import { SipNames } from './dns-naptr-srv.js';
import { Attempt, type AttemptEnd } from './invite-attempt.js';
import { nextHops } from './next-hop.js';
import { calledUser, type InviteTarget, type PhoneLocations, redirectTarget, targetsOf } from './request-targets.js';
import { publicTarget, type ResolveHost } from './resolve-public-uri.js';

export interface OutboundContext {
  /** A connected control link: that of the wanted server, or another. */
  link(wanted?: Stack): ControlLink | null;
  trunks: TrunkTable;
  locations: PhoneLocations;
  addresses: AdvertisedAddresses;
  live: DialogRegistry;
  trace: SipTrace;
  log: SipLog;
  clock: WireClock;
  /** Default: the system's name server. */
  names?: SipNames;
  /** Looks up the hosts of `publicOnly` calls. Default: the system's resolver. */
  resolveHost?: ResolveHost;
  /** How long a gateway may stay silent while another is left to try. Default 5,000. */
  firstResponseMs?: number;
}

const maxRedirects = 3;
/** A longer Retry-After of a gateway is cut to this. */
const maxRestSec = 300;
/** Headers set by us, or by the SIP server. */
const reservedHeaders = new Set(
  'from to contact call-id cseq via route record-route max-forwards content-length content-type allow supported session-expires min-se'.split(
    ' ',
  ),
);

export class Outbound {
  /** Gateways that answered with Retry-After, and until when they are tried last. */
  readonly #resting = new Map<string, number>();
  readonly #attempts = new Set<Attempt>();

  readonly #names: SipNames;

  constructor(private readonly context: OutboundContext) {
    this.#names = context.names ?? new SipNames();
  }

  /** See `SipGateway.dial`. */
  async dial(request: DialRequest, signal: AbortSignal): Promise<DialogLeg> {
    const callId = request.sipCallId ?? randomUUID();
    const stop = new Stop(request.ringTimeoutMs, signal);
    this.context.trace.keep(callId);
    try {
      return await this.#tryAll(request, callId, stop);
    } catch (error) {
      this.context.trace.ended(callId);
      throw error;
    } finally {
      stop.close();
    }
  }

  /** A SIP server is lost: its attempts fail. Returns their INVITEs that were not cancelled yet. */
  lost(server: Stack): PendingInvite[] {
    const lost = [...this.#attempts].filter((attempt) => attempt.server === server);
    const pending = lost.flatMap((attempt) => attempt.pending ?? []);
    for (const attempt of lost) attempt.lost();
    return pending;
  }

  async #tryAll(request: DialRequest, callId: string, stop: Stop): Promise<DialogLeg> {
    const { trunks, locations } = this.context;
    const headers = inviteHeaders(request);
    const call = { to: request.to, callId };
    const found = this.#rested(request.gateways).map((gateway) => targetsOf(gateway, call, trunks, locations));
    const written = (await Promise.all(found)).flat();
    const left = (await Promise.all(written.map((target) => this.#named(target, request)))).flat();
    if (stop.why) throw stopped(stop.why, false);
    if (left.length === 0) {
      const names = request.gateways.map((gateway) => gateway.uri).join(', ');
      const why = names === '' ? 'No gateway was named.' : `No phone is registered as ${names}.`;
      throw new SipError('unreachable', 'carrier_unreachable', why);
    }
    let cseq = 1;
    let redirects = 0;
    let sawProvisional = false;
    let failure: SipError | null = null;
    let failed: { gateway: Gateway; error: SipError } | null = null;
    for (let target = left.shift(); target; target = left.shift()) {
      if (failed) request.onFailover?.(failed);
      failed = null;
      const link = this.#link(target.server);
      const localAddress = await this.context.addresses.destinationField(
        target.phone?.address ?? target.host,
        link.addresses,
      );
      const offer = await request.offerFor(target.gateway, localAddress);
      if (stop.why) throw stopped(stop.why, sawProvisional);
      const { stack } = this.#link(link.stack); // the link may have been lost meanwhile
      const attempt = this.#start(request, target, callId, cseq, headers, { stack, offer, localAddress });
      const limits =
        left.length > 0 || request.moreAreLeft ? [attempt.silence(this.context.firstResponseMs ?? 5000)] : [];
      const end = await Promise.race([attempt.end, stop.promise, ...limits]);
      cseq = attempt.cseq + 1;
      sawProvisional ||= attempt.sawProvisional;
      if (end === 'timeout' || end === 'aborted') {
        attempt.cancel();
        throw stopped(end, sawProvisional);
      }
      if (end === 'silent') {
        attempt.cancel();
        failure = unreachable(target, 'No response in time');
        failed = { gateway: target.gateway, error: failure };
        continue;
      }
      if (end.kind === 'answered') return end.leg;
      failure = failureOf(target, end);
      if (end.kind === 'refused' && end.status >= 300 && end.status < 400 && redirects < maxRedirects) {
        const next = end.contact === null ? null : redirectTarget(target, end.contact);
        redirects++;
        if (next) left.unshift(...(await this.#named(next, request)));
        if (next) continue;
      }
      if (!failure.mayFailOver) throw failure;
      if (end.kind === 'refused' && end.retryAfterSec > 0) this.#rest(target.gateway, end.retryAfterSec);
      failed = { gateway: target.gateway, error: failure };
      this.context.log.warn(
        { gateway: target.gateway.uri, sip_call_id: callId, err: failure.message },
        'gateway failed',
      );
    }
    throw failure ?? new SipError('unreachable', 'carrier_unreachable', 'No gateway is left.');
  }

  #start(
    request: DialRequest,
    target: InviteTarget,
    callId: string,
    cseq: number,
    headers: Record<string, string>,
    media: { stack: Stack; offer: string; localAddress: string },
  ): Attempt {
    const { context } = this;
    const fromTag = randomBytes(8).toString('hex');
    const attempt = new Attempt({
      log: context.log,
      live: context.live,
      clock: context.clock,
      target,
      identity: { callId, fromTag, cseq },
      headers: { ...headers, From: `${headers.From};tag=${fromTag}`, ...calledHeaders(target) },
      ...media,
      onProgress: ({ status, branch, sdp }) => {
        try {
          request.onProgress?.({ gateway: target.gateway, status, branch, ...(sdp === undefined ? {} : { sdp }) });
        } catch (error) {
          context.log.error({ err: String(error), sip_call_id: callId }, 'progress handler failed');
        }
      },
      onInvite: (pending) => request.onInvite?.(pending),
      onGone: () => context.trace.ended(callId),
    });
    this.#attempts.add(attempt);
    void attempt.end.then(() => this.#attempts.delete(attempt));
    return attempt;
  }

  /** One target for each host that the target's name resolves to (RFC 3263). */
  async #named(target: InviteTarget, { publicOnly, writtenBy }: DialRequest): Promise<InviteTarget[]> {
    const hops =
      target.nextHop === undefined ? await nextHops(target.requestUri, this.#names, target.gateway.trust) : null;
    const targets = hops?.map(({ host, uri }) => ({ ...target, host, ...(uri === undefined ? {} : { nextHop: uri }) }));
    const named = targets ?? [target];
    const { trunks, resolveHost } = this.context;
    if (writtenBy !== undefined)
      await Promise.all(named.map((each) => refuseForeignCarrier(each, writtenBy, trunks.all(), resolveHost)));
    return publicOnly ? Promise.all(named.map((each) => publicTarget(each, resolveHost))) : named;
  }

  #link(wanted?: Stack): ControlLink {
    const link = this.context.link(wanted);
    if (!link) throw new SipError('not_connected', 'signalling_lost', 'The SIP server is not connected.');
    return link;
  }

  /** Gateways that asked for a pause come last. */
  #rested(gateways: readonly Gateway[]): Gateway[] {
    const now = performance.now();
    for (const [uri, untilMs] of this.#resting) if (untilMs <= now) this.#resting.delete(uri);
    const rests = (gateway: Gateway) => this.#resting.has(gateway.uri);
    return [...gateways.filter((gateway) => !rests(gateway)), ...gateways.filter(rests)];
  }

  #rest(gateway: Gateway, seconds: number): void {
    this.#resting.set(gateway.uri, performance.now() + Math.min(seconds, maxRestSec) * 1000);
  }
}

function inviteHeaders(request: DialRequest): Record<string, string> {
  const from = request.from.trim();
  const isAnonymous = from === '' || from.toLowerCase() === 'anonymous';
  const uri = isAnonymous
    ? 'sip:anonymous@anonymous.invalid'
    : `sip:${escapeUser(calledUser(from))}@${request.fromDomain ?? 'localhost'}`;
  const name = isAnonymous ? 'Anonymous' : request.fromDisplayName;
  const extra = Object.entries(clean(request.headers ?? {})).filter(([key]) => !reservedHeaders.has(key.toLowerCase()));
  return {
    // The SIP server replaces `localhost` by its own address.
    From: name ? `${quotedText(name)} <${uri}>` : `<${uri}>`,
    ...(isAnonymous ? { Privacy: 'id' } : {}),
    ...Object.fromEntries(extra),
  };
}

/** The called number for a registered phone, which may have several: in To and in P-Called-Party-ID (RFC 7315 4.2). */
function calledHeaders({ requestUri, called, routes }: InviteTarget): Record<string, string> {
  if (called === undefined) return { To: `<${requestUri}>` };
  const route: Record<string, string> = routes === undefined ? {} : { Route: routes.join(', ') };
  return { To: `<${called}>`, 'P-Called-Party-ID': `<${called}>`, ...route };
}

function failureOf(target: InviteTarget, end: Exclude<AttemptEnd, { kind: 'answered' }>): SipError {
  if (end.kind === 'unreachable') return unreachable(target, end.message);
  if (end.kind === 'broken') {
    return new SipError('protocol', 'incompatible_media', `${end.message} (${target.gateway.uri}).`);
  }
  const { cause } = outcomeOfAnswer(end.status);
  const said = `${end.status} ${end.reason}`.trim();
  return new SipError('rejected', cause, `${target.gateway.uri} answered ${said}.`, end.status);
}

function unreachable(target: InviteTarget, what: string): SipError {
  const { cause } = unansweredOutcomes.noProvisional;
  return new SipError('unreachable', cause, `${what} (${target.gateway.uri}).`);
}

function stopped(by: 'timeout' | 'aborted', sawProvisional: boolean): SipError {
  if (by === 'aborted') {
    return new SipError('cancelled', unansweredOutcomes.callerCancel.cause, 'The call was cancelled.');
  }
  // Without any provisional response the carrier is unreachable; with one, the person did not answer.
  const outcome = sawProvisional ? unansweredOutcomes.ringTimeout : unansweredOutcomes.noProvisional;
  return new SipError('timeout', outcome.cause, 'The call was not answered in time.');
}

/** Ends dialling from outside: the ring timeout, or the caller's abort signal. */
class Stop {
  readonly promise: Promise<'timeout' | 'aborted'>;
  why: 'timeout' | 'aborted' | null = null;
  readonly #over = new AbortController();

  constructor(limitMs: number, signal: AbortSignal) {
    this.promise = new Promise((resolve) => {
      const stop = (why: 'timeout' | 'aborted') => {
        this.why ??= why;
        resolve(this.why);
      };
      const timer = setTimeout(() => stop('timeout'), limitMs);
      this.#over.signal.addEventListener('abort', () => clearTimeout(timer));
      if (signal.aborted) stop('aborted');
      signal.addEventListener('abort', () => stop('aborted'), { once: true, signal: this.#over.signal });
    });
  }

  close(): void {
    this.#over.abort();
  }
}
