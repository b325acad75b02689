/** The audio of the simulated phone: its own RTP and RTCP sockets, paced sending, and statistics of what arrives. */
import { randomInt } from 'node:crypto';
import { createSocket, type Socket } from 'node:dgram';
import { TimestampClock } from '../../../media/audio/playout/timestamp-clock.js';
import { ticksPerMs } from '../../../media/audio/sample-format.js';
import { codecFacts } from '../../../media/codecs.js';
import type { PhoneCodec } from '../../../media/engine.js';
import { DtmfReceiver, DtmfSender } from '../../../media/rtp/dtmf.js';
import { emptyRtpView, looksLikeRtcp, parseRtp, rtpHeaderBytes, writeRtpHeader } from '../../../media/rtp/packet.js';
import { ReceiverStats } from '../../../media/rtp/receiver-stats.js';
import { Reports, type SentFigures } from '../../../media/rtp/reports.js';
import { readRtcp } from '../../../media/rtp/rtcp.js';
import type { AgreedMedia } from '../../../media/sdp.js';
import type { CallFaults } from '../faults.js';
import { FrameTimer } from './frame-timer.js';
import { HeardAudio } from './heard-audio.js';
import { ImpairedPath, type Impairments } from './impairments.js';
import { isSound } from './listen.js';
import { sampleRateHz } from './marker.js';
import { PhoneCoder } from './phone-coder.js';
import { type CallerSound, CallerVoice } from './voice.js';

/** Receives both directions of the audio. The samples are reused: copy what is kept. */
export interface PhoneRtpListener {
  /** Samples at 8 kHz; those of `caller` are before the impairments. */
  audio(side: 'caller' | 'agent', samples: Int16Array): void;
  /** Called about once a second. */
  measured(figures: { received: number; lost: number; jitterMs: number | null; rttMs: number | null }): void;
}

export interface PhoneRtpOptions {
  ear?: PhoneRtpListener;
  speech: CallerSound;
  markers: boolean;
  ptimeMs: number;
  impairments: Impairments;
  faults?: Pick<CallFaults, 'oneWay' | 'clockSkewPpm'>;
  /** Audio beyond this is counted but not kept. */
  keepAudioSec: number;
}

const portTries = 50;
const measureEveryMs = 1000;

export class PhoneRtp {
  readonly received = new ReceiverStats();
  readonly heard: HeardAudio;
  readonly path: ImpairedPath;
  readonly frameTimer: FrameTimer;
  readonly reports: Reports;
  /** Send time of each marker, by its number. */
  readonly markersSentMs = new Map<number, number>();
  digitsHeard = '';
  sentPackets = 0;
  /** Packets that were skipped because this machine stalled. */
  leftOut = 0;
  malformed = 0;
  /** Packets from another address than that of the SDP. */
  foreign = 0;
  /** Codecs of the received packets, in the order of their first packets. */
  readonly codecsHeard = new Set<PhoneCodec>();
  firstPacketMs: number | null = null;
  firstSoundMs: number | null = null;
  private sentBytes = 0;
  private agreed: AgreedMedia | null = null;
  private readonly dtmfOut = new DtmfSender();
  private readonly dtmfIn = new DtmfReceiver();
  private readonly voice: CallerVoice;
  private readonly frame: Int16Array;
  private readonly coder = new PhoneCoder();
  private readonly clock = new TimestampClock();
  private readonly view = emptyRtpView();
  private ssrc = randomInt(1, 2 ** 32);
  private firstSequence = randomInt(0, 2 ** 15);
  private readonly firstTimestamp = randomInt(0, 2 ** 31);
  private sequence = this.firstSequence;
  /** Sequence numbers used with this SSRC. */
  private sequencesUsed = 0;
  /** In samples at 8 kHz; RTP timestamps use the clock rate of the codec. */
  private timestamp = this.firstTimestamp;
  private clockKhz: number = ticksPerMs;
  private pressTimestamp = 0;
  private startedMs = 0;
  /** The position after the last received audio. */
  private heardUntil = 0;
  private closed = false;
  private ticks = 0;

