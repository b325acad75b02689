/** One session on its media thread: SDP, sockets, both directions of audio, and its agents. */
import { randomBytes } from 'node:crypto';
import type { RemoteInfo } from 'node:dgram';
import type { MessagePort } from 'node:worker_threads';
import type { AgentEnd, AgentEvent, AgentTarget, AudioTracks } from '../../agents/agent.js';
import type { WideDecoder } from '../../audio/codec/wide-codec.js';
import { AgentEcho } from '../../audio/detect/agent-echo.js';
import { Turns } from '../../audio/detect/turns.js';
import type { ClockEntry, PlayoutClock } from '../../audio/playout/playout-clock.js';
import { codecFacts } from '../../codecs.js';
import { DelayCounts } from '../../delay-spread.js';
import {
  type AudioSource,
  type BridgeEnd,
  type BridgeOptions,
  type KeyForm,
  type MachineVerdict,
  type MediaDirection,
  MediaError,
  type MediaEvent,
  type MediaStats,
  type OpenSession,
  type PhoneCodec,
  type PlayEnd,
  type RecordingEnd,
  type RecordOptions,
  type RedactedMedia,
  type TapEnd,
  type TapOptions,
} from '../../engine.js';
import type { DiskConnection } from '../../recording/disk-connection.js';
import type { KeyPress } from '../../rtp/dtmf.js';
import { looksLikeRtcp, type RtpView, readUint32 } from '../../rtp/packet.js';
import { RtpSender, type RtpSenderHooks } from '../../rtp/sender.js';
import type { RtpSocketHandlers, RtpSocketPair } from '../../rtp/socket.js';
import { formatKey, SdpNegotiation } from '../../sdp.js';
import type { FaultPlace } from '../fault-isolation.js';
import { heardFromMs, type Lateness, noLatePackets } from '../lateness.js';
import { SessionListeners } from '../listeners/session-listeners.js';
import { FromPhone, type FromPhoneHooks } from './from-phone.js';
import { RtcpExchange, type RtpDestination } from './rtcp-exchange.js';
import { SessionActivities } from './session-activities.js';
import type { OpenAgent, SessionAgent } from './session-agent.js';
import { SessionAgents } from './session-agents.js';
import type { SessionCoders } from './session-coders.js';
import { mediaStats } from './session-stats.js';
import { ToPhone } from './to-phone.js';

const qualityEveryMs = 5000;
/** What only reports, or notices a pause, has no turn in every slot: its state would be read anew from memory each time. */
const choresEveryMs = 100;

/** Dependencies of a session, and callbacks for its events. */
export interface SessionParts {
  clock: PlayoutClock;
  lateness: Pick<Lateness, 'heard' | 'settle'>;
  /** Wideband coders; the session frees them. */
  coders: SessionCoders;
  now(): number;
  /** A packet arrived on the RTP socket, from any source. */
  packetCame(): void;
  openAgent: OpenAgent;
  event(event: MediaEvent): void;
  lost(why: 'rtp-timeout' | 'engine-gone'): void;
  agentEvent(agent: number, event: AgentEvent): void;
  agentEnded(agent: number, end: AgentEnd): void;
  fault(place: FaultPlace, error: unknown): void;
}

export class PhoneSession implements FromPhoneHooks, RtpSenderHooks, RtpSocketHandlers {
  readonly inward: FromPhone;
  private readonly sdp: SdpNegotiation;
  private readonly sender: RtpSender;
  private readonly outward: ToPhone;
  private readonly rtcpExchange: RtcpExchange;
  private readonly activities: SessionActivities;
  private readonly coders: SessionCoders;
  readonly agents: SessionAgents;
  private readonly listeners: SessionListeners;
  private readonly openedMs: number;
  private owner: SessionAgent | null = null;
  private ownerHeard = false;
  /** null before the first agent. */
  private turns: Turns | null = null;
  /** null until somebody asks whether the phone's user speaks. */
  private agentEcho: AgentEcho | null = null;
  private readonly entry: ClockEntry;
  private readonly codecs: readonly PhoneCodec[];
  private held = false;
  private sending = false;
  private lostTold = false;
  private over = false;
  private nextQualityMs: number;
  private nextChoresMs = 0;
  /** When the thread read the last packet. */
  private receivedMs = 0;
  /** When the packet that is sent now was due, or came from another phone. */
  private sentMs = 0;
  private readonly uplinkDelays = new DelayCounts();
  private readonly late = noLatePackets();
  private destination: RtpDestination | null = null;

