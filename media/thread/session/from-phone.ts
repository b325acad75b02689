/** Receives RTP from the phone: accepts or rejects its source, reads audio and keys, and detects silence. Audio goes on to the uplink. */
import type { RemoteInfo } from 'node:dgram';
import type { WideDecoder } from '../../audio/codec/wide-codec.js';
import { DtmfListener } from '../../audio/detect/dtmf-tones.js';
import { isQuiet, meanSquare } from '../../audio/detect/frame-level.js';
import { ComfortNoise } from '../../audio/dsp/comfort-noise.js';
import { TimestampClock } from '../../audio/playout/timestamp-clock.js';
import { Uplink } from '../../audio/receive/agent-uplink.js';
import { DecodedLine } from '../../audio/receive/wideband-decoder.js';
import { G711Converter, sampleFormatOf, ticksPerMs } from '../../audio/sample-format.js';
import { codecFacts, staticCodecs } from '../../codecs.js';
import type { KeyForm, MediaEvent, MediaPolicy, PhoneCodec } from '../../engine.js';
import { DtmfReceiver, type KeyPress } from '../../rtp/dtmf.js';
import { emptyRtpView, parseRtp, type RtpView, rtpHeaderBytes, sequenceDistance } from '../../rtp/packet.js';
import { ReceiverStats } from '../../rtp/receiver-stats.js';
import { RtpSource } from '../../rtp/source.js';
import { SteadyStream } from '../../rtp/steady-stream.js';
import type { AgreedMedia } from '../../sdp.js';

/** The operator sees it within 3 s of the answer. */
const oneWayAfterMs = 2500;
/** A phone that sends this much silence without a break does not use DTX; phones that do stop sending earlier. */
const sentSilenceMs = 2000;
/** A longer gap is a pause in sending, not jitter. */
const pauseMs = 500;
/** Fewer packets between two reports may be comfort noise or keep-alives of a pausing phone. */
const leastMissing = 25;
/** A key's tones end when no packet arrived for this long. */
const toneGapMs = 100;
/** While packets come, nothing that waits for silence has to look. */
const noSilenceMs = 40;
const comfortNoise = 13;
/** The predicted packet that is being handled, of any call of the thread, and its payload: a view for each packet would be garbage. */
const predicted = new Uint8Array(2048);
let predictedPayload = predicted.subarray(rtpHeaderBytes);

export interface FromPhoneHooks {
  event(event: MediaEvent): void;
  /** A key was pressed. */
  key(press: KeyPress, form: KeyForm): void;
  /** The first packet from the far side. */
  started(nowMs: number): void;
  /** The address from which accepted packets come. */
  sourceFound(address: string, port: number): void;
  /** 20 ms of the caller's audio in the phone's codec. */
  audio(bytes: Uint8Array, atMs: number): void;
  /** An accepted packet as it arrived: audio or an event; `restarted`: from a new sender. Valid during the call. */
  packet(packet: RtpView, payload: Uint8Array, codec: PhoneCodec | 'event', restarted: boolean): void;
  /** Audio of a packet in the sample format of its codec; `timestamp` in ticks. Valid during the call. Returns what the agent is to hear. */
  heard(timestamp: number, bytes: Uint8Array, codec: PhoneCodec, nowMs: number): Uint8Array;
  /** null when the codec is not available. */
  decoder(codec: PhoneCodec): WideDecoder | null;
}

export class FromPhone {
  private readonly received = new ReceiverStats();
  /** Predicts the packets of G.711. */
  private readonly steady = new SteadyStream();
  private steadyCodec: PhoneCodec = 'PCMU';
  readonly source = new RtpSource();
  readonly uplink: Uplink;
  foreign = 0;
  malformed = 0;
  private media: AgreedMedia | null = null;
  private sideline: Uplink | null = null;
  private heard = false;
  private liveSinceMs = Number.POSITIVE_INFINITY;
  private lastPacketMs = Number.POSITIVE_INFINITY;
  private oneWayTold = false;
  /** Duration of the silence that the phone is sending. */
  private quietMs = 0;
  /** The phone sends its silence as packets, so that a stop means a fault. */
  private sendsSilence = false;
  /** The phone's reports show that it sends, but nothing arrives. */
  private missing = false;
  /** Packet count in the phone's last report. */
  private reportedPackets = 0;
  private reportedAtMs = Number.NEGATIVE_INFINITY;
  private readonly view = emptyRtpView();
  private readonly dtmf = new DtmfReceiver();
  /** A key may be pressed. */
  private mayBeKey = false;
  private readonly tones = new DtmfListener();
  private readonly narrow = new G711Converter();
  private readonly clock = new TimestampClock();
  private readonly noise = new ComfortNoise();
  private decoded: DecodedLine | null = null;
  private before = { late: 0, recovered: 0 };
  /** RTP clock ticks of the audio per tick of ours. */
  private scale = 1;
  /** The last packet's numbers and duration. */
  private lastSequence = 0;
  private lastTimestamp = 0;
  private lastTicks = 0;

