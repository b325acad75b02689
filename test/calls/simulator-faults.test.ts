import { afterAll, describe, expect, it } from 'vitest';
import type { CallFaults } from '../../src/simulator/faults.js';
import { openPhone } from '../../src/simulator/phone/phone.js';
import { type PlaceCallOptions, planDefaults } from '../../src/simulator/place-call.js';
import type { CallReport } from '../../src/simulator/report.js';
import { EchoPeer, type EchoPeerOptions } from '../support/echo-peer.js';

/** What the simulator does wrong on purpose, seen from a far end that is not ours. */
const peers: EchoPeer[] = [];
afterAll(() => {
  for (const peer of peers) peer.close();
});

async function call(
  options: EchoPeerOptions,
  faults: CallFaults,
  wish: Partial<PlaceCallOptions> = {},
): Promise<{ report: CallReport; peer: EchoPeer }> {
  const far = await EchoPeer.open(options);
  peers.push(far);
  const target = { host: '127.0.0.1', port: far.port, transport: 'udp' } as const;
  const phone = await openPhone(target, { losesAcks: faults.losesAck ?? false });
  try {
    const plan = { ...planDefaults, to: '+15550100', durationMs: 600, markers: false, ...wish, faults };
    const recording = await phone.call(plan, new AbortController().signal);
    return { report: recording.report(), peer: far };
  } finally {
    await phone.close();
  }
}

// Each call has a far end of its own.
describe.concurrent('a call with a fault', () => {
  it('loses packets in runs', async () => {
    const impairments = { lossPercent: 30, burstPackets: 6, seed: 3 };
    const { report, peer } = await call({ mute: true }, {}, { impairments, durationMs: 3000 });
    const lostAfter: number[] = [];
    for (const [i, { sequence }] of peer.arrived.entries()) {
      const missing = i === 0 ? 0 : ((sequence - peer.arrived[i - 1]!.sequence) & 0xffff) - 1;
      if (missing > 0) lostAfter.push(missing);
    }
    const lost = lostAfter.reduce((sum, each) => sum + each, 0);
    expect(Math.abs(lost - report.sent.dropped)).toBeLessThanOrEqual(15); // a run at either end is not seen
    expect(lost / lostAfter.length).toBeGreaterThan(3);
  });

  it('sends no audio, and hears', async () => {
    const { report, peer } = await call({}, { oneWay: 'in' });
    expect(peer.arrived).toHaveLength(0);
    expect(report.sent.packets).toBe(0);
    expect(peer.methods).toEqual(['INVITE', 'ACK', 'BYE']);
  });

  it('sends audio, and hears none of what comes', async () => {
    const { report, peer } = await call({}, { oneWay: 'out' });
    expect(peer.sent).toBeGreaterThan(20);
    expect(report.received.packets).toBe(0);
    expect(report).toMatchObject({ ok: true, endedBy: 'us' });
  });

  it('runs fast', async () => {
    const { peer } = await call({ mute: true }, { clockSkewPpm: 20_000 }, { durationMs: 3000 });
    const [first, last] = [peer.arrived[0]!, peer.arrived.at(-1)!];
    const played = ((last.timestamp - first.timestamp) | 0) / 8;
    // 2 % of three seconds are three packets; a late timer takes a part of one.
    expect(played - (last.atMs - first.atMs)).toBeGreaterThan(25);
  });

  it('speaks before the answer', async () => {
    const { report, peer } = await call({ early: true, ringMs: 400 }, { speaksEarly: true });
    const early = peer.arrived.filter(({ atMs }) => atMs < peer.answeredMs);
    expect(early.length).toBeGreaterThan(5);
    expect(report.answerToFirstPacketMs).toBeLessThan(0);
  });

  it('listens before the answer and is silent until then', async () => {
    const { peer } = await call({ early: true, ringMs: 300 }, {});
    expect(peer.arrived.length).toBeGreaterThan(5);
    expect(peer.arrived.every(({ atMs }) => atMs >= peer.answeredMs)).toBe(true);
  });

  it('changes the codec by a re-INVITE', async () => {
    const { report, peer } = await call({}, { reoffer: { codec: 'PCMA', afterMs: 300 } }, { durationMs: 900 });
    expect(report).toMatchObject({ reoffered: 200, codec: 'PCMA', ok: true });
    expect(report.received.codecs).toEqual(['PCMU', 'PCMA']);
    const types = peer.arrived.map(({ payloadType }) => payloadType);
    expect([types[0], types.at(-1)]).toEqual([0, 8]);
    expect(types.lastIndexOf(0)).toBeLessThan(types.indexOf(8));
  });

  it('says so when the change is refused, and goes on as before', async () => {
    const { report, peer } = await call({ refuseReoffer: 488 }, { reoffer: { codec: 'PCMA', afterMs: 200 } });
    expect(report).toMatchObject({ reoffered: 488, ok: false, problems: ['the re-INVITE was refused: 488'] });
    expect(peer.arrived.every(({ payloadType }) => payloadType === 0)).toBe(true);
  });

  it('falls silent and says BYE later', async () => {
    const { report, peer } = await call({}, { bye: 500 }, { durationMs: 300 });
    expect(peer.methods).toEqual(['INVITE', 'ACK', 'BYE']);
    expect(peer.byeMs - peer.arrived.at(-1)!.atMs).toBeGreaterThan(480);
    expect(report.noticedMs).toBeGreaterThan(490);
    expect(report.endedBy).toBe('us');
  });

  it('never says BYE: the far side has to notice', async () => {
    const { report, peer } = await call({ hangUpAfterMs: 900 }, { bye: 'lost' }, { durationMs: 300 });
    expect(peer.methods).toEqual(['INVITE', 'ACK']);
    expect(report).toMatchObject({ endedBy: 'far side', ok: true });
    expect(report.noticedMs).toBeGreaterThan(400);
    expect(peer.arrived.at(-1)!.atMs - peer.arrived[0]!.atMs).toBeLessThan(500);
  });

  it('loses every ACK', async () => {
    const { report, peer } = await call({ repeatMs: 100 }, { losesAck: true }, { durationMs: 5000 });
    expect(peer.methods).not.toContain('ACK');
    expect(report).toMatchObject({ answered: true, endedBy: 'far side' });
    expect(report.durationMs).toBeLessThan(3000);
  });
});
