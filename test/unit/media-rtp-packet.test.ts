import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { emptyRtpView, looksLikeRtcp, parseRtp, sequenceDistance, writeRtpHeader } from '../../media/rtp/packet.js';
import { readRtcp, writeRtcp } from '../../media/rtp/rtcp.js';

function packet(first: number, rest: number[] = [], payload = 4): Uint8Array {
  const bytes = new Uint8Array(12 + rest.length + payload);
  writeRtpHeader(bytes, 8, true, 0xfffe, 0xdeadbeef, 0xcafebabe);
  bytes[0] = first;
  bytes.set(rest, 12);
  return bytes;
}

describe('RTP', () => {
  it('reads what it wrote', () => {
    const view = emptyRtpView();
    expect(parseRtp(packet(0x80), view)).toBe(true);
    expect(view).toEqual({
      payloadType: 8,
      marker: true,
      sequence: 0xfffe,
      timestamp: 0xdeadbeef,
      ssrc: 0xcafebabe,
      payloadStart: 12,
      payloadEnd: 16,
    });
  });

  const list = (bytes: number) => Array<number>(bytes).fill(0);
  it.each<[string, Uint8Array, [number, number] | null]>([
    ['an empty payload', packet(0x80, [], 0), [12, 12]],
    ['two contributing sources', packet(0x82, list(8)), [20, 24]],
    ['fifteen contributing sources', packet(0x8f, list(60)), [72, 76]],
    ['an extension of one word', packet(0x90, [0, 0, 0, 1, 9, 9, 9, 9]), [20, 24]],
    ['padding', packet(0xa0, [1, 2, 3, 0, 0, 3], 0), [12, 15]],
    ['nothing', new Uint8Array(0), null],
    ['eleven bytes', packet(0x80).subarray(0, 11), null],
    ['version 1', packet(0x40), null],
    ['version 3', packet(0xc0), null],
    ['sources beyond the end', packet(0x8f), null],
    ['an extension header beyond the end', packet(0x90, [], 3), null],
    ['an extension of 65535 words', packet(0x90, [0, 0, 0xff, 0xff]), null],
    ['padding longer than the payload', packet(0xa0, [1, 2, 200], 0), null],
    ['padding of zero', packet(0xa0, [1, 2, 0], 0), null],
    ['padding that reaches into the sources', packet(0xa1, [0, 0, 0, 1], 0), null],
  ])('%s', (_what, bytes, payload) => {
    const view = emptyRtpView();
    expect(parseRtp(bytes, view)).toBe(payload !== null);
    if (payload) expect([view.payloadStart, view.payloadEnd]).toEqual(payload);
  });

  it('keeps within the packet and never throws, whatever the bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 120 }), (bytes) => {
        const view = emptyRtpView();
        if (!parseRtp(bytes, view)) return;
        expect(view.payloadStart).toBeLessThanOrEqual(view.payloadEnd);
        expect(view.payloadEnd).toBeLessThanOrEqual(bytes.length);
      }),
      { numRuns: 2000 },
    );
  });

  it.each([
    [1, 0, 1],
    [0, 65535, 1],
    [65535, 0, -1],
    [5, 5, 0],
  ])('distance of %i from %i is %i', (a, b, distance) => {
    expect(sequenceDistance(a, b)).toBe(distance);
  });
});

describe('RTCP', () => {
  const block = {
    ssrc: 7,
    fractionLost: 25,
    cumulativeLost: -3,
    highestSequence: 0x10005,
    jitter: 80,
    lastSenderReport: 0x12345678,
    delaySinceLast: 65536,
  };
  const sender = { ntpSeconds: 0xe1234567, ntpFraction: 0x89abcdef, rtpTimestamp: 5, packets: 100, bytes: 16_000 };

  it('writes a sender report that it reads again, with SDES and BYE', () => {
    const bytes = writeRtcp({ ssrc: 9, cname: 'abc@trunkline', sender, block, bye: true });
    expect(looksLikeRtcp(bytes)).toBe(true);
    expect(bytes.length % 4).toBe(0);
    expect(readRtcp(bytes)).toEqual({
      reporter: 9,
      senderReport: { ssrc: 9, middleNtp: 0x456789ab, packets: 100 },
      blocks: [block],
      bye: true,
    });
    expect(new TextDecoder().decode(bytes)).toContain('abc@trunkline');
  });

  it('writes a receiver report when it sent nothing', () => {
    const bytes = writeRtcp({ ssrc: 9, cname: 'a', sender: null, block: null, bye: false });
    expect(bytes[1]).toBe(201);
    expect(readRtcp(bytes)).toEqual({ reporter: 9, senderReport: null, blocks: [], bye: false });
  });

  it.each<[string, number[]]>([
    ['four bytes that promise more', [0x80, 200, 0, 6]],
    ['version 1', [0x40, 201, 0, 1, 0, 0, 0, 9]],
    ['more blocks than fit', [0x9f, 201, 0, 1, 0, 0, 0, 9]],
    ['a cut header', [0x80, 201, 0]],
    ['nothing', []],
  ])('refuses %s', (_what, bytes) => {
    expect(readRtcp(Uint8Array.from(bytes))).toBeNull();
  });

  it('never throws, whatever the bytes', () => {
    const fuzzed = fc.uint8Array({ maxLength: 100 }).map((bytes) => {
      if (bytes.length > 1) bytes[0] = 0x80 | (bytes[0]! & 0x3f);
      return bytes;
    });
    fc.assert(
      fc.property(fuzzed, (bytes) => {
        readRtcp(bytes);
      }),
      { numRuns: 2000 },
    );
  });
});
