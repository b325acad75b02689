/** From the phone: whose packets count, what they say, and when they stop. Audio goes on to the uplink. */
import type { RemoteInfo } from 'node:dgram';
import type { WideDecoder } from '../../audio/codec/wide-codec.js';
import { DtmfListener } from '../../audio/detect/dtmf-tones.js';
import { isQuiet, meanSquare } from '../../audio/detect/frame-level.js';
import { ComfortNoise } from '../../audio/dsp/comfort-noise.js';
import { LineClock } from '../../audio/playout/timestamp-clock.js';
import { Uplink } from '../../audio/receive/agent-uplink.js';
import { DecodedLine } from '../../audio/receive/wideband-decoder.js';
import { lineOf, NarrowCopy, ticksPerMs } from '../../audio/sample-format.js';
import { codecFacts, staticCodecs } from '../../codecs.js';
import type { KeyForm, MediaEvent, MediaPolicy, PhoneCodec } from '../../engine.js';
import { DtmfReceiver, type KeyPress } from '../../rtp/dtmf.js';
import { emptyRtpView, parseRtp, type RtpView, sequenceDistance } from '../../rtp/packet.js';
import { ReceiverStats } from '../../rtp/receiver-stats.js';
import { RtpSource } from '../../rtp/source.js';
import type { AgreedMedia } from '../../sdp.js';

/** An operator hears of it within 3 s of the answer. */
const oneWayAfterMs = 2500;
/** A phone that sends this much silence in one piece does not leave silence out (DTX); those that do hold on for less. */
const sentSilenceMs = 2000;
/** A pause in sending, not jitter. */
const pauseMs = 500;
/** What a phone that pauses sends all the same (comfort noise, keep-alives) is less than this between two of its reports. */
const leastMissing = 25;
/** Tones that stop coming have ended. */
const toneGapMs = 100;
const comfortNoise = 13;

export interface FromPhoneHooks {
  event(event: MediaEvent): void;
  /** A key was pressed. */
  key(press: KeyPress, form: KeyForm): void;
  /** The first packet of the far side. */
  started(nowMs: number): void;
  /** The address that packets really come from. */
  sourceFound(address: string, port: number): void;
  /** 20 ms of the caller in the phone's codec. */
  audio(bytes: Uint8Array, atMs: number): void;
  /** A packet that counts, as it came: audio of a codec, or an event; `restarted`: of a new sender. Valid during the call. */
  packet(packet: RtpView, payload: Uint8Array, codec: PhoneCodec | 'event', restarted: boolean): void;
  /** What a packet says, as the line of the codec has it; `timestamp` in ticks. Valid during the call. */
  heard(timestamp: number, bytes: Uint8Array, codec: PhoneCodec, nowMs: number): void;
  /** null: the codec is not there. */
  decoder(codec: PhoneCodec): WideDecoder | null;
}

export class FromPhone {
  readonly stats = new ReceiverStats();
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
  /** Of the silence that the phone sends now. */
  private quietMs = 0;
  /** The phone sends its silence too: when it stops, something is broken. */
  private sendsSilence = false;
  /** The phone goes on sending, and nothing arrives. */
  private missing = false;
  /** What the phone's last report says that it sent. */
  private reportedPackets = 0;
  private reportedAtMs = Number.NEGATIVE_INFINITY;
  private readonly view = emptyRtpView();
  private readonly dtmf = new DtmfReceiver();
  private readonly tones = new DtmfListener();
  private readonly narrow = new NarrowCopy();
  private readonly clock = new LineClock();
  private readonly noise = new ComfortNoise();
  private decoded: DecodedLine | null = null;
  private before = { late: 0, recovered: 0 };
  /** Of the clock of the audio. */
  private scale = 1;
  /** The packet that came last, and how long it was. */
  private lastSequence = 0;
  private lastTimestamp = 0;
  private lastTicks = 0;

  constructor(
    private readonly policy: MediaPolicy,
    private readonly hooks: FromPhoneHooks,
  ) {
    this.uplink = this.lineTo((bytes, atMs) => hooks.audio(bytes, atMs));
  }

  /** The phone, which has no events, sounds the tones of a key at this moment. */
  get pressing(): boolean {
    return this.tones.pressed;
  }

  /** Packets that came too late to be heard. */
  get late(): number {
    return this.uplink.late + this.before.late + (this.decoded?.late ?? 0);
  }

  /** Lost packets that were heard all the same: their audio came with the next one. */
  get recovered(): number {
    return this.before.recovered + (this.decoded?.recovered ?? 0);
  }

