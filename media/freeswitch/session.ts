/** One phone: an endpoint in FreeSWITCH towards it, another towards a session of the embedded engine, and the bridge between them. */
import { randomInt } from 'node:crypto';
import type { MessagePort } from 'node:worker_threads';
import type { FsmrfEndpoint } from 'drachtio-fsmrf';
import type { AgentTarget, AudioTracks } from '../agents/agent.js';
import {
  type AgentLink,
  type AudioSource,
  type Bridge,
  type BridgeOptions,
  type EngineLog,
  type Fork,
  type KeyForm,
  type MachineVerdict,
  type MediaDirection,
  type MediaEngine,
  MediaError,
  type MediaEvent,
  type MediaSession,
  type MediaStats,
  type OpenSession,
  type PhoneCodec,
  type PlayEnd,
  type Recording,
  type RecordOptions,
  type RedactedMedia,
  type Tap,
  type TapOptions,
} from '../engine.js';
import { unknownStats } from '../thread/session/session-stats.js';
import { AudioFork, whyNotForked } from './audio-fork.js';
import { addFigures, asStats, type ChannelFigures, readFigures } from './channel-figures.js';
import {
  codecOf,
  directionOf,
  hasTelephoneEvent,
  limitedTo,
  SessionOrigin,
  usesDtls,
  withAddress,
  withCodecs,
  withDirection,
  withoutTelephoneEvent,
} from './far-sdp.js';
import type { MediaServer } from './media-server.js';
import { PhoneWatch } from './phone-watch.js';

export interface SessionHost {
  log: EngineLog;
  /** Encoding names the phone may use, the preferred first. */
  codecs: readonly string[];
  /** The address for the phone's SDP in place of the server's own; null: none. */
  shownAddress(server: MediaServer): string | null;
  /** The least loaded other server that takes calls. */
  another(than: MediaServer): MediaServer | null;
  /** An agent keeps its RTP leg although its server forks; `why` in one sentence. */
  notForked(why: string): void;
  closed(): void;
}

/** The codecs between FreeSWITCH and our engine. */
const innerCodecs: readonly PhoneCodec[] = ['PCMU', 'PCMA', 'G722', 'OPUS'];
/** What FreeSWITCH transcodes to the nearest of ours without loss of bandwidth. */
const wideband = new Set(['G7221', 'SPEEX', 'BV32']);
/** After a move the phone must answer our new offer in this time. */
const moveLimitMs = 10_000;
const figuresLimitMs = 1000;

/** The two channels of one phone in one FreeSWITCH. */
interface Channels {
  server: MediaServer;
  phone: FsmrfEndpoint | null;
  /** Resolves when the channel can be commanded; with DTLS after the handshake. */
  phoneReady: Promise<FsmrfEndpoint>;
  agent: FsmrfEndpoint | null;
}

export class FreeSwitchSession implements MediaSession {
  readonly lost: Promise<'rtp-timeout' | 'engine-gone'>;
  localSdp = '';
  #tellLost!: (why: 'rtp-timeout' | 'engine-gone') => void;
  #inner: MediaSession | null = null;
  #channels: Channels | null = null;
  /** The far side's last SDP: a move to another server needs it. */
  #farSdp = '';
  #lastOffer: string | null = null;
  #wanted: MediaDirection = 'sendrecv';
  #isAnswered = false;
  /** Ends the session when the phone does not follow a move. */
  #moving: NodeJS.Timeout | null = null;
  #turn: Promise<unknown> = Promise.resolve();
  /** Of the channel in use, as last read; and of those before a move. */
  #figures: ChannelFigures | null = null;
  #earlier: ChannelFigures | null = null;
  readonly #origin = new SessionOrigin(String(randomInt(2 ** 47)));
  readonly #listeners = new Set<(event: MediaEvent) => void>();
  /** The leg between FreeSWITCH and our engine is wanted: always, or from the first use on when agents are forked. */
  #wantsLeg: boolean;
  #fork: AudioFork | null = null;
  /** Watches the phone while no RTP of it reaches our engine. */
  readonly #watch: PhoneWatch;
  #closing: Promise<MediaStats> | null = null;

