import type { RemoteInfo } from 'node:dgram';
import { describe, expect, it } from 'vitest';
import type { MediaEvent } from '../../media/engine.js';
import { writeRtpHeader } from '../../media/rtp/packet.js';
import { ReceiverStats } from '../../media/rtp/receiver-stats.js';
import { Reports } from '../../media/rtp/reports.js';
import { readRtcp, writeRtcp } from '../../media/rtp/rtcp.js';
import { SdpNegotiation } from '../../media/sdp.js';
import { FromPhone } from '../../media/thread/session/from-phone.js';

const from: RemoteInfo = { address: '192.0.2.5', port: 4000, family: 'IPv4', size: 172 };

function phone(limits: { firstRtpTimeoutMs: number; rtpTimeoutMs: number }) {
  const events: MediaEvent['type'][] = [];
  const line = new FromPhone(
    { codecs: ['PCMU'], ...limits },
    {
      event: (event) => events.push(event.type),
      key: () => {},
      started: () => {},
      sourceFound: () => {},
      audio: () => {},
      packet: () => {},
      heard: (_timestamp, bytes) => bytes,
      decoder: () => null,
    },
  );
  const sdp = new SdpNegotiation({ address: '192.0.2.1', rtpPort: 10_000, codecs: ['PCMU'] }, '1');
  const agree = (direction: string, nowMs: number) => {
    sdp.answer(
      `v=0\r\no=- 1 1 IN IP4 x\r\ns=-\r\nc=IN IP4 192.0.2.5\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\na=${direction}\r\n`,
    );
    line.agree(sdp.agreed!, nowMs);
  };
  agree('sendrecv', 0);
  let sequence = 0;
  /** One packet: a voice, the silence of a phone that sends it, or comfort noise (RFC 3389). */
  const hear = (nowMs: number, what: 'voice' | 'silence' | 'noise' = 'voice') => {
    const packet = new Uint8Array(what === 'noise' ? 13 : 172).fill(what === 'silence' ? 0xff : 0x10);
    writeRtpHeader(packet, what === 'noise' ? 13 : 0, false, sequence++, nowMs * 8, 1);
    line.packet(packet, from, nowMs);
  };
  /** A packet every 20 ms. */
  const talk = (fromMs: number, toMs: number, what?: 'voice' | 'silence') => {
    for (let nowMs = fromMs; nowMs < toMs; nowMs += 20) hear(nowMs, what);
  };
  const loseOnTheWay = (packets: number) => {
    sequence += packets;
  };
  /** The first time the line says that the phone is lost. */
  const lostAt = (fromMs: number, toMs: number) => {
    for (let nowMs = fromMs; nowMs <= toMs; nowMs += 20) if (line.tick(nowMs)) return nowMs;
    return null;
  };
  return { line, events, agree, hear, talk, loseOnTheWay, lostAt };
}

