/** The codecs of phones: what SDP and RTP say of each. What becomes of their audio inside is in `audio/sample-format.ts`. */
import type { PhoneCodec } from './engine.js';

export interface CodecFacts {
  /** Encoding name, clock and channels, as in `a=rtpmap`. */
  rtpmap: string;
  /** Ticks of its RTP timestamps in a millisecond: G.722 says 8 although it has 16 kHz (RFC 3551 section 4.5.2), Opus 48 whatever it codes. */
  clockKhz: 8 | 48;
  /** What we offer; another one is told from it by `a=rtpmap`. */
  payloadType: number;
  /** Which events of RFC 4733 go beside it: their clock has to be that of the audio. */
  eventPayloadType: number;
  /** Packets we can send, in ms. */
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

/** Codecs whose payload type says it all (RFC 3551). */
export const staticCodecs: Readonly<Record<number, PhoneCodec>> = { 0: 'PCMU', 8: 'PCMA', 9: 'G722' };