  constructor(
    private readonly wish: OpenSession,
    private readonly firstServer: MediaServer,
    private readonly embedded: MediaEngine,
    private readonly host: SessionHost,
  ) {
    this.lost = new Promise((resolve) => {
      this.#tellLost = resolve;
    });
    this.#wantsLeg = !firstServer.forksAgents;
    this.#watch = new PhoneWatch(wish.policy, {
      tell: (event) => this.#tell(event),
      silent: () => this.#tellLost('rtp-timeout'),
    });
  }

  get #known(): MediaSession {
    if (this.#inner === null) throw new MediaError('closed', 'The session is not open.');
    return this.#inner;
  }

  /** The session of the embedded engine, which hears the phone and is heard. */
  get inner(): MediaSession {
    const inner = this.#known;
    if (this.#wantsLeg || this.#closing) return inner;
    this.#wantsLeg = true;
    this.#watch.stop();
    if (this.#isAnswered) inner.attach(null); // with a fork, silence keeps the channel writing
    const channels = this.#channels;
    if (channels !== null && this.#farSdp !== '')
      this.#inTurn(() => this.#join(channels, { provisional: !this.#isAnswered })).catch((error: Error) =>
        this.#unusable(channels, error),
      );
    return inner;
  }

  get held(): MediaSession['held'] {
    return this.#wantsLeg ? this.inner.held : this.#watch.held;
  }

  async open(): Promise<void> {
    const { ownAddress } = this.firstServer;
    const { signalledFrom: _theirs, ...wish } = this.wish;
    const policy = { ...wish.policy, codecs: [...innerCodecs], srtp: 'off' as const };
    const inner = await this.embedded.open({
      ...{ ...wish, policy, offer: null },
      ...{ localAddress: ownAddress, bindAddress: ownAddress },
    });
    this.#inner = inner;
    void inner.lost.then((why) => this.#tellLost(why));
    inner.onEvent((event) => void this.#pass(event));
    const { offer } = this.wish;
    if (offer !== null) await this.#answerFirst(offer, this.firstServer);
  }

  offer(direction: MediaDirection = this.#wanted): Promise<string> {
    return this.#inTurn(async () => {
      this.#wanted = direction;
      let channels = this.#channels;
      if (channels === null) {
        const phone = await this.firstServer.offer(this.host.codecs);
        channels = { server: this.firstServer, phone, phoneReady: Promise.resolve(phone), agent: null };
        this.#take(channels);
      }
      const phone = await channels.phoneReady;
      if (channels.agent !== null) await this.#known.offer(direction);
      return this.#send(withDirection(withCodecs(phone.local.sdp, this.host.codecs), direction));
    });
  }

  accept(sdp: string, options: { provisional: boolean; signalledFrom?: string }): Promise<void> {
    return this.#inTurn(async () => {
      const channels = this.#here();
      const phone = await channels.phoneReady;
      if (sdp !== this.#farSdp || channels.phone?.local.sdp === '') await this.#modify(phone, sdp);
      this.#farSdp = sdp;
      this.#watch.direction(directionOf(sdp));
      if (channels.agent === null) await this.#joinIfWanted(channels, { provisional: options.provisional });
      else
        await this.#known
          .accept(this.#agentSdp(channels.agent), { provisional: options.provisional })
          .catch(ignoreNoOffer);
      if (!options.provisional) this.#isAnswered = true;
      this.#moved();
    });
  }

  answer(offer: string): Promise<string> {
    if (offer === this.#lastOffer && this.localSdp !== '' && !this.#isAnswered) return Promise.resolve(this.localSdp);
    return this.#inTurn(async () => {
      if (this.#channels === null) {
        await this.#answerFirst(offer, this.firstServer);
        return this.localSdp;
      }
      const channels = this.#channels;
      const phone = await channels.phoneReady;
      const answered = await this.#modify(phone, offer);
      this.#farSdp = offer;
      this.#lastOffer = offer;
      this.#watch.direction(directionOf(offer));
      if (channels.agent === null) await this.#joinIfWanted(channels, { provisional: true });
      else await this.#known.answer(this.#agentSdp(channels.agent));
      return this.#send(withDirection(answered, limitedTo(directionOf(answered), this.#wanted)));
    });
  }

  async prepareAgent(target: AgentTarget, signal: AbortSignal): Promise<AgentLink> {
    if (!this.firstServer.forksAgents) return this.inner.prepareAgent(target, signal);
    const reason = whyNotForked(target);
    if (reason !== null) {
      this.host.notForked(reason);
      return this.inner.prepareAgent(target, signal);
    }
    const fork = new AudioFork(
      target,
      (endpoint, words) => this.#here().server.fork(endpoint, words),
      () => this.#here().phoneReady,
    );
    // A callee that still rings would miss the agent's first words: there the fork connects at its start.
    if (this.#farSdp !== '' && (this.wish.role === 'caller' || this.#isAnswered)) await fork.connect(signal);
    return fork;
  }

  attach(owner: AgentLink | null): void {
    this.#isAnswered = true;
    this.#watch.answered();
    this.#fork = owner instanceof AudioFork ? owner : null;
    if (this.#fork !== null || (owner === null && !this.#wantsLeg)) {
      if (this.#wantsLeg) this.inner.attach(null);
      return;
    }
    this.inner.attach(owner);
  }

  async play(source: AudioSource, signal: AbortSignal): Promise<PlayEnd> {
    const { inner } = this;
    await this.#turn; // the leg, if it was not there
    return inner.play(source, signal);
  }

  redact(what: RedactedMedia): void {
    this.#inner?.redact(what);
  }

  record(options: RecordOptions): Recording {
    return this.inner.record(options);
  }

  bridge(other: MediaSession, options: BridgeOptions): Bridge {
    return this.inner.bridge(innerOf(other), options);
  }

  fork(target: AgentTarget, tracks: AudioTracks, signal: AbortSignal): Promise<Fork> {
    return this.inner.fork(target, tracks, signal);
  }

  tap(port: MessagePort, options: TapOptions): Tap {
    return this.inner.tap(port, options);
  }

  detectMachine(options: { untilMessageEnd: boolean }, signal: AbortSignal): Promise<MachineVerdict> {
    return this.inner.detectMachine(options, signal);
  }

  async sendDtmf(digits: string, as?: KeyForm): Promise<void> {
    const { inner } = this;
    await this.#turn;
    return inner.sendDtmf(digits, as);
  }

  onEvent(listener: (event: MediaEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async stats(): Promise<MediaStats> {
    return this.#closing ?? this.#withFigures(await this.#known.stats());
  }

  close(): Promise<MediaStats> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** A FreeSWITCH died: the call moves to another one when its phone can be told, else it ends. */
  serverLost(server: MediaServer): void {
    if (this.#channels?.server === server) this.#leave(this.#channels);
  }

  /** The first offer of the far side. */
  async #answerFirst(offer: string, server: MediaServer): Promise<void> {
    const made = await server.answer(offer, this.host.codecs);
    const channels: Channels = { server, phone: null, phoneReady: made.endpoint, agent: null };
    this.#farSdp = offer;
    this.#lastOffer = offer;
    this.#take(channels);
    this.#send(withDirection(made.sdp, limitedTo(directionOf(made.sdp), this.#wanted)));
    this.#watch.direction(directionOf(offer));
    const joined = this.#joinIfWanted(channels, { provisional: true });
    if (usesDtls(offer)) joined.catch((error: Error) => this.#unusable(channels, error));
    else await joined;
  }

  async #joinIfWanted(channels: Channels, as: { provisional: boolean }): Promise<void> {
    if (this.#wantsLeg) await this.#join(channels, as);
  }

  /** Makes the channel towards our engine and bridges it with the phone's. */
  async #join(channels: Channels, { provisional }: { provisional: boolean }): Promise<void> {
    if (channels.agent !== null) return;
    const codec = innerCodecFor(codecOf(channels.phone?.local.sdp ?? this.localSdp));
    const offer = withCodecs(await this.#known.offer(this.#wanted), [codec]);
    const agent = await channels.server.agentSide(offer, codec);
    channels.agent = agent;
    if (this.#closing || this.#channels !== channels) {
      void channels.server.destroy(agent);
      throw new MediaError('closed', 'The session is closed.');
    }
    agent.once('destroy', () => this.#leave(channels));
    await this.#known.accept(this.#agentSdp(agent), { provisional });
    await channels.server.bridge(await channels.phoneReady, agent);
  }

  /** What our engine sees: the agent side's address and codec, the phone's direction, and telephone events only when the phone has them. */
  #agentSdp(agent: FsmrfEndpoint): string {
    const sdp = withDirection(agent.local.sdp, directionOf(this.#farSdp));
    return hasTelephoneEvent(this.#farSdp) ? sdp : withoutTelephoneEvent(sdp);
  }

  #take(channels: Channels): void {
    this.#channels = channels;
    channels.phoneReady.then(
      (phone) => {
        channels.phone = phone;
        phone.once('destroy', () => this.#leave(channels));
        if (!this.#wantsLeg) this.#watch.keys(phone);
        if (this.#closing || this.#channels !== channels) void channels.server.destroy(phone);
      },
      (error: Error) => this.#unusable(channels, error),
    );
  }

  #unusable(channels: Channels, error: Error): void {
    if (this.#closing || this.#channels !== channels) return;
    this.host.log.warn({ server: channels.server.name, err: error.message }, 'media server gave no bridge');
    this.#tellLost('engine-gone');
  }

  async #modify(phone: FsmrfEndpoint, sdp: string): Promise<string> {
    try {
      return await phone.modify(sdp);
    } catch (error) {
      const said = error instanceof Error ? error.message : String(error);
      throw new MediaError('incompatible_media', said);
    }
  }

  #send(sdp: string): string {
    const shown = this.#channels && this.host.shownAddress(this.#channels.server);
    this.localSdp = this.#origin.mark(shown ? withAddress(sdp, shown) : sdp);
    return this.localSdp;
  }

  #here(): Channels {
    if (this.#channels === null)
      throw new MediaError('bad_sdp', 'An SDP answer arrived, but no offer of ours is open.');
    return this.#channels;
  }

  /** Negotiations and moves, one at a time. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closing) return Promise.reject(new MediaError('closed', 'The session is closed.'));
    const turn = this.#turn.then(work);
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  /** The channels of this server are gone, or one of them is. */
  #leave(channels: Channels): void {
    if (this.#closing || this.#channels !== channels) return;
    this.#release(channels);
    const next = this.host.another(channels.server);
    if (next === null || !this.#isAnswered || this.#farSdp === '' || usesDtls(this.#farSdp)) {
      this.#channels = null;
      this.#tellLost('engine-gone');
      return;
    }
    this.#earlier = addFigures(this.#earlier, this.#figures);
    this.#figures = null;
    const moved = { ...channels, server: next };
    this.#channels = moved;
    void this.#inTurn(() => this.#move(next)).catch((error: Error) => {
      this.host.log.warn({ server: next.name, err: error.message }, 'a call could not move to another media server');
      this.#tellLost('engine-gone');
    });
  }

  /** The new server sends to the phone at once; the phone sends to it after the re-INVITE that the event asks for. */
  async #move(next: MediaServer): Promise<void> {
    const made = await next.answer(this.#farSdp, this.host.codecs);
    const channels: Channels = { server: next, phone: null, phoneReady: made.endpoint, agent: null };
    this.#take(channels);
    channels.phone = await made.endpoint;
    await this.#joinIfWanted(channels, { provisional: false });
    await this.#forkAgain(next);
    this.#moving = setTimeout(() => this.#tellLost('engine-gone'), moveLimitMs);
    this.host.log.warn({ server: next.name }, 'a call moved to another media server');
    this.#tell({ type: 'moved' });
  }

  async #forkAgain(server: MediaServer): Promise<void> {
    const fork = this.#fork;
    if (fork === null) return;
    const why = server.forksAgents ? null : `FreeSWITCH at ${server.name} is used without agent_audio=fork.`;
    await (why === null ? fork.connect(null) : Promise.reject(new Error(why))).catch((error: Error) =>
      fork.fail(error.message),
    );
  }

  #moved(): void {
    if (this.#moving) clearTimeout(this.#moving);
    this.#moving = null;
  }

  #release({ server, phone, agent }: Channels): void {
    for (const endpoint of [phone, agent]) if (endpoint) void server.destroy(endpoint);
  }

  async #pass(event: MediaEvent): Promise<void> {
    if (event.type !== 'quality') return this.#tell(event);
    const sample = await this.#withFigures(event.sample);
    if (!this.#wantsLeg) this.#watch.heard(sample.received.packets);
    if (!this.#closing) this.#tell({ type: 'quality', sample });
  }

  #tell(event: MediaEvent): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener(event);
      } catch (error) {
        this.host.log.error({ err: error }, 'a listener of media events failed');
      }
    }
  }

  /** With the figures of the phone's channel; those of the last sample when it is gone. */
  async #withFigures(stats: MediaStats): Promise<MediaStats> {
    const phone = this.#channels?.phone;
    if (phone?.connected) this.#figures = (await readFigures(phone, figuresLimitMs)) ?? this.#figures;
    return asStats(addFigures(this.#earlier, this.#figures), stats);
  }

  async #close(): Promise<MediaStats> {
    this.#moved();
    this.#watch.stop();
    const channels = this.#channels;
    const inner = this.#inner;
    if (inner === null) return unknownStats();
    const measured = await this.#withFigures(await inner.stats().catch(() => unknownStats()));
    const last = await inner.close();
    if (channels) {
      const ends = [channels.phone, channels.agent].map((end) => end && channels.server.destroy(end));
      await Promise.all(ends);
    }
    this.#listeners.clear();
    this.host.closed();
    return { ...measured, agent: last.agent };
  }
}

/** The embedded session behind any session of this engine: one that needs no FreeSWITCH is such a session itself. */
export function innerOf(session: MediaSession): MediaSession {
  return session instanceof FreeSwitchSession ? session.inner : session;
}

/** FreeSWITCH passes frames on unread when both sides use the same codec. */
function innerCodecFor(codec: string | null): PhoneCodec {
  const same = innerCodecs.find((each) => each === codec);
  if (same) return same;
  return codec !== null && wideband.has(codec) ? 'G722' : 'PCMU';
}

/** A second answer to the same offer, for example the 200 after a 183, changes nothing for our engine. */
function ignoreNoOffer(error: unknown): void {
  if (!(error instanceof MediaError) || error.code !== 'bad_sdp') throw error;
}