  /** True when packets are now expected from another address than before. */
  agree(media: AgreedMedia, nowMs: number): boolean {
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

  /** The same line once more, for those who only listen. */
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
    if (codec) this.stats.changeClock(codecFacts[codec].clockKhz);
    const arrival = this.stats.arrived(view, nowMs, codec !== null);
    if (arrival === 'duplicate' || arrival === 'suspect') return;
    if (arrival === 'restart') this.restart(nowMs);
    // It paused and no packet is missing, or it sends the noise of a pause (RFC 3389): it leaves silence out, or may do so from now on.
    if (noise || arrival === 'restart' || (arrival === 'next' && pausedMs > pauseMs)) this.pauses();
    const payload = bytes.subarray(view.payloadStart, view.payloadEnd);
    if (event) this.tell(this.dtmf.packet(payload, view.timestamp, nowMs), 'event');
    if (noise) this.noise.told(payload);
    const audio = codec && payload.length > 0 ? payload : null;
    // A phone on hold may play music: nothing for an agent, but another phone is to hear it.
    if ((event || audio) && (!media?.held || media.receive))
      this.hooks.packet(view, payload, codec ?? 'event', arrival === 'restart');
    const timestamp = this.place(view, event ? payload : null, codec);
    if (codec && lineOf[codec].linear) this.decode(view.sequence, timestamp, audio, codec, nowMs);
    else if (audio === null && this.decoded) this.decoded.packet(view.sequence, timestamp, null, nowMs);
    else {
      if (codec && this.decoded) this.endDecoding(nowMs);
      this.audible(view.sequence, timestamp, audio, codec ?? 'PCMU', nowMs);
      if (codec && audio) this.lastTicks = audio.length;
    }
  }

  /** One packet of the line, in order or not. */
  private audible(
    sequence: number,
    timestamp: number,
    audio: Uint8Array | null,
    codec: PhoneCodec,
    nowMs: number,
  ): void {
    const { media } = this;
    if (audio) {
      if (!this.sendsSilence) this.listenForSilence(audio, codec);
      if (media?.telephoneEvent === null && !media.held)
        this.tell(this.tones.hear(this.narrow.of(audio, codec), NarrowCopy.lawOf(codec)), 'tone');
      if (!media?.held || media.receive) this.hooks.heard(timestamp, audio, codec, nowMs);
    }
    this.uplink.packet(sequence, timestamp, audio, codec, nowMs);
    this.sideline?.packet(sequence, timestamp, audio, codec, nowMs);
  }

  /** Where a packet lies on the line. Those of an event all carry the timestamp of its beginning, and say how long it has lasted. */
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
            this.lastTicks = bytes.length / (lineOf[codec].bytesPerMs / ticksPerMs);
            // What is not sent after this is the noise of the line.
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

  /** Every packet time. True when the far side has been silent for too long. */
  tick(nowMs: number): boolean {
    this.decoded?.tick(nowMs);
    this.uplink.tick(nowMs);
    this.tell(this.dtmf.expire(nowMs), 'event');
    if (this.tones.pressed && nowMs - this.lastPacketMs > toneGapMs) this.tell(this.tones.quiet(), 'tone');
    this.sideline?.tick(nowMs);
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

  private lineTo(deliver: (bytes: Uint8Array, atMs: number) => void): Uplink {
    const codec = this.media?.codec ?? this.policy.codecs[0] ?? 'PCMU';
    return new Uplink(codec, deliver, this.policy.concealLoss, this.noise);
  }

  /** What the phone's report says of the stream that is heard. */
  reported({ ssrc, packets }: { ssrc: number; packets: number }, nowMs: number): void {
    if (ssrc !== this.stats.ssrc) return;
    const goesOn = ((packets - this.reportedPackets) | 0) >= leastMissing;
    if (goesOn && this.reportedAtMs > this.lastPacketMs) this.missing = true;
    this.reportedPackets = packets;
    this.reportedAtMs = nowMs;
  }

  private listenForSilence(audio: Uint8Array, codec: PhoneCodec): void {
    this.quietMs = isQuiet(audio, codec) ? this.quietMs + audio.length / lineOf[codec].bytesPerMs : 0;
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

/** Static payload types count even when the answer left them out: gateways do switch between the two laws. */
function codecOf(media: AgreedMedia, payloadType: number): PhoneCodec | null {
  return media.codecByPayloadType.get(payloadType) ?? staticCodecs[payloadType] ?? null;
}
