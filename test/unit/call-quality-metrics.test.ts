import { expect, it } from 'vitest';
import { DelayCounts } from '../../media/delay-spread.js';
import { unknownStats } from '../../media/thread/session/session-stats.js';
import { TerminalSummary } from '../../src/call/core/call-summary.js';
import { audioDelay, qualityMetrics } from '../../src/call/core/quality-metrics.js';

it('the jitter of a call is its mean; the last value of RFC 3550 and the largest one stand beside it', () => {
  const stats = { ...unknownStats(), codec: 'PCMU' as const };
  const received = { ...stats.received, jitterMs: 4.04, jitterMeanMs: 18.46, jitterMaxMs: 31.25 };
  const sent = { ...stats.sent, jitterMs: 1, jitterMeanMs: 2, jitterMaxMs: 3 };
  expect(qualityMetrics({ ...stats, received, sent })).toMatchObject({
    jitter_ms: 18,
    received: { jitter_ms: 4, jitter_mean_ms: 18.5, jitter_max_ms: 31.3 },
    sent: { jitter_ms: 1, jitter_mean_ms: 2, jitter_max_ms: 3 },
  });
});

it('jitter that was not measured is absent', () => {
  const metrics = qualityMetrics({ ...unknownStats(), codec: 'PCMU' });
  expect(JSON.stringify(metrics)).not.toContain('jitter');
});

it('MOS and loss have two decimals, in both directions', () => {
  const stats = { ...unknownStats(), codec: 'PCMU' as const };
  const received = { ...stats.received, lossPercent: 100 / 3, mos: 4.38712345 };
  const sent = { ...stats.sent, lossPercent: 200 / 3, mos: null };
  const told = qualityMetrics({ ...stats, received, sent });
  expect(told).toMatchObject({ mos: 4.39, packet_loss: 33.33, received: { mos: 4.39, packet_loss: 33.33 } });
  expect(told.sent).toMatchObject({ packet_loss: 66.67 });
  expect(told.sent).not.toHaveProperty('mos');
});

const spreadOf = (values: number[]) => {
  const counts = new DelayCounts();
  for (const value of values) counts.add(value);
  return counts.spread;
};
const turnsOf = (...responses: number[]) =>
  responses.map((responseMs) => ({ startedAt: '', speaker: 'agent' as const, durationMs: 1, responseMs }));

it('percentiles of delays are within a step of the sorted values, at every size', () => {
  for (const scale of [3, 90, 900, 9000]) {
    const values = Array.from({ length: 1000 }, (_, i) => ((i * 7919) % 1000) * (scale / 1000));
    const sorted = [...values].sort((a, b) => a - b);
    const spread = spreadOf(values)!;
    const step = (ms: number) => (ms < 100 ? 1 : ms < 1000 ? 10 : 100);
    for (const [told, share] of [
      [spread.p50Ms, 0.5],
      [spread.p95Ms, 0.95],
    ] as const) {
      const truth = sorted[Math.ceil(share * 1000) - 1]!;
      expect(told - truth).toBeGreaterThanOrEqual(0);
      expect(told - truth).toBeLessThanOrEqual(step(truth));
    }
    expect(spread.worstMs).toBeCloseTo(sorted.at(-1)!, 1);
  }
  expect(new DelayCounts().spread).toBeNull();
});

it('delays since a mark have percentiles of their own', () => {
  const counts = new DelayCounts();
  for (let n = 0; n < 100; n += 1) counts.add(5);
  expect(counts.spreadSinceMark).toEqual(counts.spread);
  counts.mark();
  expect(counts.spreadSinceMark).toBeNull();
  for (let n = 0; n < 4; n += 1) counts.add(210);
  expect(counts.spreadSinceMark).toEqual({ p50Ms: 210, p95Ms: 210, worstMs: 210 });
  expect(counts.spread).toEqual({ p50Ms: 6, p95Ms: 6, worstMs: 210 });
  counts.mark();
  counts.add(7);
  expect(counts.spreadSinceMark).toEqual({ p50Ms: 7, p95Ms: 7, worstMs: 7 });
  expect(counts.spread?.worstMs).toBe(210);
});

it('a sample says which hop delayed the call since the sample before', () => {
  const summary = new TerminalSummary();
  const spread = { p50Ms: 3, p95Ms: 41, worstMs: 90 };
  const stats = { ...unknownStats(), codec: 'PCMU' };
  summary.addSample(new Date(0), { ...stats, recentDelay: { network: null, uplink: spread, playout: null } });
  summary.addSample(new Date(5_000), stats);
  const [first, second] = summary.fields(null).qualitySamples;
  expect(first?.recent_audio_delay).toEqual({
    caller_network: null,
    gateway_uplink: { p50_ms: 3, p95_ms: 41, worst_ms: 90 },
    gateway_playout: null,
  });
  expect(second).not.toHaveProperty('recent_audio_delay');
});

it('the delay of a call is listed hop by hop; without a measurement there is none', () => {
  const none = { network: null, uplink: null, playout: null };
  expect(audioDelay(none, [])).toBeNull();
  expect(audioDelay({ ...none, playout: spreadOf([4, 5, 6]) }, turnsOf(700, 900))).toEqual({
    caller_network: null,
    gateway_uplink: null,
    agent_thinking: { p50_ms: 700, p95_ms: 900, worst_ms: 900 },
    gateway_playout: { p50_ms: 6, p95_ms: 6, worst_ms: 6 },
    blame: null,
  });
});

it.each([
  ['the network', { network: [400], uplink: [2], playout: [5] }, [800], /^The caller's network .* 400 ms at p95/],
  ['the uplink', { network: [80], uplink: [70], playout: [5] }, [800], /^The gateway delayed the caller's audio/],
  ['the agent', { network: [310], uplink: [2], playout: [5] }, [2400], /^The agent was slow to answer: 2400 ms/],
  ['the playout', { network: [80], uplink: [2], playout: [220] }, [1600], /^The gateway delayed the agent's audio/],
])('one sentence blames the hop with the largest excess: %s', (_hop, delay, responses, sentence) => {
  const spreads = {
    network: spreadOf(delay.network),
    uplink: spreadOf(delay.uplink),
    playout: spreadOf(delay.playout),
  };
  expect(audioDelay(spreads, turnsOf(...responses))?.blame).toMatch(sentence);
});
