/**
 * FreeSWITCH as media engine. Each phone has an endpoint in a FreeSWITCH, bridged there to a session of the embedded engine: agents,
 * prompts, recordings and turns are those of the embedded engine, codecs and encryption towards the phone are FreeSWITCH's.
 */
import {
  type EngineLoad,
  type EngineLog,
  type MediaEngine,
  MediaError,
  type MediaRoom,
  type MediaSession,
  type OpenSession,
  type PhoneCodec,
} from '../engine.js';
import type { EventSocketAddress } from './event-socket.js';
import { type InviteMediaServer, MediaServer } from './media-server.js';
import { FreeSwitchSession, innerOf } from './session.js';

export interface FreeSwitchEngineOptions {
  /** `externalIp`: the public address of that server; null: that of this host. */
  servers: readonly (EventSocketAddress & { externalIp: string | null; agentAudio: 'rtp' | 'fork' })[];
  /** Our public address: a phone that gets it in SDP gets the public address of its FreeSWITCH instead. */
  externalIp?: string;
  invite: InviteMediaServer;
  log: EngineLog;
  /** See `MediaServerOptions`. */
  pingMs?: number;
}

const allCodecs: readonly PhoneCodec[] = ['PCMU', 'PCMA', 'G722', 'OPUS'];

export class FreeSwitchEngine implements MediaEngine {
  readonly #servers: MediaServer[];
  readonly #sessions = new Set<FreeSwitchSession>();
  /** Reasons that are in the log already. */
  readonly #reasons = new Set<string>();
  #isClosed = false;

  /** Owns `embedded` from now on. */
  constructor(
    private readonly embedded: MediaEngine,
    private readonly options: FreeSwitchEngineOptions,
  ) {
    this.#servers = options.servers.map(
      (address) => new MediaServer({ ...address, ...options }, (server) => this.#lost(server)),
    );
  }

  /** Resolves when each server was tried once. Rejects with one sentence when one refuses us. */
  async start(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.open()));
  }

  async open(wish: OpenSession): Promise<MediaSession> {
    if (this.#isClosed) throw new MediaError('engine_gone', 'The media engine is closed.');
    // FreeSWITCH writes no keys into an offer that it makes without one of ours: the embedded engine does.
    if (wish.offer === null && (wish.policy.srtp ?? 'off') !== 'off') return this.embedded.open(wish);
    const { externalIp } = this.options;
    const tried = new Set<MediaServer>();
    for (;;) {
      const server = this.#leastLoaded(tried);
      tried.add(server);
      const session: FreeSwitchSession = new FreeSwitchSession(wish, server, this.embedded, {
        log: this.options.log,
        codecs: codecsFor(wish, server),
        shownAddress: (at) => (wish.localAddress === externalIp ? (at.externalIp ?? externalIp ?? null) : null),
        another: (than) => this.#servers.filter((each) => each !== than && each.takesCalls).sort(byLoad)[0] ?? null,
        notForked: (why) => this.#notForked(why),
        closed: () => this.#sessions.delete(session),
      });
      try {
        await session.open();
        this.#sessions.add(session);
        return session;
      } catch (error) {
        await session.close();
        const isOver = !(error instanceof MediaError) || error.code !== 'engine_gone';
        if (isOver || !this.#servers.some((each) => each.takesCalls && !tried.has(each))) throw error;
      }
    }
  }

  room(seats: number): MediaRoom {
    const room = this.embedded.room(seats);
    return {
      join: (session, options) => room.join(innerOf(session), options),
      beep: (kind) => room.beep(kind),
      record: (options) => room.record(options),
      redact: (what) => room.redact(what),
    };
  }

  load(): EngineLoad {
    return {
      ...this.embedded.load(),
      servers: this.#servers.map(({ name, isReady, isDrained, problem, channels, facts }) => ({
        ...{ name, connected: isReady, drained: isDrained, problem, channels },
        version: facts?.version ?? null,
      })),
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#sessions].map((session) => session.close()));
    await Promise.all(this.#servers.map((server) => server.close()));
    await this.embedded.close();
  }

  #leastLoaded(without: ReadonlySet<MediaServer>): MediaServer {
    const [first] = this.#servers.filter((server) => server.takesCalls && !without.has(server)).sort(byLoad);
    if (first) return first;
    const why = this.#servers.map(({ problem, name }) => problem ?? `FreeSWITCH at ${name} is paused.`).join(' ');
    throw new MediaError('engine_gone', why);
  }

  #notForked(why: string): void {
    if (this.#reasons.has(why)) return;
    this.#reasons.add(why);
    this.options.log.warn({ why }, 'an agent keeps its RTP leg although agent_audio is fork');
  }

  #lost(server: MediaServer): void {
    for (const session of [...this.#sessions]) session.serverLost(server);
  }
}

function byLoad(a: MediaServer, b: MediaServer): number {
  return a.load - b.load;
}

/** A policy that leaves none of our codecs out gets those of FreeSWITCH as well, after ours. */
function codecsFor({ policy }: OpenSession, { facts }: MediaServer): string[] {
  const isOpen = allCodecs.every((codec) => policy.codecs.includes(codec));
  return [...policy.codecs, ...(isOpen ? (facts?.moreCodecs ?? []) : [])];
}