  constructor(
    private readonly policy: MediaPolicy,
    private readonly hooks: FromPhoneHooks,
  ) {
    this.uplink = this.lineTo((bytes, atMs) => hooks.audio(bytes, atMs));
  }

  /** The phone has no telephone events and is sending the tones of a key at this moment. */
  get pressing(): boolean {
    return this.tones.pressed;
  }

  /** Of all packets so far. */
  get stats(): ReceiverStats {
    this.countRun();
    return this.received;
  }

  /** Packets that arrived too late for playout. */
  get late(): number {
    return this.uplink.late + this.before.late + (this.decoded?.late ?? 0);
  }

  /** Lost packets whose audio was recovered from the next packet. */
  get recovered(): number {
    return this.before.recovered + (this.decoded?.recovered ?? 0);
  }

  /** True when packets are now expected from another address. */
  agree(media: AgreedMedia, nowMs: number): boolean {
    this.endRun();
    const resumed = this.media !== null && !this.media.receive && media.receive;
    this.media = media;
    this.uplink.changeCodec(media.codec);
    this.uplink.mute(media.held);
    this.sideline?.changeCodec(media.codec);
    this.sideline?.mute(media.held);
    if (resumed) this.restartWatch(nowMs);
    this.dtmf.clockKhz = media.eventClockKhz;
    this.source.takesStrangers = media.receive && !media.held;
    return media.address !== '0.0.0.0' && this.source.expect(media.address, media.port);
  }

  /** A second uplink with the same audio, for the listeners. */
  listenAside(deliver: ((bytes: Uint8Array, atMs: number) => void) | null, nowMs: number): void {
    this.sideline = deliver && this.lineTo(deliver);
    this.sideline?.mute(this.media?.held ?? false);
    this.sideline?.start(nowMs);
  }

  /** From now on silence of the far side is a fault. */
  goLive(nowMs: number): void {
    if (this.liveSinceMs === Number.POSITIVE_INFINITY) this.liveSinceMs = nowMs;
  }

  packet(bytes: Uint8Array, from: RemoteInfo, nowMs: number): void {
    const { view, media } = this;
    if (this.steady.takes(bytes, from, nowMs)) {
      this.next(bytes, nowMs);
      return;
    }
    this.endRun();
    if (!parseRtp(bytes, view)) {
      this.malformed += 1;
      return;
    }
    const event = media?.telephoneEvent?.receive === view.payloadType;
    const codec = media && !event ? codecOf(media, view.payloadType) : null;
    const noise = view.payloadType === comfortNoise;
    if (media && !event && !codec && !noise) {
      this.malformed += 1;
      return;
    }
    const knownAddress = this.source.address;
    const knownPort = this.source.port;
    if (this.source.judge(view, from.address, from.port, nowMs) === 'foreign') {
      this.foreign += 1;
      return;
    }
    if (this.source.address !== knownAddress || this.source.port !== knownPort) {
      this.hooks.sourceFound(from.address, from.port);
    }
    const pausedMs = nowMs - this.lastPacketMs;
    this.lastPacketMs = nowMs;
    this.oneWayTold = false;
    this.missing = false;
    if (!this.heard) {
      this.heard = true;
      this.hooks.started(nowMs);
    }
    if (codec) this.received.changeClock(codecFacts[codec].clockKhz);
    const arrival = this.received.arrived(view, nowMs, codec !== null);
    if (arrival === 'duplicate' || arrival === 'suspect') return;
    if (arrival === 'restart') this.restart(nowMs);
    // A pause without a missing packet, or comfort noise (RFC 3389): the phone uses DTX, or may do so from now on.
    if (noise || arrival === 'restart' || (arrival === 'next' && pausedMs > pauseMs)) this.pauses();
    const payload = bytes.subarray(view.payloadStart, view.payloadEnd);
    if (event) {
      this.mayBeKey = true;
      this.tell(this.dtmf.packet(payload, view.timestamp, nowMs), 'event');
    }
    if (noise) this.noise.told(payload);
    const audio = codec && payload.length > 0 ? payload : null;
    // A phone on hold may play music: an agent does not hear it, another phone does.
    if ((event || audio) && (!media?.held || media.receive))
      this.hooks.packet(view, payload, codec ?? 'event', arrival === 'restart');
    const timestamp = this.place(view, event ? payload : null, codec);
    if (codec && sampleFormatOf[codec].linear) this.decode(view.sequence, timestamp, audio, codec, nowMs);
    else if (audio === null && this.decoded) this.decoded.packet(view.sequence, timestamp, null, nowMs);
    else {
      if (codec && this.decoded) this.endDecoding(nowMs);
      this.audible(view.sequence, timestamp, audio, codec ?? 'PCMU', nowMs);
      if (codec && audio) {
        this.lastTicks = audio.length;
        if (arrival === 'next') this.beginRun(bytes, from, codec, nowMs);
      }
    }
  }