  /** Answers the offer, if there is one. Throws `MediaError` when it cannot be met, and then holds no resources. */
  constructor(
    options: OpenSession,
    readonly pair: RtpSocketPair,
    private readonly parts: SessionParts,
  ) {
    this.coders = parts.coders;
    const nowMs = parts.now();
    const random = randomBytes(32);
    this.codecs = options.policy.codecs;
    this.openedMs = nowMs;
    this.nextQualityMs = nowMs + qualityEveryMs;
    this.sdp = new SdpNegotiation(
      {
        address: options.localAddress,
        rtpPort: pair.rtpPort,
        codecs: options.policy.codecs,
        ...(options.policy.srtp === undefined ? {} : { srtp: options.policy.srtp }),
      },
      String(readUint32(random, 0)),
    );
    const [ssrc, sequence] = [readUint32(random, 4), readUint32(random, 8) & 0x7fff];
    this.sender = new RtpSender(ssrc, sequence, readUint32(random, 12), this);
    this.outward = new ToPhone(this.sender, nowMs, {
      due: (dueMs) => parts.clock.move(this.entry, dueMs),
      firstAudio: (atMs) => {
        if (this.owner === null || this.ownerHeard || this.activities.active) return;
        this.ownerHeard = true;
        this.emit({ type: 'agentAudio', atMs: atMs - this.openedMs });
      },
    });
    this.activities = new SessionActivities({
      outward: this.outward,
      now: parts.now,
      codec: () => this.codec,
      pressing: () => this.inward.pressing,
      terms: () => formatKey(this.sdp.agreed),
      relayed: (timestamp, bytes) => {
        this.sentMs = parts.now();
        this.said(timestamp, bytes, 0, bytes.length);
      },
      startSending: () => this.startSending(),
      listen: () => this.inward.uplink.start(parts.now()),
      echo: () => this.echo(),
      words: () => this.emit({ type: 'words' }),
      toOwner: (startMs) => {
        this.outward.attach(this.owner?.playout ?? null, startMs);
        this.listenForOwner();
      },
    });
    this.inward = new FromPhone(options.policy, this);
    // Not `...parts`: V8 gives each object made from a spread a shape of its own, which makes every call through it slow.
    const { openAgent, fault, agentEvent, agentEnded, clock, now } = parts;
    this.agents = new SessionAgents({
      openAgent,
      fault,
      agentEvent,
      agentEnded,
      clock,
      now,
      codec: () => this.codec,
      queued: (agent, durationMs) => {
        if (this.owner !== agent || this.activities.active) return;
        const nowMs = parts.now();
        this.outward.audioQueued(durationMs, nowMs, parts.clock.lateMs(nowMs));
      },
      cleared: (agent, heard) => {
        if (this.owner !== agent) return;
        if (!this.activities.active) this.outward.cleared();
        const { heardMs, droppedMs, items } = heard;
        this.emit({ type: 'cleared', heardMs, droppedMs, items });
      },
      mark: (name, cleared) => this.emit({ type: 'mark', name, cleared }),
    });
    this.listeners = new SessionListeners({
      openAgent,
      fault,
      agentEvent,
      agentEnded,
      now,
      inward: this.inward,
      openedMs: nowMs,
      codec: () => this.codec,
    });
    this.rtcpExchange = new RtcpExchange(`${random.toString('hex', 16)}@trunkline`, pair, this.sender, this.inward, {
      far: () => {
        const { agreed } = this.sdp;
        return agreed && this.destination && { agreed, destination: this.destination };
      },
    });
    if (options.offer !== null) this.answer(options.offer, options.signalledFrom);
    this.entry = this.run();
  }

  get localSdp(): string {
    return this.sdp.localSdp;
  }

  offer(direction?: MediaDirection): string {
    this.alive();
    return this.sdp.offer(direction);
  }

  /** Loads what the SDP may choose, before `accept` or `answer`. */
  prepare(sdp: string): Promise<void> {
    return this.coders.prepare(sdp, this.codecs);
  }

