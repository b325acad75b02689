import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { costOf } from '../../src/billing/rate.js';
import type { OutboundCall } from '../../src/call/core/outbound-request.js';
import type { OrganizationLimits } from '../../src/store/tenants/organizations.js';
import { type TestApi, testApi } from '../support/api.js';

let api: TestApi;
let started: OutboundCall[];
let refusal: 'no_trunk' | 'shutting_down' | null;
let endpointId: string;

beforeEach(async () => {
  started = [];
  refusal = null;
  api = await testApi({ outboundCalls: { refusal: () => refusal, start: (call) => started.push(call) } });
  const scope = { organizationId: api.a.organizationId, mode: 'live' } as const;
  const of = {
    name: 'E',
    type: 'agent',
    target: 'wss://agent.example.com',
    provider: 'custom',
    providerConfig: {},
  } as const;
  endpointId = (await api.store.endpoints.create(scope, of)).record.id;
  await api.store.phoneNumbers.create(scope, { number: '+15551112222', endpointId });
});
afterEach(() => api.close());

const body = (over: object = {}) => ({
  to_number: '+49 (30) 123-4567',
  from_number: '+15551112222',
  endpoint_id: endpointId,
  ...over,
});
const post = (over: object = {}, options: object = {}) =>
  api.request('POST', '/v1/outbound-calls', { body: body(over), ...options });
const codeOf = async (over: object = {}, options: object = {}) => {
  const answer = await post(over, options);
  return [answer.status, answer.body.code];
};
const limit = (limits: Partial<OrganizationLimits>) => api.store.organizations.update(api.a.organizationId, { limits });
const outboundRate = (centsPerMinute: number) =>
  api.store.accounts.setRates(api.a.organizationId, [
    {
      direction: 'outbound',
      prefix: '',
      microcentsPerMinute: centsPerMinute * 1e6,
      initialIncrementSec: 60,
      incrementSec: 60,
    },
  ]);
const live = () => ({ organizationId: api.a.organizationId, mode: 'live' }) as const;
const finish = (id: string, durationSec: number) =>
  api.store.calls.finish(id, {
    status: 'completed',
    hangupCause: 'normal_clearing',
    hangupSource: 'caller',
    durationSec,
  });

