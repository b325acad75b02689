import { afterEach, describe, expect, it } from 'vitest';
import { type PlaceCallOptions, placeCall } from '../../src/simulator/place-call.js';
import type { CallReport } from '../../src/simulator/report.js';
import { EchoPeer, type EchoPeerOptions } from '../support/echo-peer.js';

/** The simulator against a far end that is not ours, so that its figures can be compared with what was done to the packets. */
let peer: EchoPeer | null = null;
afterEach(() => {
  peer?.close();
  peer = null;
});

async function call(
  options: EchoPeerOptions,
  wish: Partial<PlaceCallOptions> = {},
  signal?: AbortSignal,
): Promise<CallReport> {
  peer = await EchoPeer.open(options);
  const target = { host: '127.0.0.1', port: peer.port, transport: 'udp' } as const;
  const recording = await placeCall({ to: '+15550100', durationMs: 1500, target, ...wish }, signal);
  return recording.report();
}

// The peer's own timers are late when the machine is busy: a measured delay may take another try.
describe('a call to an echo', { retry: 3 }, () => {
  it.each([0, 120])('finds the round trip of audio through a delay of %i ms', async (delayMs) => {
    const report = await call({ delayMs, ringMs: 100 }, { durationMs: 3500 });
    expect(report).toMatchObject({
      answered: true,
      endedBy: 'us',
      cause: 'normal_clearing',
      codec: 'PCMU',
      ok: true,
      problems: [],
    });
    expect(report.roundTrip).toMatchObject({ sent: 2, found: 2 });
    // The least is free of what a busy machine adds; a timer fires up to 1 ms late at each side.
    expect(report.roundTrip?.leastMs).toBeGreaterThan(delayMs - 1);
    expect(report.roundTrip?.leastMs).toBeLessThan(delayMs + 3);
    expect(report.heard.frequencyHz).toBeGreaterThan(438);
    expect(report.heard.frequencyHz).toBeLessThan(442);
    expect(report.heard.levelDbfs).toBeCloseTo(-15, 0);
    expect(report.setupMs).toBeGreaterThanOrEqual(99);
    expect(report.ringMs).toBeLessThan(report.setupMs!);
    expect(report.received.packets).toBeGreaterThan(160);
    expect(report.received.lost).toBe(0);
    expect(report.received.mos).toBeGreaterThan(4.3);
    expect(peer?.methods).toEqual(['INVITE', 'ACK', 'BYE']);
  });

  it('counts what is missing, itself', async () => {
    const report = await call({ dropEvery: 10 }, { markers: false });
    expect(report.received.lossPercent).toBeGreaterThan(8.5);
    expect(report.received.lossPercent).toBeLessThan(11);
    expect(report.received.lost).toBeGreaterThanOrEqual(7);
    expect(report.problems[0]).toMatch(/^\d+\.\d % of the audio was lost$/);
  });

  it('presses keys that arrive, each once', async () => {
    const report = await call({}, { digits: '1w9*#D', digitsAfterMs: 100, durationMs: 2500 });
    expect(peer?.digits).toBe('19*#D');
    expect(report.sent.digits).toBe('1w9*#D');
    const starts = peer?.arrived.filter((packet) => packet.payloadType === 101 && packet.marker);
    expect(starts).toHaveLength(5);
  });

  it('presses none where telephone-event was not agreed, and says so', async () => {
    const report = await call({ telephoneEvent: false }, { digits: '1', digitsAfterMs: 100, durationMs: 600 });
    expect(peer?.arrived.every((packet) => packet.payloadType === 0)).toBe(true);
    expect(report.sent.digits).toBe('');
  });

  it('sends at the pace of the clock, with one sequence and contiguous timestamps', async () => {
    const { sent } = await call({}, { markers: false });
    const arrived = peer?.arrived ?? [];
    expect(arrived.length + sent.leftOut).toBeGreaterThanOrEqual(74);
    expect(arrived.length + sent.leftOut).toBeLessThanOrEqual(77);
    expect(arrived[0]?.marker).toBe(true);
    let leftOut = 0;
    for (const [i, packet] of arrived.entries()) {
      // A gap is only where this machine stalled, and marked as one.
      if (i > 0 && packet.marker) leftOut += ((packet.timestamp - arrived[i - 1]!.timestamp) | 0) / 160 - 1;
      expect(packet.sequence).toBe((arrived[0]!.sequence + i) & 0xffff);
      expect(packet.timestamp).toBe((arrived[0]!.timestamp + (i + leftOut) * 160) >>> 0);
      expect(packet.payload).toHaveLength(160);
    }
    expect(leftOut).toBe(sent.leftOut);
  });

  it('sends longer packets when asked', async () => {
    await call({}, { ptimeMs: 40, durationMs: 1000 });
    expect(peer?.arrived.every((packet) => packet.payload.length === 320)).toBe(true);
  });
});