  accept(sdp: string, provisional: boolean, signalledFrom?: string): void {
    this.alive();
    this.sdp.accept(sdp, provisional);
    this.agreed(signalledFrom);
    if (!provisional) this.goLive();
  }

  answer(offer: string, signalledFrom?: string): string {
    this.alive();
    const answer = this.sdp.answer(offer);
    this.agreed(signalledFrom);
    return answer;
  }

  startAgent(id: number): void {
    const agent = this.agents.start(id);
    if (agent && agent === this.owner && !this.activities.active) this.listenForOwner();
  }

  async closeAgent(id: number, reason: string): Promise<void> {
    if (this.owner && this.owner === this.agents.get(id)) this.attach(null);
    await Promise.all([this.agents.close(id, reason), this.listeners.closeFork(id, reason)]);
  }

  abortAgent(id: number): void {
    this.agents.get(id)?.abort();
    this.listeners.abortFork(id);
  }

  /** Resolves when the fork gets audio. Rejects with `AgentFailure` or `MediaError`. */
  async fork(id: number, target: AgentTarget, tracks: AudioTracks): Promise<void> {
    this.alive();
    await this.listeners.fork(id, target, tracks, this.codec);
  }

  async tap(activity: number, port: MessagePort, options: TapOptions): Promise<TapEnd> {
    this.alive();
    return this.listeners.tap(activity, port, options);
  }

  /** Sets the one owner of playout; null and unknown agents are silence. */
  attach(id: number | null): void {
    if (this.over) return;
    const agent = id === null ? null : this.agents.get(id);
    this.goLive();
    const changed = agent !== this.owner;
    this.owner = agent;
    if (changed) this.ownerHeard = false;
    if (agent) {
      this.followTurns();
      this.echo().remove(agent.removesEcho);
    } else this.turns?.end();
    // The foreground activity returns playout to the new owner when it ends.
    if (this.activities.active) this.activities.replaced();
    else if (changed) {
      this.outward.attach(agent?.playout ?? null, this.parts.now());
      this.listenForOwner();
    }
  }

  async play(activity: number, source: AudioSource): Promise<PlayEnd> {
    this.alive();
    return this.activities.play(activity, source);
  }

  async record(activity: number, options: RecordOptions, disk: DiskConnection): Promise<RecordingEnd> {
    this.alive();
    return this.activities.record(activity, options, disk);
  }

  async detectMachine(activity: number, untilMessageEnd: boolean, early: boolean): Promise<MachineVerdict> {
    this.alive();
    return this.activities.detectMachine(activity, untilMessageEnd, early);
  }

  async bridge(activity: number, other: PhoneSession, options: BridgeOptions): Promise<BridgeEnd> {
    this.alive();
    other.alive();
    if (options.turns) this.followTurns();
    return this.activities.bridge(activity, other.activities, options);
  }

  async bridgeAcross(activity: number, port: MessagePort, options: BridgeOptions): Promise<BridgeEnd> {
    this.alive();
    if (options.turns) this.followTurns();
    return this.activities.bridgeAcross(activity, port, options);
  }

  async confer(activity: number, room: SharedArrayBuffer, seat: number): Promise<PlayEnd['by']> {
    this.alive();
    return this.activities.confer(activity, room, seat);
  }

  endActivity(activity: number): void {
    this.activities.endActivity(activity);
    this.listeners.endTap(activity);
  }

  redact(what: RedactedMedia): void {
    this.activities.redact(what);
    this.listeners.redacted = what.audio && what.streams;
  }

  pauseRecording(activity: number, paused: boolean): void {
    this.activities.pauseRecording(activity, paused);
  }

  sendDtmf(digits: string, form: KeyForm): Promise<void> {
    this.alive();
    return this.outward.sendDtmf(digits, form);
  }

  stats(): MediaStats {
    const figures = {
      ...this.agents.counters(),
      underruns: this.outward.underruns,
      skippedMs: this.outward.skippedMs,
    };
    return mediaStats(this.sdp.agreed, this.inward, this.sender, this.rtcpExchange.reports, figures, {
      uplink: this.uplinkDelays,
      playout: this.outward.delays,
      late: this.late,
      echo: this.agentEcho?.figures ?? null,
    });
  }

