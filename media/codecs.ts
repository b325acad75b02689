/** The phone codecs' facts for SDP and RTP. Their internal audio format is in `audio/sample-format.ts`. */
import type { PhoneCodec } from './engine.js';

export interface CodecFacts {
  /** Encoding name, clock and channels, as in `a=rtpmap`. */
  rtpmap: string;
  /** RTP timestamp ticks per millisecond: 8 for G.722 although it samples at 16 kHz (RFC 3551 section 4.5.2), 48 for Opus at any rate. */
  clockKhz: 8 | 48;
  /** The payload type we offer; the far side's `a=rtpmap` may name another. */
  payloadType: number;
  /** Payload type of RFC 4733 events beside this codec: events use the clock of the audio. */
  eventPayloadType: number;
  /** Packet times we can send, in ms. */
  ptimesMs: readonly number[];
}

const tens = [10, 20, 30, 40, 50, 60];

export const phoneCodecs: readonly PhoneCodec[] = ['PCMU', 'PCMA', 'G722', 'OPUS'];

export const codecFacts: Readonly<Record<PhoneCodec, CodecFacts>> = {
  PCMU: { rtpmap: 'PCMU/8000', clockKhz: 8, payloadType: 0, eventPayloadType: 101, ptimesMs: tens },
  PCMA: { rtpmap: 'PCMA/8000', clockKhz: 8, payloadType: 8, eventPayloadType: 101, ptimesMs: tens },
  G722: { rtpmap: 'G722/8000', clockKhz: 8, payloadType: 9, eventPayloadType: 101, ptimesMs: tens },
  OPUS: { rtpmap: 'opus/48000/2', clockKhz: 48, payloadType: 111, eventPayloadType: 110, ptimesMs: [10, 20, 40, 60] },
};

/** Codecs with a static payload type (RFC 3551). */
export const staticCodecs: Readonly<Record<number, PhoneCodec>> = { 0: 'PCMU', 8: 'PCMA', 9: 'G722' };