describe('POST /v1/outbound-calls', () => {
  it('writes the record, answers it and hands the call over', async () => {
    const answering = {
      machine_detection: 'detect',
      on_screening: 'press',
      press_keys: '1w2',
      wait_for_detection: true,
    };
    const answer = await post({ metadata: { order: 7 }, ring_timeout: 20, record: true, ...answering });
    expect(answer.status).toBe(201);
    expect(answer.headers.location).toBe(`/v1/calls/${answer.body.id}`);
    expect(Object.keys(answer.body)).toHaveLength(16);
    expect(answer.body).toMatchObject({
      direction: 'outbound',
      status: 'in_progress',
      to_number: '+49301234567',
      from_number: '+15551112222',
      endpoint_id: endpointId,
      cost: 0,
    });
    expect(started).toEqual([
      expect.objectContaining({
        toNumber: '+49301234567',
        ringTimeoutMs: 20_000,
        maxDurationMs: 14_400_000,
        ...{ machineDetection: 'detect', onScreening: 'press', pressKeys: '1w2', waitsForMachine: true },
        metadata: { order: 7 },
        record: true,
      }),
    ]);
    expect(started[0]?.begun).toMatchObject({ id: answer.body.id, funds: null });
    const detail = await api.request('GET', `/v1/calls/${answer.body.id}`);
    expect(detail.body.metadata).toEqual({ order: 7 });
    expect(detail.body.events.map((event: { event_type: string }) => event.event_type)).toEqual(['call.initiated']);
  });

  it('refuses in order, and makes no record', async () => {
    expect(await codeOf({ to_number: undefined })).toEqual([400, 'VALIDATION_ERROR']);
    expect((await post({ to_number: '12' })).body).toMatchObject({
      code: 'INVALID_PHONE_NUMBER',
      details: { field: 'to_number', value: '12' },
    });
    expect(await codeOf({ ring_timeout: 4 })).toEqual([400, 'VALIDATION_ERROR']);
    expect(await codeOf({ metadata: { big: 'x'.repeat(9_000) } })).toEqual([400, 'VALIDATION_ERROR']);
    expect(await codeOf({ endpoint_id: api.a.userId, from_number: '+15559999999' })).toEqual([404, 'NOT_FOUND']);
    expect(await codeOf({}, { key: api.b.key })).toEqual([404, 'NOT_FOUND']);
    await limit({ allowed_prefixes: ['+1'] });
    expect(await codeOf({ from_number: '+15559999999' })).toEqual([403, 'CALLER_ID_NOT_ALLOWED']);
    await api.store.endpoints.update(live(), endpointId, { status: 'inactive' });
    expect(await codeOf()).toEqual([403, 'DESTINATION_NOT_ALLOWED']);
    await limit({ allowed_prefixes: null, concurrent_calls: 1 });
    await outboundRate(10);
    await api.store.accounts.credit(api.a.organizationId, 5, '');
    expect((await post()).body).toMatchObject({ code: 'ENDPOINT_INACTIVE', details: { endpoint_id: endpointId } });
    await api.store.endpoints.update(live(), endpointId, { status: 'active' });
    const poor = await post();
    expect([poor.status, poor.body.code, poor.body.details]).toEqual([
      402,
      'INSUFFICIENT_BALANCE',
      { balance: 5, required: 10 },
    ]);
    await api.store.accounts.credit(api.a.organizationId, 95, '');
    refusal = 'no_trunk';
    expect(await codeOf()).toEqual([503, 'NO_TRUNK_AVAILABLE']);
    refusal = 'shutting_down';
    expect(await codeOf()).toEqual([503, 'SHUTTING_DOWN']);
    expect((await api.request('GET', '/v1/calls')).body.total).toBe(0);
    expect(await api.store.accounts.balance(api.a.organizationId)).toEqual({ microcents: 100e6, heldMicrocents: 0 });
    refusal = null;
    expect((await post()).status).toBe(201);
    const capped = await post();
    expect([capped.status, capped.body.code, capped.headers['retry-after']]).toEqual([
      429,
      'CONCURRENCY_LIMIT_EXCEEDED',
      '5',
    ]);
    await limit({ concurrent_calls: null, daily_spend_cents: 15 });
    expect(await codeOf()).toEqual([402, 'SPEND_LIMIT_EXCEEDED']);
    await limit({ daily_spend_cents: null, calls_per_second: 1 });
    expect(await codeOf()).toEqual([201, undefined]);
    expect(await codeOf()).toEqual([429, 'CALLS_PER_SECOND_EXCEEDED']);
    api.clock.advance(1_000);
    expect((await post()).status).toBe(201);
  });

  it('takes the test number from test keys, free of charge', async () => {
    const key = await api.addKey({ organizationId: api.a.organizationId, mode: 'test' });
    const scope = { organizationId: api.a.organizationId, mode: 'test' } as const;
    const of = {
      name: 'E',
      type: 'agent',
      target: 'wss://a.example.com',
      provider: 'custom',
      providerConfig: {},
    } as const;
    const { record } = await api.store.endpoints.create(scope, of);
    await outboundRate(10);
    await api.store.accounts.credit(api.a.organizationId, 1, '');
    const answer = await post({ from_number: '+15005550006', endpoint_id: record.id }, { key });
    expect([answer.status, answer.body.from_number]).toEqual([201, '+15005550006']);
    expect(await codeOf({ from_number: '+15005550006' })).toEqual([403, 'CALLER_ID_NOT_ALLOWED']);
    expect(await codeOf({ endpoint_id: record.id })).toEqual([404, 'NOT_FOUND']);
  });

  it('is carried out once per Idempotency-Key', async () => {
    const headers = { 'idempotency-key': 'order-7' };
    const answers = [await post({}, { headers }), await post({}, { headers }), await post({}, { headers })];
    expect(new Set(answers.map(({ status, body }) => `${status} ${body.id}`)).size).toBe(1);
    expect(answers.map(({ headers }) => headers['idempotent-replayed'])).toEqual([undefined, 'true', 'true']);
    expect(answers.every(({ headers, body }) => headers.location === `/v1/calls/${body.id}`)).toBe(true);
    expect(started).toHaveLength(1);
    expect(await codeOf({ ring_timeout: 30 }, { headers })).toEqual([409, 'IDEMPOTENCY_KEY_REUSED']);
    expect(await codeOf({}, { headers: { 'idempotency-key': 'x'.repeat(256) } })).toEqual([400, 'VALIDATION_ERROR']);
    const { to_number, ...rest } = body();
    const reordered = await api.request('POST', '/v1/outbound-calls', { body: { ...rest, to_number }, headers });
    expect(reordered.body.id).toBe(answers[0]?.body.id);
    // Another operation, another organization: another key.
    const trunk = { name: 'T', addresses: ['192.0.2.1'] };
    expect((await api.request('POST', '/v1/trunks', { body: trunk, headers })).status).toBe(201);
    expect(
      (await api.request('POST', '/v1/trunks', { body: trunk, headers, key: api.b.key })).headers,
    ).not.toHaveProperty('idempotent-replayed');
    api.clock.set(api.clock.now() + 86_400_001);
    expect((await post({}, { headers })).body.id).not.toBe(answers[0]?.body.id);
  });

  it('keeps nothing of what was refused, and no secret in clear', async () => {
    const headers = { 'idempotency-key': 'again' };
    refusal = 'no_trunk';
    expect(await codeOf({}, { headers })).toEqual([503, 'NO_TRUNK_AVAILABLE']);
    refusal = null;
    expect(await codeOf({}, { headers })).toEqual([201, undefined]);
    const key = { name: 'K', mode: 'live' };
    const first = await api.request('POST', '/v1/api-keys', { body: key, headers });
    const second = await api.request('POST', '/v1/api-keys', { body: key, headers });
    const { key: secret, ...record } = first.body;
    expect(second.body).toEqual(record);
    const kept = await api.rows('select * from idempotency_keys');
    expect(kept).toHaveLength(2);
    expect(JSON.stringify(kept)).not.toContain(secret);
    expect(JSON.stringify(kept)).not.toContain('again');
  });
});