  /** Stops RTP at once and leaves the sockets to the caller; resolves when the agents closed, within their own limits. */
  stop(): Promise<unknown> {
    this.turns?.end();
    this.over = true;
    this.parts.lateness.settle(this.late);
    this.parts.clock.remove(this.entry);
    this.activities.close();
    this.coders.free();
    if (this.sending) this.rtcpExchange.bye(this.parts.now());
    this.outward.close();
    const closing = [...this.agents.stop(), ...this.listeners.stop()];
    this.pair.deliverTo(null);
    return Promise.allSettled(closing);
  }

  /** A packet on the RTP socket. */
  rtp(bytes: Uint8Array, from: RemoteInfo): void {
    try {
      this.parts.packetCame();
      const nowMs = this.parts.now();
      this.receivedMs = nowMs;
      if (looksLikeRtcp(bytes)) this.rtcpExchange.packet(bytes, from, true, nowMs);
      else this.inward.packet(bytes, from, nowMs);
    } catch (error) {
      this.fault(error);
    }
  }

  /** A packet on the RTCP socket. */
  rtcp(bytes: Uint8Array, from: RemoteInfo): void {
    try {
      this.rtcpExchange.packet(bytes, from, false, this.parts.now());
    } catch (error) {
      this.fault(error);
    }
  }

  refused(): void {
    this.inward.malformed += 1;
  }

  event(event: MediaEvent): void {
    this.emit(event);
  }

  key({ digit, durationMs }: KeyPress, form: KeyForm): void {
    this.emit({ type: 'dtmf', digit, durationMs, form, passedOn: this.activities.key(digit, form) });
  }

  started(atMs: number): void {
    this.startSending();
    this.emit({ type: 'started', atMs: atMs - this.openedMs });
  }

  sourceFound(address: string, port: number): void {
    this.destination = { address, port };
  }

  audio(bytes: Uint8Array, atMs: number): void {
    if (this.activities.hear(bytes) || !this.owner?.started) return;
    const waitMs = this.owner.listen(bytes, atMs);
    this.uplinkDelays.add(this.inward.uplink.waitedMs + this.parts.clock.lateMs(this.receivedMs) + waitMs);
  }

  packet(packet: RtpView, payload: Uint8Array, codec: PhoneCodec | 'event', restarted: boolean): void {
    this.activities.packet(packet, payload, codec, restarted);
  }

  heard(timestamp: number, bytes: Uint8Array, codec: PhoneCodec, atMs: number): Uint8Array {
    // A recording and another phone get what arrived.
    this.activities.heard(timestamp, bytes, codec, atMs, this.held);
    if (this.held) return bytes; // music on hold is no turn
    const clean = this.agentEcho?.heard(timestamp, bytes, codec, atMs) ?? bytes;
    this.turns?.fromCaller(timestamp, clean, 0, clean.length, codec, atMs);
    return clean;
  }

  decoder(codec: PhoneCodec): WideDecoder | null {
    return this.coders.of(codec);
  }

  private fault(error: unknown): void {
    this.parts.fault('media', error);
    this.parts.clock.remove(this.entry);
    this.pair.deliverTo(null);
    this.tellLost('engine-gone');
  }

  private run(): ClockEntry {
    this.pair.deliverTo(this);
    return this.parts.clock.add((nowMs) => {
      const readyAtMs = this.outward.readyAtMs(nowMs);
      if (readyAtMs !== nowMs) return readyAtMs;
      try {
        this.slot(nowMs);
      } catch (error) {
        this.fault(error);
      }
      return this.outward.dueMs;
    }, this.outward.dueMs);
  }

  private slot(nowMs: number): void {
    this.sentMs = nowMs;
    if (this.inward.tick(nowMs)) this.tellLost('rtp-timeout');
    if (nowMs >= this.nextChoresMs) this.doChores(nowMs);
    if (nowMs - this.outward.dueMs >= heardFromMs && this.sending) this.isLate();
    this.outward.slot(nowMs);
    this.activities.tick(nowMs);
    this.listeners.lines.tick(nowMs);
  }

  private isLate(): void {
    if (this.parts.lateness.heard(this.late, this.outward.dueMs)) return;
    if (this.outward.awaited) this.late.agent += 1;
    else this.late.unknown += 1;
  }

