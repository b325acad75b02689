/** The SIP side as a whole: the embedded server or external ones behind one `SipGateway`. Only this file knows which is in use. */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Challenger } from './auth/challenger.js';
import type { DigestAlgorithm } from './auth/digest.js';
import { NodePasses, nodePassHeader } from './auth/node-pass.js';
import type { HangupCause } from './cause.js';
import { DialogRegistry } from './dialog/dialog-registry.js';
import { refuseLeft } from './dialog/last-answer.js';
import { LostDialogs } from './dialog/lost-dialogs.js';
import { inviteMediaServer, type MediaServerDialog } from './dialog/media-server-dialog.js';
import { byeOrphan, cancelOrphan } from './dialog/orphan-bye.js';
import { type ControlLink, openControlLink, type ServerAddress } from './drachtio/connection.js';
import { AdvertisedAddresses } from './drachtio/local-address.js';
import { type ControlPort, keyOf, reachServer } from './drachtio/reach-server.js';
import type { Stack } from './drachtio/types.js';
import { foreignClock, sharedClock } from './drachtio/wire-clock.js';
import { EmbeddedServer } from './embedded-server.js';
import { parseUri } from './inbound/identity.js';
import { Inbound } from './inbound/requests.js';
import type {
  CallLeg,
  DialRequest,
  IncomingCall,
  MediaServerInvite,
  NodeCallHandler,
  RefusedInvite,
  SipCounters,
  SipGateway,
  SipTraceEntry,
  UnansweredInvite,
  UnfinishedDialog,
} from './leg.js';
import { SipError } from './leg.js';
import type { SipLog } from './log.js';
import { Outbound } from './outbound/dialer.js';
import type { SipNames } from './outbound/dns-naptr-srv.js';
import { registeredAt } from './outbound/request-targets.js';
import type { ResolveHost } from './outbound/resolve-public-uri.js';
import { Bindings } from './registrar/bindings.js';
import { type LocationDirectory, Locations } from './registrar/locations.js';
import { Registrar, type RegistrarLimits } from './registrar/registrar.js';
import { flowSecret } from './server/flows/flow-token.js';
import { AddressRanges } from './server/overload/prefix-table.js';
import type { SipServerOptions } from './server/protocol.js';
import type { SipServer } from './server/start.js';
import type { TransportEndpoint } from './server/transport/path.js';
import type { TlsSettings } from './server/transport/tls.js';
import { SipTrace, type TraceLimits } from './trace.js';
import { GatewayKeepalive } from './trunk/gateway-keepalive.js';
import type { TrunkTable } from './trunk/trunk-table.js';

export interface SipGatewayOptions {
  server:
    | ({ kind: 'embedded' } & Omit<SipServerOptions, 'externalIp' | 'localNets'>)
    /** One or several servers. `mediaHost`: the address our media sockets are bound to, since the servers may run on other machines. */
    | { kind: 'drachtio'; servers: readonly ControlPort[]; mediaHost?: string };
  trunks: TrunkTable;
  log: SipLog;
  /** Our address as advertised to peers outside of `localNets`. */
  externalIp?: string;
  /** CIDRs. Default: the private ranges. */
  localNets?: string[];
  /** The realm of our digest challenges. Default `trunkline`. */
  realm?: string;
  /** Known to the nodes of this installation; absent: there is one node. */
  nodeSecret?: Buffer;
  /** Digest algorithms we offer, the preferred first. Default SHA-256, MD5; see `ChallengerOptions`. */
  digestAlgorithms?: readonly DigestAlgorithm[];
  registrar?: RegistrarLimits;
  /** The phones of all nodes. Absent: those that register here. */
  directory?: LocationDirectory;
  trace?: TraceLimits;
  /** Limit for starting the embedded server, or for one connection attempt to an external one. Default 10,000. */
  connectLimitMs?: number;
  /** Default: the system's name server. */
  names?: SipNames;
  /** Default: the system's resolver. */
  resolveHost?: ResolveHost;
  /** How long a gateway may stay silent while another is left to try. Default 5,000. */
  firstResponseMs?: number;
  /** Time between two OPTIONS to a gateway; 0: none are sent. Default 0. */
  probeEveryMs?: number;
  /** Time between two heartbeats on the control connection. Default 10,000. */
  heartbeatMs?: number;
  /** Aborts connecting. */
  signal?: AbortSignal;
}