describe('money', () => {
  it('never runs out below zero, however many calls start at once', async () => {
    await outboundRate(10);
    await api.store.accounts.credit(api.a.organizationId, 105, '');
    const answers = await Promise.all(Array.from({ length: 50 }, () => post()));
    const placed = answers.filter(({ status }) => status === 201);
    expect(placed).toHaveLength(10);
    expect(answers.filter(({ status }) => status === 402)).toHaveLength(40);
    for (const { body } of placed) finish(body.id, 3_600); // longer than was ever held
    await api.store.calls.flush();
    expect(await api.store.accounts.balance(api.a.organizationId)).toEqual({ microcents: 5e6, heldMicrocents: 0 });
  });

  it('is held, extended while the call runs, and settled at its end', async () => {
    await outboundRate(10);
    await api.store.accounts.credit(api.a.organizationId, 25, 'first');
    const { body: call } = await post();
    const funds = started[0]?.begun.funds;
    expect(funds?.fundedSec).toBe(60);
    expect((await api.store.accounts.balance(api.a.organizationId)).heldMicrocents).toBe(10e6);
    expect(await funds?.extend()).toBe(120);
    expect(await funds?.extend()).toBe(120); // 5 cents do not pay for another minute
    finish(call.id, 61);
    const detail = (await api.request('GET', `/v1/calls/${call.id}`)).body;
    expect(detail.cost).toBe(20);
    expect(detail.events.map((event: { event_type: string }) => event.event_type)).toEqual([
      'call.initiated',
      'balance.reserved',
      'call.completed',
      'call.cost_settled',
    ]);
    expect(detail.events.at(-1).event_data).toEqual({ cost: 20, duration: 61 });
    const ledger = (await api.request('GET', `/v1/organizations/${api.a.organizationId}/ledger`)).body.data;
    expect(
      ledger.map((entry: { amount_cents: number; balance_cents: number }) => [entry.amount_cents, entry.balance_cents]),
    ).toEqual([
      [-20, 5],
      [25, 25],
    ]);
    const organization = await api.request('GET', `/v1/organizations/${api.a.organizationId}`);
    expect(organization.body).toMatchObject({ balance_cents: 5, held_cents: 0 });
  });

  it('is not touched by a call that nobody answered', async () => {
    await outboundRate(10);
    await api.store.accounts.credit(api.a.organizationId, 25, '');
    const { body: call } = await post();
    finish(call.id, 0);
    await api.store.calls.flush();
    expect(await api.store.accounts.balance(api.a.organizationId)).toEqual({ microcents: 25e6, heldMicrocents: 0 });
  });

  it('is settled for a call whose process died', async () => {
    await outboundRate(10);
    await api.store.accounts.credit(api.a.organizationId, 100, '');
    const { body: call } = await post();
    api.store.calls.answered(call.id, { latencyMs: 1 });
    await api.store.calls.flush();
    await api.write("update calls set instance_id = 'gone', answered_at = answered_at - 90000");
    await api.store.closeOrphans();
    const detail = (await api.request('GET', `/v1/calls/${call.id}`)).body;
    expect([detail.status, detail.hangup_cause, detail.cost]).toEqual(['failed', 'system_restart', 10]); // what was held
    expect(detail.events.at(-1).event_type).toBe('call.cost_settled');
    expect(await api.store.accounts.balance(api.a.organizationId)).toEqual({ microcents: 90e6, heldMicrocents: 0 });
  });

  it('is counted in whole increments, rounded up once', () => {
    const rate = { microcentsPerMinute: 1_000_001, initialIncrementSec: 30, incrementSec: 6 };
    expect([0, 1, 30, 31, 36, 37].map((sec) => costOf(rate, sec))).toEqual([
      0, 500_001, 500_001, 600_001, 600_001, 700_001,
    ]);
  });
});