describe('impairments on the wire', () => {
  it('lose, hold back, reorder and duplicate what the report says', async () => {
    const impairments = { lossPercent: 10, reorderPercent: 5, duplicatePercent: 5, seed: 5 };
    const report = await call({ mute: true }, { impairments, markers: false, durationMs: 4000 });
    const arrived = peer?.arrived ?? [];
    const distinct = new Set(arrived.map((packet) => packet.sequence));
    const { sent } = report;
    // What was held back when the call ended never left.
    expect(sent.packets - sent.dropped - distinct.size).toBeLessThanOrEqual(2);
    expect(sent.dropped).toBeGreaterThan(8);
    expect(Math.abs(arrived.length - distinct.size - sent.duplicated)).toBeLessThanOrEqual(2);
    expect(sent.duplicated).toBeGreaterThan(2);
    let highest = arrived[0]!.sequence;
    let overtaken = 0;
    for (const { sequence } of arrived) {
      if (((sequence - highest) << 16) >> 16 < 0) overtaken += 1;
      else highest = sequence;
    }
    expect(sent.reordered).toBeGreaterThan(2);
    expect(overtaken).toBeGreaterThan(0);
  });

  it('make the jitter that was asked for', async () => {
    const report = await call({}, { impairments: { jitterMs: 30 }, markers: false, durationMs: 4000 });
    // Neighbours differ by 10 ms on average when each is held back by 0 to 30 ms; the running estimate swings around that.
    expect(report.received.jitterMs).toBeGreaterThan(3);
    expect(report.received.jitterMs).toBeLessThan(30);
    expect(report.received.lost).toBeLessThanOrEqual(2);
  });
});

describe('a call that does not go well', () => {
  it.each([
    [486, 'user_busy'],
    [404, 'not_found'],
    [603, 'call_rejected'],
  ])('is refused with %i', async (refuse, cause) => {
    const report = await call({ refuse, ringMs: 30 });
    expect(report).toMatchObject({
      answered: false,
      ok: false,
      sipStatus: refuse,
      cause,
      endedBy: 'far side',
      durationMs: 0,
    });
    expect(report.problems).toEqual([`not answered: ${refuse} ${cause}`]);
    expect(report.roundTrip).toBeNull();
    expect(report.received.mos).toBeNull();
  });

  it('rings and is given up', async () => {
    const report = await call({ ringMs: Number.POSITIVE_INFINITY }, { ringTimeoutMs: 300 });
    expect(report).toMatchObject({ answered: false, ok: false });
    expect(peer?.methods).toContain('CANCEL');
  });

  it('is answered and silent', async () => {
    const report = await call({ mute: true }, { durationMs: 600 });
    expect(report).toMatchObject({ answered: true, ok: false, problems: ['no audio came back'] });
    expect(report.received.lossPercent).toBeNull();
    expect(report.heard.levelDbfs).toBeNull();
  });

  it('is hung up by the far side', async () => {
    const report = await call({ hangUpAfterMs: 500 });
    expect(report).toMatchObject({ endedBy: 'far side', cause: 'normal_clearing', ok: true });
    expect(report.durationMs).toBeGreaterThan(450);
    expect(report.durationMs).toBeLessThan(2000);
  });

  it('is hung up early by the signal', async () => {
    const hangUp = new AbortController();
    setTimeout(() => hangUp.abort(), 700);
    const report = await call({}, { durationMs: 60_000 }, hangUp.signal);
    expect(report).toMatchObject({ answered: true, endedBy: 'us', ok: true });
    expect(peer?.methods).toContain('BYE');
  });

  it('goes to a port where nobody listens', async () => {
    const gone = await EchoPeer.open();
    const { port } = gone;
    gone.close();
    const recording = await placeCall({
      to: '1',
      durationMs: 1000,
      ringTimeoutMs: 1000,
      target: { host: '127.0.0.1', port, transport: 'tcp' },
    });
    expect(recording.report()).toMatchObject({ answered: false, ok: false });
  });
});