  /** The packet that was predicted. */
  private next(bytes: Uint8Array, nowMs: number): void {
    const { steady, view, media, steadyCodec } = this;
    this.lastPacketMs = nowMs;
    this.missing = false;
    if (predictedPayload.length !== steady.payloadBytes)
      predictedPayload = predicted.subarray(rtpHeaderBytes, rtpHeaderBytes + steady.payloadBytes);
    const payload = predictedPayload;
    predicted.set(bytes);
    const timestamp = (this.lastTimestamp + steady.ticks) >>> 0;
    this.lastTimestamp = timestamp;
    view.sequence = steady.sequence;
    view.timestamp = steady.timestamp >>> 0;
    if (!media?.held || media.receive) this.hooks.packet(view, payload, steadyCodec, false);
    this.audible(steady.sequence, timestamp, payload, steadyCodec, nowMs);
  }

  /** From this packet of G.711 on, the next ones are predicted. */
  private beginRun(bytes: Uint8Array, from: RemoteInfo, codec: PhoneCodec, nowMs: number): void {
    const { view } = this;
    if (view.payloadStart !== rtpHeaderBytes || view.payloadEnd !== bytes.length || bytes.length > predicted.length)
      return;
    this.steadyCodec = codec;
    // A marker, which begins a talkspurt, is not repeated.
    view.marker = false;
    this.steady.begin(view, codecFacts[codec].clockKhz, this.lastTicks, this.received.jitter16, from, nowMs);
  }

  private endRun(): void {
    this.countRun();
    this.steady.end();
  }

  /** Counts the packets that were predicted. */
  private countRun(): void {
    const { steady } = this;
    if (steady.packets === 0) return;
    this.received.continued(steady);
    this.source.continued(steady);
    this.clock.advance(steady.packets * steady.ticks);
    this.lastSequence = steady.sequence;
    steady.counted();
  }

  /** One packet of audio for the uplinks; for wideband codecs in order. */
  private audible(
    sequence: number,
    timestamp: number,
    audio: Uint8Array | null,
    codec: PhoneCodec,
    nowMs: number,
  ): void {
    const { media } = this;
    let clean = audio;
    if (audio) {
      if (!this.sendsSilence) this.listenForSilence(audio, codec);
      if (media?.telephoneEvent === null && !media.held) {
        this.tell(this.tones.hear(this.narrow.of(audio, codec), G711Converter.lawOf(codec)), 'tone');
        this.mayBeKey ||= this.tones.pressed;
      }
      if (!media?.held || media.receive) clean = this.hooks.heard(timestamp, audio, codec, nowMs);
    }
    this.uplink.packet(sequence, timestamp, clean, codec, nowMs);
    this.sideline?.packet(sequence, timestamp, clean, codec, nowMs);
  }

  /** Places a packet on the stream. All packets of an event carry the timestamp of its start, and the duration so far. */
  private place(view: RtpView, event: Uint8Array | null, codec: PhoneCodec | null): number {
    if (codec) this.scale = codecFacts[codec].clockKhz / ticksPerMs;
    const scale = event ? this.dtmf.clockKhz / ticksPerMs : this.scale;
    const since = Math.max(0, sequenceDistance(view.sequence, this.lastSequence));
    const place = this.clock.place(view.timestamp, scale, (this.lastTimestamp + since * this.lastTicks) >>> 0);
    if (codec) {
      this.lastSequence = view.sequence;
      this.lastTimestamp = place;
    }
    const lasted = event && event.length >= 4 ? Math.round(((event[2]! << 8) | event[3]!) / scale) : 0;
    return (place + lasted) >>> 0;
  }