describe('a phone that is not heard', () => {
  it('is lost after the first limit, counted from the answer', () => {
    const { line, lostAt } = phone({ firstRtpTimeoutMs: 60_000, rtpTimeoutMs: 30_000 });
    expect(lostAt(0, 50_000)).toBeNull();
    line.goLive(50_000);
    expect(lostAt(50_000, 200_000)).toBe(110_000);
  });

  it('is lost after the second limit when it stops', () => {
    const { line, hear, lostAt } = phone({ firstRtpTimeoutMs: 60_000, rtpTimeoutMs: 30_000 });
    line.goLive(0);
    hear(10_000);
    expect(lostAt(10_000, 100_000)).toBe(40_000);
  });

  it('is never lost with limits of 0', () => {
    const { line, lostAt } = phone({ firstRtpTimeoutMs: 0, rtpTimeoutMs: 0 });
    line.goLive(0);
    expect(lostAt(0, 1_000_000)).toBeNull();
  });

  it.each(['sendonly', 'inactive', 'recvonly'])(
    'is not missed while it is %s, and the limit begins anew after',
    (direction) => {
      const { line, hear, agree, lostAt, events } = phone({ firstRtpTimeoutMs: 60_000, rtpTimeoutMs: 30_000 });
      line.goLive(0);
      hear(1000);
      agree(direction, 2000);
      expect(lostAt(2000, 500_000)).toBeNull();
      expect(events).toEqual([]);
      agree('sendrecv', 500_000);
      expect(lostAt(500_000, 600_000)).toBe(530_000);
    },
  );

  const noLimits = { firstRtpTimeoutMs: 0, rtpTimeoutMs: 0 };

  it('is reported once as one-way when nothing came for 2.5 s since the answer', () => {
    const { line, lostAt, events } = phone(noLimits);
    line.goLive(0);
    lostAt(0, 2480);
    expect(events).toEqual([]);
    lostAt(2500, 20_000);
    expect(events).toEqual(['oneWay']);
  });

  it.each<[string, (call: ReturnType<typeof phone>) => void]>([
    ['stops after words', ({ talk }) => talk(0, 5000)],
    ['stops after a little silence of its own (hangover)', ({ talk }) => talk(4000, 5000, 'silence')],
    [
      'says by comfort noise that it pauses, though it sent its silence before',
      ({ talk, hear }) => {
        talk(0, 4980, 'silence');
        hear(4980, 'noise');
      },
    ],
    [
      'has paused before, without a packet missing',
      ({ talk }) => {
        talk(0, 3000, 'silence');
        talk(4000, 5000, 'voice');
      },
    ],
  ])('is not told as one-way when it %s: that is a pause (DTX)', (_what, before) => {
    const call = phone(noLimits);
    call.line.goLive(0);
    before(call);
    for (const startMs of [5000, 15_000, 25_000]) {
      call.lostAt(startMs, startMs + 9000);
      call.hear(startMs + 9500);
    }
    expect(call.events).toEqual([]);
  });

  it('that sent its silence is reported as one-way when it stops, and again after it came back and stopped', () => {
    const { line, talk, loseOnTheWay, lostAt, events } = phone(noLimits);
    line.goLive(0);
    talk(0, 3000, 'silence');
    talk(3000, 5000, 'voice');
    lostAt(5000, 7460);
    expect(events).toEqual([]);
    lostAt(7480, 20_000);
    expect(events).toEqual(['oneWay']);
    loseOnTheWay(750);
    talk(20_000, 21_000, 'voice');
    lostAt(21_000, 40_000);
    expect(events).toEqual(['oneWay', 'oneWay']);
  });

  it('is reported as one-way when its RTCP says that it still sends', () => {
    const { line, talk, lostAt, events } = phone(noLimits);
    line.goLive(0);
    talk(0, 5000, 'voice');
    lostAt(5000, 8000);
    line.reported({ ssrc: 1, packets: 260 }, 6000);
    line.reported({ ssrc: 1, packets: 262 }, 11_000); // comfort noise
    line.reported({ ssrc: 99, packets: 5000 }, 12_000); // not of this stream
    lostAt(8000, 13_000);
    expect(events).toEqual([]);
    line.reported({ ssrc: 1, packets: 512 }, 16_000);
    lostAt(16_000, 17_000);
    expect(events).toEqual(['oneWay']);
  });
});

