import { describe, expect, it } from 'vitest';
import { emptyRtpView } from '../../media/rtp/packet.js';
import { ReceiverStats } from '../../media/rtp/receiver-stats.js';

/** Feeds sequence numbers; packet n of the list arrives at n * 20 ms unless said otherwise. */
function feed(stats: ReceiverStats, sequences: number[], change: { ssrc?: number; startMs?: number } = {}) {
  return sequences.map((sequence, i) =>
    stats.arrived(
      {
        ...emptyRtpView(),
        ssrc: change.ssrc ?? 1,
        sequence: sequence & 0xffff,
        timestamp: (sequence * 160) >>> 0,
        payloadStart: 12,
        payloadEnd: 172,
      },
      (change.startMs ?? 0) + i * 20,
      true,
    ),
  );
}
const run = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i);

describe('loss', () => {
  it.each<[string, number[], Partial<ReceiverStats>]>([
    ['a clean run', run(1, 100), { packets: 100, expected: 100, lost: 0 }],
    ['a wrap', run(65_500, 100), { expected: 100, lost: 0 }],
    ['two wraps', run(0, 140_000), { expected: 140_000, lost: 0 }],
    ['one lost', [1, 2, 4, 5], { expected: 5, lost: 1 }],
    ['a duplicate', [1, 2, 2, 3], { expected: 3, lost: 0, duplicates: 1, packets: 4 }],
    ['a duplicate does not make up for a loss', [1, 2, 2, 4], { expected: 4, lost: 1, duplicates: 1 }],
    ['reordered', [1, 3, 2, 4], { expected: 4, lost: 0, reordered: 1 }],
    ['reordered around the wrap', [65_534, 0x10000, 65_535, 0x10001], { expected: 4, lost: 0, reordered: 1 }],
    ['the first two reordered', [2, 1, 3], { expected: 3, lost: 0, reordered: 1 }],
    ['a wild number alone does not count', [1, 2, 30_000, 3], { expected: 3, lost: 0, packets: 3 }],
    ['a restarted sender', [1, 2, 30_000, 30_001, 30_002], { expected: 4, lost: 0 }],
  ])('%s', (_what, sequences, expected) => {
    const stats = new ReceiverStats();
    feed(stats, sequences);
    expect(stats).toMatchObject(expected);
  });

  it('tells of a sender report block what was lost since the last one', () => {
    const stats = new ReceiverStats();
    feed(stats, [1, 2, 3, 4, 6, 7, 8, 10]);
    expect(stats.report()).toMatchObject({
      fractionLost: Math.floor((2 * 256) / 10),
      cumulativeLost: 2,
      highestSequence: 10,
    });
    feed(stats, [11, 12]);
    expect(stats.report()).toMatchObject({ fractionLost: 0, cumulativeLost: 2 });
    feed(stats, [12, 12, 12]);
    expect(stats.report()).toMatchObject({ fractionLost: 0, cumulativeLost: -1 });
  });

  it('adds the sources of a session up', () => {
    const stats = new ReceiverStats();
    feed(stats, [1, 2, 4]);
    expect(feed(stats, [900, 901, 903], { ssrc: 2 })[0]).toBe('restart');
    expect(stats).toMatchObject({ expected: 8, lost: 2, ssrcChanges: 1, packets: 6 });
  });

  it('sees bursts: the same loss in one run is burstier than spread out', () => {
    const spread = new ReceiverStats();
    feed(
      spread,
      run(0, 100).filter((n) => n % 10 !== 5),
    );
    const burst = new ReceiverStats();
    feed(
      burst,
      run(0, 100).filter((n) => n < 40 || n >= 50),
    );
    expect([spread.lost, burst.lost]).toEqual([10, 10]);
    expect(spread.burstRatio).toBe(1);
    expect(burst.burstRatio).toBeCloseTo(9, 5);
  });

  it('does not call a reordered packet a burst', () => {
    const stats = new ReceiverStats();
    feed(stats, [1, 4, 3, 2, 5, 7]);
    expect(stats.lost).toBe(1);
    expect(stats.burstRatio).toBe(1);
  });
});

describe('jitter', () => {
  const packet = (timestamp: number, sequence: number) => ({ ...emptyRtpView(), ssrc: 1, sequence, timestamp });

  it('is unknown before two packets and zero for a perfect sender', () => {
    const stats = new ReceiverStats();
    expect(stats.jitterMs).toBeNull();
    feed(stats, run(1, 50));
    expect(stats.jitterMs).toBe(0);
  });

  it('follows the integer recipe of RFC 3550 A.8', () => {
    const stats = new ReceiverStats();
    let expected = 0;
    let beforeMs = 0;
    run(0, 200).forEach((i) => {
      const atMs = i * 20 + (i % 2 === 0 ? 0 : 5);
      if (i > 0) {
        const d = Math.abs(Math.round((atMs - beforeMs) * 8) - 160);
        expected += d - ((expected + 8) >> 4);
      }
      beforeMs = atMs;
      stats.arrived(packet(i * 160, i), atMs, true);
    });
    expect(stats.jitterMs).toBe(expected / 16 / 8);
    expect(stats.jitterMs).toBeGreaterThan(4.5);
  });

  it('leaves telephone events and jumps of the timestamp out', () => {
    const stats = new ReceiverStats();
    for (const i of run(0, 10)) stats.arrived(packet(i * 160, i), i * 20, true);
    for (const i of run(10, 10)) stats.arrived(packet(1600, i), i * 20, false);
    for (const i of run(20, 10)) stats.arrived(packet(i * 160, i), i * 20, true);
    expect(stats.jitterMs).toBe(0);
    expect(stats).toMatchObject({ packets: 30, audioPackets: 20 });
    for (const i of run(30, 10)) stats.arrived(packet(i * 160 + 5_000_000, i), i * 20, true);
    expect(stats.jitterMs).toBe(0);
  });

  it('keeps mean and maximum of the call, where the last value forgets', () => {
    const stats = new ReceiverStats();
    expect(stats).toMatchObject({ jitterMeanMs: null, jitterMaxMs: null });
    // 12 s in which each packet is 30 ms later or earlier than the one before, then 8 s without jitter
    for (const i of run(0, 600)) stats.arrived(packet(i * 160, i), i * 20 + (i % 2) * 30, true);
    const { jitterMs: before } = stats;
    expect(before).toBeGreaterThan(29);
    for (const i of run(600, 400)) stats.arrived(packet(i * 160, i), i * 20, true);
    expect(stats.jitterMs).toBeLessThan(1);
    expect(stats.jitterMeanMs).toBeCloseTo((30 * 600) / 999, 5);
    expect(stats.jitterMaxMs).toBeGreaterThanOrEqual(before!);
    expect(stats.jitterMaxMs).toBeLessThan(31);
  });

  it('has a mean in milliseconds through a change of the clock', () => {
    const stats = new ReceiverStats();
    for (const i of run(0, 101)) stats.arrived(packet(i * 160, i), i * 20 + (i % 2) * 10, true);
    stats.changeClock(48);
    for (const i of run(101, 101)) stats.arrived(packet(i * 960, i), i * 20 + (i % 2) * 20, true);
    expect(stats.jitterMeanMs).toBeCloseTo(15, 5);
  });
});
