import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dayMs } from '../../src/store/calls/call-counts.js';
import type { Turn } from '../../src/store/calls/call-records.js';
import { type TestApi, testApi } from '../support/api.js';
import { openStore } from '../support/open-store.js';

/** Insights against what the calls themselves say, computed here by sorting. */

const endpoints = ['0198aaaa-0000-7000-8000-00000000000a', '0198aaaa-0000-7000-8000-00000000000b'];
const trunk = '0198aaaa-0000-7000-8000-00000000000c';
interface Made {
  id: string;
  day: string;
  endpointId: string | null;
  trunkId: string | null;
  answered: boolean;
  mos: number | null;
  responses: number[];
}
let api: TestApi;
const made: Made[] = [];
let seed = 7;
const random = () => {
  seed = (seed * 48_271) % 2_147_483_647;
  return seed / 2_147_483_647;
};

beforeAll(async () => {
  api = await testApi();
  const today = Date.UTC(2026, 0, 15);
  for (let i = 0; i < 300; i += 1) {
    // Many at the edges of days.
    const createdAt = new Date(today - Math.floor(random() * 5) * dayMs + ([0, dayMs - 1][i % 3] ?? random() * dayMs));
    const organizationId = i % 10 === 9 ? api.b.organizationId : api.a.organizationId;
    const answered = random() < 0.7;
    const endpointId = endpoints[i % 3] ?? null;
    const trunkId = i % 2 ? trunk : null;
    const mos = answered && i % 5 ? Math.round((3 + random() * 1.4) * 100) / 100 : null;
    const turns: Turn[] = !answered
      ? []
      : Array.from({ length: Math.floor(random() * 6) }, (_, n) => ({
          startedAt: createdAt.toISOString(),
          speaker: n % 2 ? 'agent' : 'caller',
          durationMs: 500,
          responseMs: n === 0 ? null : Math.round(random() ** 3 * 20_000),
        }));
    const scope = { organizationId, mode: i % 17 === 16 ? ('test' as const) : ('live' as const) };
    const id = api.store.calls.begin({
      ...scope,
      direction: 'inbound',
      fromNumber: 'x',
      toNumber: 'y',
      phoneNumberId: '0198aaaa-0000-7000-8000-000000000001',
      endpointId,
      trunkId,
      createdAt,
    });
    if (i % 20 === 19) continue; // still runs
    if (answered) api.store.calls.answered(id, { answeredAt: createdAt, latencyMs: 10 });
    api.store.calls.finish(id, {
      status: answered ? 'completed' : 'busy',
      hangupCause: 'normal_clearing',
      hangupSource: 'caller',
      durationSec: 1,
      ...(mos === null ? {} : { quality: { mos } }),
      turns,
    });
    if (organizationId === api.b.organizationId || scope.mode === 'test') continue;
    const responses = turns.flatMap((t) => (t.speaker === 'agent' && t.responseMs !== null ? [t.responseMs] : []));
    made.push({ id, day: createdAt.toISOString().slice(0, 10), endpointId, trunkId, answered, mos, responses });
  }
  for (const gone of made.splice(0, 20)) expect((await api.request('DELETE', `/v1/calls/${gone.id}`)).status).toBe(204);
});
afterAll(() => api.close());

const at = (sorted: number[], share: number) => sorted[Math.ceil(share * sorted.length) - 1] ?? Number.NaN;

/** biome-ignore lint/suspicious/noExplicitAny: the body of an answer */
function expectTrue(told: any, calls: Made[]) {
  expect(told.calls).toBe(calls.length);
  const answered = calls.filter((call) => call.answered).length;
  expect(told.answered).toBe(answered);
  if (calls.length === 0) expect(told.answer_rate).toBeNull();
  else expect(told.answer_rate).toBeCloseTo(answered / calls.length, 4);
  const mos = calls.flatMap((call) => (call.mos === null ? [] : [call.mos])).sort((a, b) => a - b);
  if (mos.length === 0) expect(told.mos).toBeNull();
  else {
    expect(told.mos).toEqual({
      count: mos.length,
      p5: at(mos, 0.05),
      p50: at(mos, 0.5),
      p95: at(mos, 0.95),
      p99: at(mos, 0.99),
    });
  }
  const responses = calls.flatMap((call) => call.responses).sort((a, b) => a - b);
  if (responses.length === 0) expect(told.turn_latency_ms).toBeNull();
  else {
    expect(told.turn_latency_ms.count).toBe(responses.length);
    for (const [name, share] of [
      ['p5', 0.05],
      ['p50', 0.5],
      ['p95', 0.95],
      ['p99', 0.99],
    ] as const) {
      const truth = at(responses, share);
      expect(Math.abs(told.turn_latency_ms[name] - truth), `${name} ${truth}`).toBeLessThanOrEqual(
        Math.max(5, truth * 0.025),
      );
    }
  }
}