  private decode(
    sequence: number,
    timestamp: number,
    audio: Uint8Array | null,
    codec: PhoneCodec,
    nowMs: number,
  ): void {
    if (this.decoded?.codec !== codec) {
      this.endDecoding(nowMs);
      const decoder = this.hooks.decoder(codec);
      if (decoder === null) {
        this.malformed += 1;
        return;
      }
      this.decoded = new DecodedLine(codec, decoder, this.policy.concealLoss === true, {
        audio: (number, at, bytes, atMs) => {
          if (bytes) {
            this.lastTicks = bytes.length / (sampleFormatOf[codec].bytesPerMs / ticksPerMs);
            // The level before a pause is that of the background noise.
            if (codec === 'OPUS') this.noise.sounded(meanSquare(bytes, codec));
          }
          this.audible(number, at, bytes, codec, atMs);
        },
        malformed: () => {
          this.malformed += 1;
        },
      });
    }
    this.decoded.packet(sequence, timestamp, audio, nowMs);
  }

  private endDecoding(nowMs: number): void {
    const { decoded } = this;
    if (!decoded) return;
    decoded.restart(nowMs);
    this.before.late += decoded.late;
    this.before.recovered += decoded.recovered;
    this.decoded = null;
    this.noise.reset();
  }

  private restart(nowMs: number): void {
    this.decoded?.restart(nowMs);
    this.noise.reset();
    this.uplink.restart();
    this.sideline?.restart();
  }

  /** Called every packet time. True when the far side was silent beyond its time limit. */
  tick(nowMs: number): boolean {
    this.decoded?.tick(nowMs);
    this.uplink.tick(nowMs);
    this.sideline?.tick(nowMs);
    if (this.mayBeKey) this.watchKeys(nowMs);
    if (this.heard && nowMs - this.lastPacketMs < noSilenceMs) return false;
    if (!this.media || this.liveSinceMs === Number.POSITIVE_INFINITY) return false;
    if (!this.media.receive || this.media.held) {
      this.restartWatch(nowMs);
      return false;
    }
    const silentMs = nowMs - (this.heard ? Math.max(this.lastPacketMs, this.liveSinceMs) : this.liveSinceMs);
    const fault = !this.heard || this.sendsSilence || this.missing;
    if (silentMs >= oneWayAfterMs && fault && !this.oneWayTold) {
      this.oneWayTold = true;
      this.hooks.event({ type: 'oneWay', direction: 'received' });
    }
    const limitMs = this.heard ? this.policy.rtpTimeoutMs : this.policy.firstRtpTimeoutMs;
    return limitMs > 0 && silentMs >= limitMs;
  }

  private watchKeys(nowMs: number): void {
    this.tell(this.dtmf.expire(nowMs), 'event');
    if (this.tones.pressed && nowMs - this.lastPacketMs > toneGapMs) this.tell(this.tones.quiet(), 'tone');
    this.mayBeKey = this.dtmf.pressed || this.tones.pressed;
  }

  private lineTo(deliver: (bytes: Uint8Array, atMs: number) => void): Uplink {
    const codec = this.media?.codec ?? this.policy.codecs[0] ?? 'PCMU';
    return new Uplink(codec, deliver, this.policy.concealLoss, this.noise);
  }

  /** A sender report of the phone about the stream that we receive. */
  reported({ ssrc, packets }: { ssrc: number; packets: number }, nowMs: number): void {
    if (ssrc !== this.received.ssrc) return;
    const goesOn = ((packets - this.reportedPackets) | 0) >= leastMissing;
    if (goesOn && this.reportedAtMs > this.lastPacketMs) this.missing = true;
    this.reportedPackets = packets;
    this.reportedAtMs = nowMs;
  }

  private listenForSilence(audio: Uint8Array, codec: PhoneCodec): void {
    this.quietMs = isQuiet(audio, codec) ? this.quietMs + audio.length / sampleFormatOf[codec].bytesPerMs : 0;
    this.sendsSilence = this.quietMs >= sentSilenceMs;
  }

  private pauses(): void {
    this.quietMs = 0;
    this.sendsSilence = false;
  }

  private restartWatch(nowMs: number): void {
    if (this.liveSinceMs !== Number.POSITIVE_INFINITY) this.liveSinceMs = nowMs;
  }

  private tell(press: KeyPress | null, form: KeyForm): void {
    if (press) this.hooks.key(press, form);
  }
}

/** Static payload types are accepted even when the answer left them out: some gateways switch between the two G.711 laws. */
function codecOf(media: AgreedMedia, payloadType: number): PhoneCodec | null {
  return media.codecByPayloadType.get(payloadType) ?? staticCodecs[payloadType] ?? null;
}