  private constructor(
    private readonly rtp: Socket,
    private readonly rtcp: Socket,
    private readonly options: PhoneRtpOptions,
  ) {
    this.heard = new HeardAudio(options.keepAudioSec);
    this.voice = new CallerVoice(options.speech, options.markers);
    this.frame = new Int16Array((options.ptimeMs * sampleRateHz) / 1000);
    this.reports = new Reports(`simulator-${this.ssrc}`, Date.now() - performance.now());
    this.path = new ImpairedPath(options.impairments, (packet) => this.transmit(packet), options.ptimeMs);
    const skew = (options.faults?.clockSkewPpm ?? 0) / 1e6;
    this.frameTimer = new FrameTimer(options.ptimeMs / (1 + skew), (leftOut) => this.tick(leftOut));
    if (options.faults?.oneWay !== 'out') {
      rtp.on('message', (packet, from) => this.onPacket(packet, from.address));
      rtcp.on('message', (packet) => this.onReport(packet));
    }
    for (const socket of [rtp, rtcp]) socket.on('error', () => undefined); // ICMP errors of a far side that closed its port: counted as loss
  }

  /** Binds an even port and the next one. Rejects when no pair is free. */
  static async open(address: string, options: PhoneRtpOptions): Promise<PhoneRtp> {
    for (let tries = 0; tries < portTries; tries++) {
      const rtp = await bind(address, 0);
      const { port } = rtp.address();
      const rtcp = port % 2 === 0 ? await bind(address, port + 1).catch(() => null) : null;
      if (rtcp) return new PhoneRtp(rtp, rtcp, options);
      rtp.close();
    }
    throw new Error(`No free pair of UDP ports on ${address}.`);
  }

  get port(): number {
    return this.rtp.address().port;
  }

  get codec(): PhoneCodec | null {
    return this.agreed?.codec ?? null;
  }

  /** Call it before an SDP that may choose one of these codecs is applied. Rejects when Opus cannot be loaded. */
  prepare(sdp: string, codecs: readonly PhoneCodec[]): Promise<void> {
    return this.coder.prepare(sdp, codecs);
  }

  /** Applies the latest answer: where to send, and what to expect. */
  agree(agreed: AgreedMedia): void {
    this.agreed = agreed;
    this.coder.agree(agreed);
    this.dtmfIn.clockKhz = agreed.eventClockKhz;
    const { clockKhz } = codecFacts[agreed.codec];
    if (clockKhz === this.clockKhz) return;
    // Another clock rate begins another stream (RFC 7160).
    this.clockKhz = clockKhz;
    if (this.sentPackets > 0) this.ssrc = randomInt(1, 2 ** 32);
    this.firstSequence = this.sequence;
    this.sequencesUsed = 0;
  }

  /** Starts sending. Idempotent. */
  start(): void {
    if (this.startedMs > 0) return;
    this.startedMs = performance.now();
    this.reports.start(this.startedMs);
    this.frameTimer.start();
  }

  /** Returns whether the far side negotiated telephone-event. */
  sendDigits(digits: string): boolean {
    if (!this.agreed?.telephoneEvent) return false;
    this.dtmfOut.send(digits);
    return true;
  }

  /** Stops sending without RTCP BYE. */
  fallSilent(): void {
    this.frameTimer.stop();
    this.path.close();
  }

  /** Sends RTCP BYE and closes the sockets. Idempotent. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.frameTimer.stop();
    this.path.close();
    this.coder.free();
    const { agreed } = this;
    const closeSockets = () => {
      this.rtp.close();
      this.rtcp.close();
    };
    if (agreed && this.speaks && this.sentPackets > 0) {
      const bye = this.reports.bye(performance.now(), this.sent(), this.received);
      this.rtcp.send(bye, agreed.rtcpPort, agreed.address, closeSockets);
    } else closeSockets();
  }

  private get speaks(): boolean {
    return this.options.faults?.oneWay !== 'in';
  }

  private tick(leftOut: number): void {
    const { agreed } = this;
    const { ear, ptimeMs } = this.options;
    const nowMs = performance.now();
    for (let i = 0; i < leftOut; i++) this.voice.next(this.frame);
    this.timestamp = (this.timestamp + leftOut * this.frame.length) >>> 0;
    this.leftOut += leftOut;
    const marker = this.voice.next(this.frame);
    ear?.audio('caller', this.frame);
    this.ticks += 1;
    if (ear && this.ticks % Math.round(measureEveryMs / ptimeMs) === 0) {
      const { packets, lost, jitterMs } = this.received;
      ear.measured({ received: packets, lost, jitterMs, rttMs: this.reports.rttMs });
    }
    if (agreed?.send && this.speaks) {
      if (!this.sendKey(agreed)) {
        if (marker !== null) this.markersSentMs.set(marker, nowMs);
        this.sendFrame(agreed, leftOut > 0);
      }
      const report = this.reports.due(nowMs, this.sent(), this.received);
      if (report) this.rtcp.send(report, agreed.rtcpPort, agreed.address);
    }
    this.timestamp = (this.timestamp + this.frame.length) >>> 0;
    const late = this.dtmfIn.expire(nowMs);
    if (late) this.digitsHeard += late.digit;
  }

  /** The telephone-event packet that replaces this frame, if there is one. */
  private sendKey(agreed: AgreedMedia): boolean {
    if (!this.dtmfOut.active || !agreed.telephoneEvent) return false;
    const step = this.dtmfOut.next(this.options.ptimeMs, agreed.eventClockKhz);
    if (step.marker) this.pressTimestamp = this.timestamp;
    if (step.payload === null) return false;
    this.sendPacket(agreed.telephoneEvent.send, step.marker, this.pressTimestamp, step.payload);
    return true;
  }

