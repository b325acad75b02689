/** A phone of any codec: it says samples, and hears samples, at the rate of the codec's line. */

import { OpusCoder } from '../../media/audio/codec/opus.js';
import { G722Coder, type WideDecoder, type WideEncoder } from '../../media/audio/codec/wide-codec.js';
import { tone } from '../../media/audio/dsp/tone.js';
import { bytesOf, readSamples, sampleFormatOf, samplesOf, writeSamples } from '../../media/audio/sample-format.js';
import { ScratchBuffer } from '../../media/audio/scratch-buffer.js';
import { codecFacts } from '../../media/codecs.js';
import type { MediaEngine, MediaSession, OpenSession, PhoneCodec } from '../../media/engine.js';
import { opusDefaults } from '../../media/opus-parameters.js';
import { sessionOptions } from './media-engine.js';
import { type HeardPacket, RtpPhone } from './rtp-phone.js';

/** Other numbers than ours, so that an answer that does not keep to the offer is found out. */
export const opusNumber = 96;
export const eventNumber = 97;
const numbers: Record<PhoneCodec, number> = { PCMU: 0, PCMA: 8, G722: 9, OPUS: opusNumber };

export class CodedPhone {
  private coder: (WideDecoder & WideEncoder) | null = null;
  private opus: OpusCoder | null = null;
  private ear: { codec: PhoneCodec; decoder: WideDecoder | null; parts: Int16Array[] } | null = null;

  private constructor(
    readonly rtp: RtpPhone,
    public codec: PhoneCodec,
    private readonly fmtp: string,
  ) {}

  /** `fmtp`: of Opus. */
  static async open(codec: PhoneCodec, fmtp = 'useinbandfec=1'): Promise<CodedPhone> {
    const phone = new CodedPhone(await RtpPhone.open(), codec, fmtp);
    await phone.use(codec);
    return phone;
  }

  /** From now on it speaks this. */
  async use(codec: PhoneCodec): Promise<void> {
    this.codec = codec;
    this.coder = codec === 'G722' ? new G722Coder() : null;
    if (codec !== 'OPUS') return;
    this.opus ??= await OpusCoder.open();
    this.opus.tune({ ...opusDefaults, inbandFec: true });
    this.opus.lossHeard(15);
    this.coder = this.opus;
  }

  sdp(direction = 'sendrecv', ptimeMs = 20): string {
    const { rtpmap, clockKhz } = codecFacts[this.codec];
    const number = numbers[this.codec];
    return this.rtp
      .sdp({ codecs: '0', telephoneEvent: false, direction, ptimeMs })
      .replace('RTP/AVP 0\r\n', `RTP/AVP ${number} ${eventNumber}\r\n`)
      .replace(
        'a=rtpmap:0 PCMU/8000',
        [
          `a=rtpmap:${number} ${rtpmap}`,
          ...(this.codec === 'OPUS' && this.fmtp ? [`a=fmtp:${number} ${this.fmtp}`] : []),
          ...[`a=rtpmap:${eventNumber} telephone-event/${clockKhz * 1000}`, `a=fmtp:${eventNumber} 0-15`],
        ].join('\r\n'),
      );
  }

  /** Calls: `session` has answered. */
  async call(engine: MediaEngine, change: Partial<OpenSession> = {}): Promise<MediaSession> {
    const policy = { codecs: ['PCMU', 'PCMA', 'G722', 'OPUS'] as PhoneCodec[], firstRtpTimeoutMs: 0, rtpTimeoutMs: 0 };
    const offer = this.sdp();
    const session = await engine.open(sessionOptions({ offer, policy: { ...policy, concealLoss: true }, ...change }));
    this.rtp.dial(session.localSdp);
    return session;
  }

  get payloadType(): number {
    return numbers[this.codec];
  }

  get rateHz(): number {
    return sampleFormatOf[this.codec].sampleRateHz;
  }

  tone(frequencyHz: number, durationMs: number): Int16Array {
    return tone({ frequencyHz, durationMs, sampleRateHz: this.rateHz });
  }

  /** At the pace of the clock, in packets of 20 ms; `lost(i)`: packet i does not arrive. Returns what was sent. */
  async say(samples: Int16Array, lost: (index: number) => boolean = () => false): Promise<Uint8Array[]> {
    const frame = this.rateHz / 50;
    const ticks = 20 * codecFacts[this.codec].clockKhz;
    const sent: Uint8Array[] = [];
    const startMs = performance.now();
    const count = Math.floor(samples.length / frame);
    while (sent.length < count) {
      while (sent.length < count && performance.now() - startMs >= sent.length * 20) {
        const at = sent.length * frame;
        const packet = this.encode(samples.subarray(at, at + frame));
        sent.push(packet);
        if (!lost(sent.length - 1)) this.rtp.send(packet, { payloadType: this.payloadType, samples: ticks });
        else {
          this.rtp.sequence = (this.rtp.sequence + 1) & 0xffff;
          this.rtp.timestamp = (this.rtp.timestamp + ticks) >>> 0;
        }
      }
      await new Promise((resolve) => setTimeout(resolve, 4));
    }
    return sent;
  }

  /** A key as RFC 4733 says it, 100 ms long, three ends. */
  press(event: number): void {
    const durations = [20, 40, 60, 80, 100, 100, 100].map((ms) => ms * codecFacts[this.codec].clockKhz);
    durations.forEach((duration, i) => {
      const payload = Uint8Array.of(event, i >= 4 ? 0x8a : 0x0a, duration >> 8, duration & 0xff);
      this.rtp.send(payload, { payloadType: eventNumber, marker: i === 0, samples: 0 });
    });
    this.rtp.timestamp = (this.rtp.timestamp + 100 * codecFacts[this.codec].clockKhz) >>> 0;
  }

  get packets(): HeardPacket[] {
    return this.rtp.heard.filter((packet) => packet.payloadType === this.payloadType);
  }

  /** All it heard so far in the codec that it speaks now, with packets one after the other. Each is decoded once, in its turn. */
  get heard(): Int16Array {
    if (this.ear?.codec !== this.codec)
      this.ear = { codec: this.codec, decoder: this.codec === 'G722' ? new G722Coder() : this.opus, parts: [] };
    const { decoder, parts } = this.ear;
    for (const { payload } of this.packets.slice(parts.length)) {
      if (!sampleFormatOf[this.codec].linear)
        parts.push(readSamples(payload, this.codec, new ScratchBuffer(Int16Array)).slice());
      else parts.push(decoder?.decode(payload)?.slice() ?? new Int16Array(0));
    }
    const whole = new Int16Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }

  close(): void {
    this.opus?.free();
    this.rtp.close();
  }

  private encode(samples: Int16Array): Uint8Array {
    if (!this.coder) return writeSamples(samples, this.codec);
    const packet = new Uint8Array(1275);
    return packet.subarray(0, this.coder.encode(samplesOf(bytesOf(samples)), packet, 0));
  }
}
