/** From the phone: whose packets count, what they say, and when they stop. Audio goes on to the uplink. */
import type { RemoteInfo } from 'node:dgram';
import { DtmfListener } from '../audio/dtmf-tones.js';
import { Uplink } from '../audio/uplink.js';
import type { KeyForm, MediaEvent, MediaPolicy, PhoneCodec } from '../engine.js';
import { DtmfReceiver, type KeyPress } from '../rtp/dtmf.js';
import { emptyRtpView, parseRtp, type RtpView } from '../rtp/packet.js';
import { ReceiverStats } from '../rtp/receiver-stats.js';
import { RtpSource } from '../rtp/source.js';
import type { AgreedMedia } from '../sdp.js';

/** An operator hears of it within 3 s of the answer. */
const oneWayAfterMs = 2500;
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
  packet(packet: RtpView, payload: Uint8Array, codec: PhoneCodec | 'event', restarted: boolean, nowMs: number): void;
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
  private readonly view = emptyRtpView();
  private readonly dtmf = new DtmfReceiver();
  private readonly tones = new DtmfListener();

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

  /** True when packets are now expected from another address than before. */
  agree(media: AgreedMedia, nowMs: number): boolean {
    const resumed = this.media !== null && !this.media.receive && media.receive;
    this.media = media;
    this.uplink.changeCodec(media.codec);
    this.uplink.mute(media.held);
    this.sideline?.changeCodec(media.codec);
    this.sideline?.mute(media.held);
    if (resumed) this.restartWatch(nowMs);
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
    if (media && !event && !codec && view.payloadType !== comfortNoise) {
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
    this.lastPacketMs = nowMs;
    this.oneWayTold = false;
    if (!this.heard) {
      this.heard = true;
      this.hooks.started(nowMs);
    }
    const arrival = this.stats.arrived(view, nowMs, codec !== null);
    if (arrival === 'duplicate' || arrival === 'suspect') return;
    if (arrival === 'restart') {
      this.uplink.restart();
      this.sideline?.restart();
    }
    const payload = bytes.subarray(view.payloadStart, view.payloadEnd);
    if (event) this.tell(this.dtmf.packet(payload, view.timestamp, nowMs), 'event');
    // The packets of an event all carry the timestamp of its beginning, and say how long it has lasted.
    const eventSamples = event && payload.length >= 4 ? (payload[2]! << 8) | payload[3]! : 0;
    const audio = codec && payload.length > 0 ? payload : null;
    if (codec && audio && media?.telephoneEvent === null && !media.held)
      this.tell(this.tones.hear(audio, codec), 'tone');
    // A phone on hold may play music: nothing for an agent, but another phone is to hear it.
    if ((event || audio) && (!media?.held || media.receive))
      this.hooks.packet(view, payload, codec ?? 'event', arrival === 'restart', nowMs);
    const timestamp = (view.timestamp + eventSamples) >>> 0;
    this.uplink.packet(view.sequence, timestamp, audio, codec ?? 'PCMU', nowMs);
    this.sideline?.packet(view.sequence, timestamp, audio, codec ?? 'PCMU', nowMs);
  }

  /** Every packet time. True when the far side has been silent for too long. */
  tick(nowMs: number): boolean {
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
    if (silentMs >= oneWayAfterMs && !this.oneWayTold) {
      this.oneWayTold = true;
      this.hooks.event({ type: 'oneWay', direction: 'received' });
    }
    const limitMs = this.heard ? this.policy.rtpTimeoutMs : this.policy.firstRtpTimeoutMs;
    return limitMs > 0 && silentMs >= limitMs;
  }

  private lineTo(deliver: (bytes: Uint8Array, atMs: number) => void): Uplink {
    const codec = this.media?.codec ?? this.policy.codecs[0] ?? 'PCMU';
    return new Uplink(codec, deliver, this.policy.concealLoss);
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
  const agreed = media.codecByPayloadType.get(payloadType);
  if (agreed) return agreed;
  if (payloadType === 0) return 'PCMU';
  return payloadType === 8 ? 'PCMA' : null;
}