  private sendFrame(agreed: AgreedMedia, afterGap: boolean): void {
    const payload = this.coder.encode(this.frame, agreed.codec);
    // With DTX, silence is not sent.
    if (payload.length > 0)
      this.sendPacket(agreed.payloadType, afterGap || this.sentPackets === 0, this.timestamp, payload);
  }

  private sendPacket(payloadType: number, marker: boolean, timestamp: number, payload: Uint8Array): void {
    const packet = new Uint8Array(rtpHeaderBytes + payload.length);
    writeRtpHeader(packet, payloadType, marker, this.sequence, this.rtpTimestamp(timestamp), this.ssrc);
    packet.set(payload, rtpHeaderBytes);
    this.sequence = (this.sequence + 1) & 0xffff;
    this.sequencesUsed += 1;
    this.sentPackets += 1;
    this.sentBytes += payload.length;
    this.path.forward(packet);
  }

  private rtpTimestamp(samples: number): number {
    return Math.imul(samples, this.clockKhz / ticksPerMs) >>> 0;
  }

  private transmit(packet: Uint8Array): void {
    if (this.agreed && !this.closed) this.rtp.send(packet, this.agreed.port, this.agreed.address);
  }

  private onPacket(packet: Buffer, address: string): void {
    const nowMs = performance.now();
    if (looksLikeRtcp(packet)) {
      this.onReport(packet);
      return;
    }
    if (this.agreed && address !== this.agreed.address) {
      this.foreign += 1;
      return;
    }
    if (!parseRtp(packet, this.view)) {
      this.malformed += 1;
      return;
    }
    const { view } = this;
    const codec = this.agreed ? this.agreed.codecByPayloadType.get(view.payloadType) : undefined;
    if (codec) this.received.changeClock(codecFacts[codec].clockKhz);
    const arrival = this.received.arrived(view, nowMs, codec !== undefined);
    if (arrival === 'duplicate' || arrival === 'suspect') return;
    this.firstPacketMs ??= nowMs;
    const payload = packet.subarray(view.payloadStart, view.payloadEnd);
    if (codec) {
      this.codecsHeard.add(codec);
      const samples = this.coder.decode(payload, codec);
      this.options.ear?.audio('agent', samples);
      if (this.firstSoundMs === null && isSound(samples)) this.firstSoundMs = nowMs;
      const scale = codecFacts[codec].clockKhz / ticksPerMs;
      this.heardUntil = (this.clock.place(view.timestamp, scale, this.heardUntil) + samples.length) >>> 0;
      this.heard.add(this.heardUntil - samples.length, samples, nowMs);
    } else if (view.payloadType === this.agreed?.telephoneEvent?.receive) {
      const press = this.dtmfIn.packet(payload, view.timestamp, nowMs);
      if (press) this.digitsHeard += press.digit;
    }
  }

  private onReport(packet: Uint8Array): void {
    const reading = readRtcp(packet);
    if (reading) this.reports.read(reading, performance.now(), this.sent());
  }

  private sent(): SentFigures {
    return {
      ssrc: this.ssrc,
      clockKhz: this.clockKhz,
      packets: this.sentPackets,
      bytes: this.sentBytes,
      firstSequence: this.firstSequence,
      sequencesUsed: this.sequencesUsed,
      timestampAt: (nowMs) =>
        this.rtpTimestamp(this.firstTimestamp + Math.round(((nowMs - this.startedMs) / 1000) * sampleRateHz)),
    };
  }
}

function bind(address: string, port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = createSocket('udp4');
    socket.once('error', (error) => {
      socket.close();
      reject(new Error(`Cannot bind ${address}:${port} for RTP: ${(error as NodeJS.ErrnoException).code}`));
    });
    socket.bind(port, address, () => resolve(socket));
  });
}
