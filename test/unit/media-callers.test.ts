import type { RemoteInfo } from 'node:dgram';
import { describe, expect, it } from 'vitest';
import { silenceByte } from '../../media/audio/codec/g711.js';
import { writeRtpHeader } from '../../media/rtp/packet.js';
import { SdpNegotiation } from '../../media/sdp.js';
import { FromPhone } from '../../media/thread/session/from-phone.js';

/** Phones as they are: packets of all lengths, pauses, new senders. What they say is a byte of its own for each 10 ms. */
const from: RemoteInfo = { address: '192.0.2.5', port: 4000, family: 'IPv4', size: 172 };
const silence = silenceByte.PCMU;
const comfortNoise = 13;
/** Decibels below overload. */
const noNoise = 127;

class Caller {
  readonly heard: number[] = [];
  readonly line: FromPhone;
  nowMs = 0;
  sequence = 0;
  timestamp = 0;
  ssrc = 1;
  /** Ten milliseconds that were said so far. */
  private said = 0;

  constructor() {
    const nothing = () => {};
    const hooks = {
      event: nothing,
      key: nothing,
      started: nothing,
      sourceFound: nothing,
      packet: nothing,
      heard: (_timestamp: number, bytes: Uint8Array) => bytes,
    };
    const audio = (bytes: Uint8Array) => this.heard.push(...bytes);
    this.line = new FromPhone(
      { codecs: ['PCMU'], firstRtpTimeoutMs: 0, rtpTimeoutMs: 0 },
      { ...hooks, audio, decoder: () => null },
    );
    const sdp = new SdpNegotiation({ address: '192.0.2.1', rtpPort: 10_000, codecs: ['PCMU'] }, '1');
    sdp.answer('v=0\r\no=- 1 1 IN IP4 x\r\ns=-\r\nc=IN IP4 192.0.2.5\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n');
    this.line.agree(sdp.agreed!, 0);
    this.line.uplink.start(0);
  }

  /** The next packet of so many milliseconds; time passes with it. */
  next(ptimeMs: number): Uint8Array {
    const payload = new Uint8Array(ptimeMs * 8);
    for (let at = 0; at < payload.length; at += 80) payload.fill(byteOf(this.said++), at, at + 80);
    this.pass(ptimeMs);
    return this.packet(payload, 0);
  }

  packet(payload: Uint8Array, payloadType: number): Uint8Array {
    const packet = new Uint8Array(12 + payload.length);
    writeRtpHeader(packet, payloadType, false, this.sequence, this.timestamp, this.ssrc);
    packet.set(payload, 12);
    this.sequence = (this.sequence + 1) & 0xffff;
    if (payloadType === 0) this.timestamp = (this.timestamp + payload.length) >>> 0;
    return packet;
  }

  pass(ms: number): void {
    for (let i = 0; i < ms; i += 10) {
      this.nowMs += 10;
      this.line.tick(this.nowMs);
    }
  }

  hear(...packets: Uint8Array[]): void {
    for (const packet of packets) this.line.packet(packet, from, this.nowMs);
  }

  /** One byte for each 10 ms that the agent got. */
  get tens(): number[] {
    const tens = [];
    for (let at = 0; at < this.heard.length; at += 80) {
      expect(new Set(this.heard.slice(at, at + 80)).size).toBe(1);
      tens.push(this.heard[at]!);
    }
    return tens;
  }
}

const byteOf = (ten: number) => ten % 200;
const saidTens = (count: number, first = 0) => Array.from({ length: count }, (_, i) => byteOf(first + i));

describe('the agent hears every word once, in order, of a caller', () => {
  it.each([10, 20, 30, 40, 60])('with packets of %i ms', (ptimeMs) => {
    const caller = new Caller();
    for (let n = 0; n < 120 / (ptimeMs / 10); n++) caller.hear(caller.next(ptimeMs));
    expect(caller.tens).toEqual(saidTens(120));
    expect(caller.line.stats).toMatchObject({ lost: 0, duplicates: 0, reordered: 0 });
    expect(caller.line.stats.jitterMs).toBeLessThan(0.1);
  });

  it('who changes the length of its packets', () => {
    const caller = new Caller();
    for (const ptimeMs of [20, 20, 30, 60, 10, 40, 20, 60, 20, 20]) caller.hear(caller.next(ptimeMs));
    expect(caller.tens).toEqual(saidTens(30));
  });

  it('whose numbers and timestamps wrap', () => {
    const caller = new Caller();
    caller.sequence = 65_530;
    caller.timestamp = 2 ** 32 - 700;
    for (let n = 0; n < 50; n++) caller.hear(caller.next(20));
    expect(caller.tens).toEqual(saidTens(100));
    expect(caller.line.stats).toMatchObject({ lost: 0, packets: 50 });
  });

  it('whose packets overtake each other and come twice', () => {
    const caller = new Caller();
    for (let n = 0; n < 30; n++) {
      const [a, b] = [caller.next(20), caller.next(20)];
      if (n > 0) caller.hear(b, a, a, b);
      else caller.hear(a, b);
    }
    expect(caller.tens).toEqual(saidTens(120));
    expect(caller.line.stats).toMatchObject({ lost: 0, duplicates: 58, reordered: 29, packets: 118 });
  });

  it('who is another sender all of a sudden, or whose timestamps jump', () => {
    const caller = new Caller();
    const tenPackets = () => {
      for (let n = 0; n < 10; n++) caller.hear(caller.next(20));
    };
    tenPackets();
    Object.assign(caller, { ssrc: 77, sequence: 40_000, timestamp: 9_000_000 });
    tenPackets();
    caller.timestamp += 1_000_000;
    tenPackets();
    expect(caller.tens).toEqual(saidTens(60));
    expect(caller.line.stats).toMatchObject({ ssrcChanges: 1, lost: 0, packets: 30 });
  });

  it.each([
    { pauseMs: 100, how: 'is silent between words and says so (comfort noise)', says: true },
    { pauseMs: 600, how: 'is silent between sentences and says so (comfort noise)', says: true },
    { pauseMs: 100, how: 'just sends nothing between words', says: false },
    { pauseMs: 600, how: 'just sends nothing between sentences', says: false },
  ])('who $how', ({ pauseMs, says }) => {
    const caller = new Caller();
    for (let n = 0; n < 10; n++) caller.hear(caller.next(20));
    if (says) caller.hear(caller.packet(Uint8Array.of(noNoise), comfortNoise));
    caller.pass(pauseMs);
    caller.timestamp += pauseMs * 8;
    for (let n = 0; n < 10; n++) caller.hear(caller.next(20));
    const silent = Array(pauseMs / 10).fill(silence);
    expect(caller.tens).toEqual([...saidTens(20), ...silent, ...saidTens(20, 20)]);
    expect(caller.line.stats).toMatchObject({ lost: 0 });
  });
});