  private doChores(nowMs: number): void {
    this.nextChoresMs = nowMs + choresEveryMs;
    this.turns?.tick(nowMs);
    if (this.sending) this.rtcpExchange.tick(nowMs);
    if (nowMs < this.nextQualityMs) return;
    this.nextQualityMs = nowMs + qualityEveryMs;
    this.emit({ type: 'quality', sample: this.stats() });
    for (const delays of [this.rtcpExchange.reports.roundTrips, this.uplinkDelays, this.outward.delays]) delays.mark();
    this.coders.lossHeard(this.rtcpExchange.reports.heard?.lossPercent ?? 0);
  }

  private agreed(signalledFrom?: string): void {
    const { agreed } = this.sdp;
    if (!agreed) return;
    if (signalledFrom) this.inward.source.signalledFrom(signalledFrom);
    this.pair.secure(agreed.srtp);
    const coder = this.coders.agree(agreed);
    this.sender.changeCodec(codecFacts[agreed.codec].clockKhz, coder !== null, () => readUint32(randomBytes(4), 0));
    const moved = this.inward.agree(agreed, this.parts.now());
    if (moved) this.destination = { address: agreed.address, port: agreed.port };
    this.outward.agree(agreed, coder);
    this.agents.changeCodec(agreed.codec);
    this.listeners.lines.changeCodec(agreed.codec);
    this.activities.changeCodec(agreed.codec);
    if (agreed.held === this.held) return;
    this.held = agreed.held;
    this.emit(this.held ? { type: 'held', sends: agreed.receive } : { type: 'resumed' });
  }

  transmit(packet: Uint8Array): void {
    const { destination } = this;
    if (destination === null || this.pair.sendRtp(packet, destination.port, destination.address)) return;
    this.sender.leaveMemory();
  }

  transmitted(payloadType: number, timestamp: number, bytes: Uint8Array, from: number, to: number): void {
    if (this.sdp.agreed?.payloadType === payloadType) this.said(timestamp, bytes, from, to);
  }

  /** Audio that was sent to the phone, in its sample format. */
  private said(timestamp: number, bytes: Uint8Array, from: number, to: number): void {
    const { sentMs } = this;
    this.activities.sent(timestamp, bytes, from, to, this.codec, sentMs);
    this.listeners.lines.toPhone(timestamp, bytes, from, to, this.codec, sentMs);
    this.agentEcho?.sent(timestamp, bytes, from, to, this.codec, sentMs);
    // Audio that is played in the agent's place, or bridges a gap in the agent's audio, belongs to no turn.
    const { bridgedFrom } = this.outward;
    const until = bridgedFrom === null ? to : from + bridgedFrom;
    if (until > from && (this.activities.carriesAgent || (this.owner !== null && !this.activities.active)))
      this.turns?.fromAgent(timestamp, bytes, from, until, this.codec, sentMs);
  }

  /** The call is answered: from now on silence of the phone is a fault. */
  private goLive(): void {
    this.startSending();
    this.inward.goLive(this.parts.now());
  }

  /** The phone is ready for RTP; it may still be ringing (early media). */
  private startSending(): void {
    if (this.sending) return;
    this.sending = true;
    this.outward.goLive();
    this.rtcpExchange.reports.start(this.parts.now());
  }

  private get codec(): PhoneCodec {
    return this.sdp.agreed?.codec ?? this.codecs[0] ?? 'PCMU';
  }

  private listenForOwner(): void {
    if (this.owner?.started) this.inward.uplink.start(this.parts.now());
    else this.inward.uplink.stop();
  }

  private followTurns(): void {
    const agoMs = (atMs: number) => Math.max(0, this.parts.now() - this.openedMs - atMs);
    this.turns ??= new Turns(
      this.openedMs,
      (event) => this.emit(event.type === 'bargeIn' ? event : { ...event, agoMs: agoMs(event.startedMs) }),
      (atMs) => this.owner?.callerSpeaks(agoMs(atMs)),
      this.echo(),
    );
  }

  private echo(): AgentEcho {
    this.agentEcho ??= new AgentEcho(this.openedMs);
    return this.agentEcho;
  }

  private emit(event: MediaEvent): void {
    if (!this.over) this.parts.event(event);
  }

  private tellLost(why: 'rtp-timeout' | 'engine-gone'): void {
    if (this.lostTold || this.over) return;
    this.lostTold = true;
    this.parts.lost(why);
  }

  private alive(): void {
    if (this.over) throw new MediaError('closed', 'The session is closed.');
  }
}