describe('GET /v1/calls/insights', () => {
  it('says what the calls say: together, by day, by endpoint, by trunk', async () => {
    const { body } = await api.request('GET', '/v1/calls/insights');
    expect([body.start_date, body.end_date, body.by_day.length]).toEqual(['2025-12-17', '2026-01-15', 30]);
    expectTrue(body.total, made);
    for (const day of body.by_day)
      expectTrue(
        day,
        made.filter((call) => call.day === day.date),
      );
    expect(body.by_endpoint.map((each: { endpoint_id: string }) => each.endpoint_id).sort()).toEqual(endpoints);
    for (const each of body.by_endpoint)
      expectTrue(
        each,
        made.filter((call) => call.endpointId === each.endpoint_id),
      );
    expect(body.by_trunk).toHaveLength(1);
    expectTrue(
      body.by_trunk[0],
      made.filter((call) => call.trunkId === trunk),
    );
  });

  it('takes days like trends do', async () => {
    const one = await api.request('GET', '/v1/calls/insights?start_date=2026-01-14&end_date=2026-01-14');
    expectTrue(
      one.body.total,
      made.filter((call) => call.day === '2026-01-14'),
    );
    expect(one.body.by_day).toHaveLength(1);
    for (const query of ['start_date=2026-01-15&end_date=2026-01-14', 'start_date=2024-01-01&end_date=2026-01-01']) {
      const refused = await api.request('GET', `/v1/calls/insights?${query}`);
      expect([refused.status, refused.body.code], query).toEqual([400, 'VALIDATION_ERROR']);
    }
  });

  it('counts calls that were there before it was', async () => {
    const before = await api.rows('select * from call_insights where n > 0');
    await api.write('delete from call_insights; drop table call_insights; drop table installation_secrets');
    for (const trigger of ['insert', 'end', 'delete'])
      await api.write(`drop trigger if exists call_insights_${trigger}`);
    await api.write("delete from schema_migrations where name = '0006-rest'");
    await (await openStore({ file: api.file, clock: api.clock })).close();
    expect(await api.rows('select * from call_insights where n > 0')).toEqual(before);
  });
});

describe('where calls are delayed', () => {
  it('is counted by the p95 of each hop, by endpoint, and leaves with the call', async () => {
    const hop = (p95: number) => ({ p50_ms: 1, p95_ms: p95, worst_ms: p95 });
    const endpointId = endpoints[0] as string;
    const ids = [5, 30, 812].map((ms) => {
      const id = api.store.calls.begin({
        ...{ organizationId: api.a.organizationId, mode: 'live', direction: 'inbound', fromNumber: 'x', toNumber: 'y' },
        ...{ phoneNumberId: '0198aaaa-0000-7000-8000-000000000001', endpointId, trunkId: null },
        createdAt: new Date(Date.UTC(2026, 0, 14)),
      });
      api.store.calls.finish(id, {
        ...{ status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 1 },
        quality: { audio_delay: { caller_network: hop(ms), gateway_uplink: hop(2), gateway_playout: null } },
        turns: [],
      });
      return id;
    });
    const delay = async () => {
      const { body } = await api.request('GET', '/v1/calls/insights');
      return body.by_endpoint.find((each: { endpoint_id: string }) => each.endpoint_id === endpointId).audio_delay;
    };
    expect(await delay()).toMatchObject({
      caller_network_ms: { count: 3, p5: 5, p50: 30, p95: 810 },
      gateway_uplink_ms: { count: 3, p50: 2 },
      gateway_playout_ms: null,
    });
    for (const id of ids) expect((await api.request('DELETE', `/v1/calls/${id}`)).status).toBe(204);
    expect((await delay()).caller_network_ms).toBeNull();
  });
});
