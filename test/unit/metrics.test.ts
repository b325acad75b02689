import { readFileSync } from 'node:fs';
import path from 'node:path';
import { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { Histograms } from '../../src/histograms.js';
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
const metrics = (redis: Parts['redis'] = null, media: object = load) =>
  createMetrics({
    sip: sip as unknown as Parts['sip'],
    media: { load: () => media } as unknown as Parts['media'],
    live: { count: 2 } as unknown as Parts['live'],
    rejected: { counts: new Map([['not_found', 11]]) } as unknown as Parts['rejected'],
    shed: async () => ({ overload: 12 }),
    unwrittenRecords: () => 0,
    callsFromMemory: () => 0,
    writersReplaced: () => 0,
    callsExpired: () => 0,
    leaseAgeMs: () => 1_500,
    sipThreadLagMs: async () => 3,
    histograms: new Histograms(),
    spansDropped: () => 0,
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

/** Names of metrics in PromQL: words that are neither a function, a label nor in a string. */
function namesIn(expression: string): string[] {
  const bare = expression.replace(/"[^"]*"|\{[^}]*\}|\b(?:by|ignoring|on)\s*\([^)]*\)|\[[^\]]*\]/g, ' ');
  return [...bare.matchAll(/\b[a-z_][a-z0-9_]*\b(?!\s*\()/gi)]
    .map(([name]) => name)
    .filter((name) => !['or', 'and', 'unless', 'up', 'by', 'sum', 'max', 'min'].includes(name));
}

describe('every metric of', () => {
  const folder = path.resolve(import.meta.dirname, '../../config/monitoring');
  const dashboard = JSON.parse(readFileSync(path.join(folder, 'grafana/dashboards/trunkline.json'), 'utf8')) as {
    panels: { targets: { expr: string }[] }[];
  };
  const alerts = parse(readFileSync(path.join(folder, 'alerts.yml'), 'utf8')) as {
    groups: { rules: { expr: string }[] }[];
  };
  const asked = {
    'the dashboard': dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
    'the alerts': alerts.groups.flatMap(({ rules }) => rules.map(({ expr }) => expr)),
  };
  const server = { name: 'fs', connected: true, drained: false, problem: null, channels: 1 };

  it.each(Object.entries(asked))('%s is one of GET /metrics', async (_of, expressions) => {
    const text = await metrics({ answers: true }, { ...load, servers: [server] }).metrics();
    const given = new Set(
      [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].flatMap(([, name = '', type]) =>
        type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
      ),
    );
    expect(expressions.length).toBeGreaterThan(10);
    for (const expression of expressions)
      expect([expression, namesIn(expression).length > 0 || /^up\{/.test(expression)]).toEqual([expression, true]);
    expect(expressions.flatMap(namesIn).filter((name) => !given.has(name))).toEqual([]);
  });
});

it('observes what an ended call left, in seconds', async () => {
  const histograms = new Histograms();
  histograms.ended({
    ...{ id: 'c', sipCallId: 's', trunkId: null, direction: 'inbound', status: 'completed' },
    ...{ cause: 'normal_clearing', source: 'caller', durationSec: 9, ringSec: 1 },
    timings: { setupMs: 150 },
    ...{ startedAt: new Date(0), admittedAt: null, completedAt: new Date(9_000) },
    agentConnects: [{ kind: 'websocket', provider: 'raw', endpointId: 'e', readyAt: new Date(0), ms: 40 }],
    quality: { audio_delay: { caller_network: null, gateway_uplink: { p50_ms: 1, p95_ms: 4, worst_ms: 9 } } },
    turns: [
      { startedAt: '', speaker: 'caller', durationMs: 1, responseMs: 900 },
      { startedAt: '', speaker: 'agent', durationMs: 1, responseMs: 700 },
    ],
  });
  const registry = new Registry();
  histograms.register(registry, { hasRedis: false });
  const text = await registry.metrics();
  expect(text).toContain('trunkline_call_setup_seconds_bucket{le="0.1",direction="inbound"} 0\n');
  expect(text).toContain('trunkline_call_setup_seconds_bucket{le="0.2",direction="inbound"} 1\n');
  expect(text).toContain('trunkline_agent_connect_seconds_sum{kind="websocket"} 0.04\n');
  expect(text).toContain('trunkline_turn_response_seconds_sum 0.7\n');
  expect(text).toContain('trunkline_call_audio_delay_seconds_sum{hop="gateway_uplink"} 0.004\n');
  expect(text).not.toContain('hop="caller_network"');
});

it('says whether Redis counts, where there is one', async () => {
  expect(await metrics().metrics()).not.toContain('redis');
  expect(await metrics({ answers: false }).metrics()).toContain('trunkline_redis_answers 0\n');
});