const privateNets = [
  ...['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16'],
  ...['::1/128', 'fc00::/7', 'fe80::/10'],
];
/** drachtio-server has a buffer of 12,228 bytes for a frame and its length; at a longer one it reads nothing more, without a word. */
const drachtioFrameBytes = 12_200;
const defaultConnectLimitMs = 10_000;

/**
 * Resolves when the embedded server runs, or when each external server was tried once; attempts to reach an absent one continue. Rejects
 * with one clear sentence (port taken, wrong secret, time limit).
 */
export async function openSipGateway(options: SipGatewayOptions): Promise<
  SipGateway & {
    serverStats: SipServer['stats'];
    keepalive: GatewayKeepalive;
    /** Sets certificates and authorities for the embedded server's connections from now on. */
    secure(tls: TlsSettings): void;
    /** The addresses of other nodes, which pass calls on to our phones. */
    trustNodes(addresses: readonly string[]): void;
    /** Asks a media server for an endpoint. Rejects with `SipError`. */
    inviteMediaServer(invite: MediaServerInvite): Promise<MediaServerDialog>;
  }
> {
  const gateway = new Gateway(options);
  try {
    await gateway.open();
  } catch (error) {
    await gateway.close();
    throw error;
  }
  return gateway;
}

class Gateway implements SipGateway {
  readonly #live = new DialogRegistry();
  readonly #bindings = new Bindings();
  readonly #trace: SipTrace;
  readonly #inbound: Inbound;
  readonly #outbound: Outbound;
  readonly #addresses: AdvertisedAddresses;
  readonly #passes: NodePasses | null;
  /** The health of our carriers' gateways, and our registrations there. */
  readonly keepalive: GatewayKeepalive;
  readonly #closing = new AbortController();
  /** null: the servers are external. */
  readonly #embedded: EmbeddedServer | null;
  /** All servers by key, including those that are lost at the moment. */
  readonly #links = new Map<string, ControlLink>();
  /** Dialogs with media servers; the calls do not see them. */
  readonly #mediaDialogs = new Set<MediaServerDialog>();
  /** Number of calls we placed, for the round robin over the servers. */
  #dialled = 0;
  /** Why an external server is not connected, by host and port. */
  readonly #problems = new Map<string, string>();
  readonly #lostDialogs: LostDialogs;
  readonly #flowKey = randomBytes(32).toString('hex');
  #stopped: Promise<void> | null = null;

