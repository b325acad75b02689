import { expect, it } from 'vitest';
import { unknownStats } from '../../media/thread/session/session-stats.js';
import { qualityMetrics } from '../../src/call/core/quality-metrics.js';

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
