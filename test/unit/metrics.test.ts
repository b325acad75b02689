import { expect, it } from 'vitest';
import { createMetrics } from '../../src/metrics.js';

type Parts = Parameters<typeof createMetrics>[0];

const load = {
  sessions: 3,
  threads: [{ alive: true, eventLoopLagMs: 1 }],
  ports: { free: 9 },
  faults: 4,
  threadsReplaced: 1,
  late: { garbageCollection: 1, waitingForCore: 2, ownWork: 0, stopped: 0 },
  foreignPackets: 7,
  malformedPackets: 2,
};
const sip = {
  connected: true,
  counters: () => ({ incomingCalls: 5, activeLegs: 6, registrations: 0, refused: { blocked_source: 8 } }),
};
const metrics = (redis: Parts['redis'] = null) =>
  createMetrics({
    sip: sip as unknown as Parts['sip'],
    media: { load: () => load } as unknown as Parts['media'],
    live: { count: 2 } as unknown as Parts['live'],
    rejected: { counts: new Map([['not_found', 11]]) } as unknown as Parts['rejected'],
    shed: async () => ({ overload: 12 }),
    unwrittenRecords: () => 0,
    callsFromMemory: () => 0,
    writersReplaced: () => 0,
    callsExpired: () => 0,
    redis,
  });

it('what ends in _total is a counter, what does not is none, and reading counts nothing twice', async () => {
  const registry = metrics();
  await registry.metrics();
  const text = await registry.metrics();
  const types = [...text.matchAll(/^# TYPE (trunkline_\w+) (\w+)$/gm)].map(([, name = '', type]) => ({ name, type }));
  expect(types.length).toBeGreaterThan(14);
  for (const { name, type } of types) expect([name, type === 'counter']).toEqual([name, name.endsWith('_total')]);
  expect(text).toContain('trunkline_sip_incoming_calls_total 5\n');
  expect(text).toContain('trunkline_sip_refused_total{reason="blocked_source"} 8\n');
  expect(text).toContain('trunkline_sip_shed_total{reason="overload"} 12\n');
  expect(text).toContain('trunkline_media_late_total{cause="waiting_for_core"} 2\n');
  expect(text).toContain('trunkline_invites_rejected_total{cause="not_found"} 11\n');
  expect(text).toContain('trunkline_media_faults_total 4\n');
  expect(text).toContain('trunkline_calls_live 2\n');
});

it('says whether Redis counts, where there is one', async () => {
  expect(await metrics().metrics()).not.toContain('redis');
  expect(await metrics({ answers: false }).metrics()).toContain('trunkline_redis_answers 0\n');
});