  constructor(private readonly options: SipGatewayOptions) {
    const { trunks, log } = options;
    this.#embedded = this.#embeddedServer();
    this.#lostDialogs = new LostDialogs({
      log,
      isConnected: () => this.connected,
      end: (dialog) => this.endOrphan(dialog, 'signalling_lost'),
    });
    const challenger = new Challenger({ realm: options.realm ?? 'trunkline', algorithms: options.digestAlgorithms });
    const mediaHost = options.server.kind === 'drachtio' ? options.server.mediaHost : undefined;
    const addresses = new AdvertisedAddresses({
      externalIp: options.externalIp,
      localNets: this.#localNets,
      mediaHost,
    });
    this.#addresses = addresses;
    this.#passes = options.nodeSecret === undefined ? null : new NodePasses(options.nodeSecret);
    this.#trace = new SipTrace(options.trace);
    const clock = options.server.kind === 'embedded' ? sharedClock : foreignClock;
    const shared = { trunks, log, addresses, clock, bindings: this.#bindings, live: this.#live, trace: this.#trace };
    const locations = this.#locations();
    const stack = () => this.#connected[0]?.stack ?? null;
    const { names } = options;
    const registered = (uri: string) => registeredAt(uri, trunks, locations);
    this.keepalive = new GatewayKeepalive({ probeEveryMs: options.probeEveryMs ?? 0, stack, log, registered, names });
    const registrar = new Registrar(trunks, challenger, locations, options.registrar);
    const takenUp = (transactionId: string) => this.#server?.takenUp(transactionId);
    this.#inbound = new Inbound({ ...shared, challenger, registrar, takenUp, passes: this.#passes });
    this.#outbound = new Outbound({
      ...shared,
      locations,
      link: (wanted) => this.#linkFor(wanted),
      firstResponseMs: options.firstResponseMs,
      names: options.names,
      ...(options.resolveHost === undefined ? {} : { resolveHost: options.resolveHost }),
    });
  }

  #locations(): Locations {
    const { directory, server, log } = this.options;
    const localNets = new AddressRanges(this.#localNets);
    return new Locations(this.#bindings, {
      ...(directory === undefined ? {} : { directory }),
      isLocal: (address) => localNets.has(address),
      secretOf: (peer) => (server.kind === 'embedded' ? flowSecret(this.#flowKey, peer as TransportEndpoint) : null),
      nameOf: (stack) => [...this.#links].find(([, link]) => link.stack === stack)?.[0] ?? '',
      serverOf: (name) => this.#connected.find((link) => this.#links.get(name) === link)?.stack,
      log,
    });
  }

  get #localNets(): string[] {
    return this.options.localNets ?? privateNets;
  }

  get #server(): SipServer | null {
    return this.#embedded?.running ?? null;
  }

  /** The addresses at which peers reach us, as reported by the connected servers. */
  get addresses(): readonly ServerAddress[] {
    return this.#server?.addresses ?? this.#connected.flatMap((link) => link.contacts);
  }

  isOurs(uri: string): boolean {
    const parsed = parseUri(uri);
    if (parsed === null) return false;
    const isTls = parsed.scheme === 'sips' || parsed.params.transport?.toLowerCase() === 'tls';
    return this.#addresses.isOurs(parsed.host, parsed.port ?? (isTls ? 5061 : 5060), this.addresses);
  }

  get connected(): boolean {
    return this.#connected.length > 0;
  }

  get problems(): readonly string[] {
    return [...this.#problems.values()];
  }

  get #connected(): ControlLink[] {
    const { server } = this.options;
    const keys = server.kind === 'drachtio' ? server.servers.map(keyOf) : ['embedded'];
    return keys.flatMap((key) => this.#links.get(key) ?? []).filter((link) => link.connected);
  }

  /** The link of the wanted server, or of the next one in turn. */
  #linkFor(wanted?: Stack): ControlLink | null {
    const links = this.#connected;
    return links.find((link) => link.stack === wanted) ?? links[this.#dialled++ % links.length] ?? null;
  }

  async open(): Promise<void> {
    const signal = this.options.signal
      ? AbortSignal.any([this.options.signal, this.#closing.signal])
      : this.#closing.signal;
    const { server } = this.options;
    if (server.kind === 'embedded') return this.#embedded?.start(signal);
    const { log, connectLimitMs: limitMs = defaultConnectLimitMs } = this.options;
    const reached = server.servers.map((each) =>
      reachServer(
        { ...each, log, limitMs, problems: this.#problems, onLate: () => this.keepalive.restored() },
        (attemptMs) => this.#connect(each, signal, attemptMs),
        { starting: signal, closing: this.#closing.signal },
      ),
    );
    await Promise.all(reached);
  }

  #embeddedServer(): EmbeddedServer | null {
    const { server: options, log, externalIp, directory, connectLimitMs = defaultConnectLimitMs } = this.options;
    if (options.kind !== 'embedded') return null;
    const { kind: _kind, ...server } = options;
    return new EmbeddedServer({
      server: {
        ...server,
        ...(directory === undefined ? {} : { flowKey: this.#flowKey }),
        externalIp,
        localNets: this.#localNets,
      },
      log,
      closing: this.#closing.signal,
      connect: (control, signal) => this.#connect(control, signal, connectLimitMs),
      onRestarted: (restarted) => {
        for (const invite of this.#lostDialogs.takeUnanswered('embedded'))
          if (invite.peer.transport === 'udp') restarted.refuse(invite);
        this.keepalive.restored();
      },
    });
  }

  async #connect(to: ControlPort, signal: AbortSignal, limitMs: number): Promise<void> {
    const { log, heartbeatMs, server } = this.options;
    const key = server.kind === 'drachtio' ? keyOf(to) : 'embedded';
    const link = await openControlLink({
      ...to,
      ...(server.kind === 'drachtio' ? { mostFrameBytes: drachtioFrameBytes } : {}),
      signal,
      log,
      heartbeatMs,
      limitMs,
      wire: (stack) => this.#inbound.wire(stack),
      onMessage: (entry) => this.#trace.record(entry),
      onLost: (lost) => this.#lost(lost, key),
      onRestored: (restored) => {
        log.info({ host: to.host, port: to.port }, 'sip server connected again');
        this.#problems.delete(key);
        this.keepalive.restored();
        this.#endLost(restored, key);
      },
    });
    this.#links.set(key, link);
    this.#endLost(link, key);
  }

  /** A server, or the connection to it, is lost: its calls end here, and their far ends get BYE or CANCEL when a server is available. */
  #lost(link: ControlLink, key: string): void {
    const { log, server } = this.options;
    const legs = [...this.#live.legs].filter((leg) => leg.server === link.stack);
    const ringing = [...this.#live.ringing].filter((call) => call.server === link.stack);
    log.error({ legs: legs.length, ringing: ringing.length }, 'sip server lost');
    for (const call of ringing) {
      this.#lostDialogs.add(key, call.unconfirmed);
      this.#lostDialogs.addUnanswered(key, call.unanswered);
      call.lost();
    }
    for (const pending of this.#outbound.lost(link.stack)) this.#lostDialogs.add(key, pending);
    for (const dialog of [...this.#mediaDialogs]) if (dialog.server === link.stack) dialog.lost();
    for (const leg of legs) {
      this.#lostDialogs.add(key, leg.snapshot());
      leg.lost();
    }
    if (this.#closing.signal.aborted) return;
    if (server.kind === 'drachtio') {
      this.#problems.set(key, `The connection to the SIP server's control port ${key} was lost.`);
      this.keepalive.restored(); // at another server, if there is one
      return;
    }
    link.close();
    this.#links.clear();
    void this.#embedded?.restart();
  }

  #endLost(link: ControlLink, key: string): void {
    // The embedded server refuses them itself, over the socket that it opened again.
    if (key !== 'embedded')
      for (const invite of this.#lostDialogs.takeUnanswered(key)) void refuseLeft(link.stack, invite);
    void this.#lostDialogs.endThose(key);
  }

  onIncomingCall(handler: (call: IncomingCall) => Promise<void>): void {
    this.#inbound.handler = handler;
  }

  onNodeCall(purpose: string, handler: NodeCallHandler): void {
    this.#inbound.nodeHandlers.set(purpose, handler);
  }

  nodePass(purpose: string, subject: string, sipCallId: string): Record<string, string> {
    return this.#passes === null ? {} : { [nodePassHeader]: this.#passes.issue(purpose, subject, sipCallId) };
  }

  async nodeAddress(): Promise<string> {
    const contact = this.addresses.find(({ transport }) => transport === 'tcp') ?? this.addresses[0];
    if (contact === undefined)
      throw new SipError('not_connected', 'signalling_lost', 'The SIP server is not connected.');
    const host = await this.#addresses.reached(contact.host);
    return `${host.includes(':') ? `[${host}]` : host}:${contact.port};transport=${contact.transport}`;
  }

  onRefusedInvite(handler: (refused: RefusedInvite) => void): void {
    this.#inbound.onRefused = handler;
  }

  async dial(request: DialRequest, signal: AbortSignal): Promise<CallLeg> {
    if (!this.connected) throw new SipError('not_connected', 'signalling_lost', 'The SIP server is not connected.');
    return this.#outbound.dial(request, signal);
  }

  async inviteMediaServer(invite: MediaServerInvite): Promise<MediaServerDialog> {
    const link = this.#linkFor();
    if (!link) throw new SipError('not_connected', 'signalling_lost', 'The SIP server is not connected.');
    const dialog = await inviteMediaServer(link.stack, invite, this.options.log, (gone) => {
      this.#mediaDialogs.delete(gone);
      this.#trace.forget(gone.sipCallId);
    });
    this.#mediaDialogs.add(dialog);
    return dialog;
  }

  async endOrphan(left: UnfinishedDialog, cause: HangupCause): Promise<void> {
    const link = this.#linkFor();
    if (!link) throw new SipError('not_connected', 'signalling_lost', 'The SIP server is not connected.');
    if ('raw' in left) await this.#refuseOrphan(link.stack, left);
    else if (!('head' in left)) await byeOrphan(link.stack, left, cause);
    else if (this.#server) this.#server.cancelInvite(left);
    else await cancelOrphan(link.stack, left);
  }

  /** A caller over TCP or TLS has lost its connection with the embedded server that had it. */
  async #refuseOrphan(stack: Stack, left: UnansweredInvite): Promise<void> {
    if (!this.#server) await refuseLeft(stack, left);
    else if (left.peer.transport === 'udp') this.#server.refuse(left);
  }

  trust(nets: readonly string[]): void {
    this.#embedded?.trust(nets);
  }

  trustNodes(addresses: readonly string[]): void {
    this.#embedded?.trustNodes(addresses);
  }

  secure(tls: TlsSettings): void {
    this.#embedded?.secure(tls);
  }

  trace(sipCallId: string): SipTraceEntry[] {
    return this.#trace.of(sipCallId);
  }

  forgetTrace(sipCallId: string): void {
    this.#trace.forget(sipCallId);
  }

  counters(): SipCounters {
    return {
      incomingCalls: this.#inbound.incomingCalls,
      refused: { ...this.#inbound.refused },
      activeLegs: this.#live.legs.size,
      registrations: this.#bindings.count,
    };
  }

  async serverStats(): ReturnType<SipServer['stats']> {
    if (!this.#server) throw new SipError('not_connected', 'signalling_lost', 'There is no embedded SIP server.');
    return this.#server.stats();
  }

  leave(): void {
    this.#inbound.isLeaving = true;
  }

  drain(): void {
    this.leave();
    this.#inbound.isDraining = true;
  }

  stop(graceMs: number): Promise<void> {
    this.#stopped ??= this.#stop(graceMs);
    return this.#stopped;
  }

  async #stop(graceMs: number): Promise<void> {
    this.drain();
    await this.#idleWithin(graceMs);
    for (const call of [...this.#live.ringing]) {
      void call.reject({ status: 503, reason: 'Shutting down', headers: { 'Retry-After': '60' } });
    }
    for (const cancel of [...this.#live.dialling.values()]) cancel();
    const unregistered = this.keepalive.close();
    // Wait half a second for ACKs on their way, then send BYE, and wait up to a second for its answer.
    await Promise.all([...this.#live.legs].map((leg) => leg.hangupSoon('system_shutdown', 500)));
    if (this.connected) await this.#idleWithin(1000);
    await unregistered;
    // The last message may be a 200 to the far side's BYE: without it the far side would retransmit for half a minute.
    await Promise.all([...this.#links.values()].map((link) => link.taken(1000)));
    await this.close();
  }

  async #idleWithin(limitMs: number): Promise<void> {
    if (limitMs <= 0 || this.#live.isIdle) return;
    const over = new AbortController();
    const limit = sleep(limitMs, undefined, { signal: over.signal }).catch(() => undefined);
    await Promise.race([this.#live.idle(), limit]);
    over.abort();
  }

  /** Closes everything at once; remaining calls end as lost. */
  async close(): Promise<void> {
    this.#closing.abort();
    for (const link of this.#links.values()) link.close();
    await this.keepalive.close();
    for (const call of [...this.#live.ringing]) call.lost();
    for (const link of this.#links.values()) this.#outbound.lost(link.stack);
    for (const leg of [...this.#live.legs]) leg.lost();
    for (const dialog of [...this.#mediaDialogs]) dialog.lost();
    this.#bindings.close();
    this.#trace.close();
    this.#links.clear();
    await this.#embedded?.close();
  }
}