describe('reports', () => {
  const sent = {
    clockKhz: 8,
    ssrc: 7,
    packets: 100,
    bytes: 16_000,
    firstSequence: 50,
    sequencesUsed: 110,
    timestampAt: (nowMs: number) => nowMs * 8,
  };
  const wallMs = Date.UTC(2026, 0, 1);

  it('go out every 5 s, between half and one and a half of it', () => {
    for (const [random, gapMs] of [
      [0, 2500],
      [0.5, 5000],
      [0.999, 7495],
    ] as const) {
      const reports = new Reports('a@b', wallMs, () => random);
      reports.start(0);
      const at: number[] = [];
      for (let nowMs = 0; nowMs < 40_000; nowMs += 5) if (reports.due(nowMs, sent, new ReceiverStats())) at.push(nowMs);
      expect(at[1]! - at[0]!).toBe(gapMs);
    }
  });

  it('carry the wall clock and the timestamp that belongs to it', () => {
    const reports = new Reports('a@b', wallMs, () => 0);
    const bytes = reports.bye(1500, sent, new ReceiverStats());
    const view = new DataView(bytes.buffer);
    expect(view.getUint32(8)).toBe(wallMs / 1000 + 1 + 2_208_988_800);
    expect(view.getUint32(12)).toBe(2 ** 31);
    expect(view.getUint32(16)).toBe(12_000);
  });

  it('give the round trip: now - LSR - DLSR', () => {
    const reports = new Reports('a@b', wallMs, () => 0);
    reports.start(0);
    const ours = readRtcp(reports.due(10_000, sent, new ReceiverStats())!)!.senderReport!;
    const block = {
      ssrc: 7,
      fractionLost: 0,
      cumulativeLost: 5,
      highestSequence: 149,
      jitter: 160,
      lastSenderReport: ours.middleNtp,
      delaySinceLast: 2 * 65536,
    };
    const read = (delaySinceLast: number, nowMs: number) =>
      reports.read(
        readRtcp(writeRtcp({ ssrc: 1, cname: '', sender: null, block: { ...block, delaySinceLast }, bye: false }))!,
        nowMs,
        sent,
      );
    read(2 * 65536, 12_080);
    expect(reports.rttMs).toBeCloseTo(80, 0);
    expect(reports.heard).toEqual({ lost: 5, lossPercent: 5, jitterMs: 20, jitterMeanMs: 20, jitterMaxMs: 20 });
    // A peer that says it waited longer than it did.
    read(9 * 65536, 12_080);
    expect(reports.rttMs).toBeCloseTo(80, 0);
  });

  it('say to the far side when its report came', () => {
    const reports = new Reports('a@b', wallMs, () => 0);
    const stats = new ReceiverStats();
    stats.arrived(
      { payloadType: 0, marker: false, sequence: 1, timestamp: 0, ssrc: 9, payloadStart: 12, payloadEnd: 172 },
      0,
      true,
    );
    const sender = { ntpSeconds: 0x1234, ntpFraction: 0x56780000, rtpTimestamp: 0, packets: 1, bytes: 1 };
    reports.read(readRtcp(writeRtcp({ ssrc: 9, cname: '', sender, block: null, bye: false }))!, 1000, sent);
    const [block] = readRtcp(reports.bye(1500, sent, stats))!.blocks;
    expect(block).toMatchObject({ ssrc: 9, lastSenderReport: 0x12345678, delaySinceLast: 32_768 });
  });

  describe('of our stream', () => {
    const block = {
      ...{ ssrc: 7, fractionLost: 0, cumulativeLost: 0, highestSequence: 149, jitter: 0 },
      ...{ lastSenderReport: 0, delaySinceLast: 0 },
    };
    const read = (reports: Reports, change: Partial<typeof block>, of: Partial<typeof sent> = {}) =>
      reports.read(
        readRtcp(writeRtcp({ ssrc: 1, cname: '', sender: null, block: { ...block, ...change }, bye: false }))!,
        5000,
        { ...sent, ...of },
      );

    it.each<[string, Partial<typeof block>]>([
      ['more lost than was sent', { cumulativeLost: 5000 }],
      ['all lost, of packets of which it got the last one', { cumulativeLost: 100 }],
      ['a packet that we have not sent yet', { highestSequence: 160 }],
      ['a packet before our first', { highestSequence: 49 }],
      ['cycles that we are far from', { highestSequence: 0x7fff_0000 + 149 }],
      ['jitter that is no jitter', { jitter: 4_000_000_000 }],
    ])('a report is not taken that says: %s', (_what, change) => {
      const reports = new Reports('a@b', wallMs, () => 0);
      expect(read(reports, { cumulativeLost: 2 })).toBe(true);
      expect(read(reports, change)).toBe(false);
      expect(reports.heard).toMatchObject({ lost: 2, lossPercent: 2 });
    });

    it('a report is taken that can be true', () => {
      for (const [change, of, lossPercent] of [
        [{ cumulativeLost: 99 }, {}, 99],
        [{ cumulativeLost: -3 }, {}, 0],
        [{ highestSequence: 159, cumulativeLost: 11 }, {}, 10],
        [
          { highestSequence: 0x1_0005, cumulativeLost: 7 },
          { firstSequence: 65_500, sequencesUsed: 100 },
          (7 / 42) * 100,
        ],
        // It came after the wrap of our numbers, and counts cycles from there.
        [{ highestSequence: 5, cumulativeLost: 7 }, { firstSequence: 65_500, sequencesUsed: 100 }, (7 / 42) * 100],
      ] as const) {
        const reports = new Reports('a@b', wallMs, () => 0);
        expect(read(reports, change, of)).toBe(true);
        expect(reports.heard!.lossPercent).toBeCloseTo(lossPercent, 10);
      }
    });

    it('mean and maximum of the jitter are over all reports', () => {
      const reports = new Reports('a@b', wallMs, () => 0);
      for (const jitterMs of [10, 40, 1]) read(reports, { jitter: jitterMs * 8 });
      expect(reports.heard).toMatchObject({ jitterMs: 1, jitterMeanMs: 17, jitterMaxMs: 40 });
    });

    it('a sender report of another stream is not echoed in ours', () => {
      const reports = new Reports('a@b', wallMs, () => 0);
      const stats = new ReceiverStats();
      const packet = { payloadType: 0, marker: false, sequence: 1, timestamp: 0, ssrc: 9 };
      stats.arrived({ ...packet, payloadStart: 12, payloadEnd: 172 }, 0, true);
      const sender = { ntpSeconds: 0x1234, ntpFraction: 0, rtpTimestamp: 0, packets: 1, bytes: 1 };
      reports.read(readRtcp(writeRtcp({ ssrc: 8, cname: '', sender, block: null, bye: false }))!, 1000, sent);
      const [echo] = readRtcp(reports.bye(1500, sent, stats))!.blocks;
      expect(echo).toMatchObject({ ssrc: 9, lastSenderReport: 0, delaySinceLast: 0 });
    });
  });
});
