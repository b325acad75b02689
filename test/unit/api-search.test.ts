import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CallSearch } from '../../src/store/calls/call-search.js';
import { ReadOnlyDatabase } from '../../src/store/sqlite/read-only-database.js';
import { type TestApi, testApi } from '../support/api.js';

/** Searches against filtering the same calls here. */

const dayMs = 86_400_000;
const midnight = Date.UTC(2026, 0, 15);
const endpoints = ['0198aaaa-0000-7000-8000-00000000000a', '0198aaaa-0000-7000-8000-00000000000b', null];
const statuses = ['completed', 'failed', 'no_answer', 'busy'] as const;
const causes = {
  completed: 'normal_clearing',
  failed: 'agent_error',
  no_answer: 'no_answer',
  busy: 'user_busy',
} as const;

interface Made {
  id: string;
  from: string;
  to: string;
  direction: 'inbound' | 'outbound';
  status: (typeof statuses)[number];
  endpointId: string | null;
  seconds: number;
  transcript: string | null;
  atMs: number;
}
let api: TestApi;
const made: Made[] = [];
let seed = 11;
const random = (below: number) => {
  seed = (seed * 48_271) % 2_147_483_647;
  return seed % below;
};

beforeAll(async () => {
  api = await testApi();
  for (let i = 0; i < 260; i += 1) {
    const call = {
      from: i % 13 === 0 ? 'sip:100%_a@pbx' : `+1202555${1000 + random(40)}`,
      to: `+4930${random(30)}`,
      direction: i % 3 === 0 ? ('outbound' as const) : ('inbound' as const),
      status: statuses[random(4)] ?? 'completed',
      endpointId: endpoints[random(3)] ?? null,
      seconds: random(300),
      transcript: [null, 'caller: A Table for two', 'agent: 100% sure_ly', 'caller: no'][random(4)] ?? null,
      atMs: midnight - random(4) * dayMs + (i % 9 === 0 ? 0 : random(dayMs)),
    };
    const organizationId = i % 10 === 9 ? api.b.organizationId : api.a.organizationId;
    const id = api.store.calls.begin({
      ...{ organizationId, mode: i % 17 === 16 ? 'test' : 'live', direction: call.direction },
      ...{ fromNumber: call.from, toNumber: call.to, phoneNumberId: '0198aaaa-0000-7000-8000-000000000001' },
      ...{ endpointId: call.endpointId, createdAt: new Date(call.atMs) },
    });
    api.store.calls.finish(id, {
      ...{ status: call.status, hangupCause: causes[call.status], hangupSource: 'caller' },
      ...{ durationSec: call.seconds, transcript: call.transcript },
    });
    if (i % 10 !== 9 && i % 17 !== 16) made.push({ id, ...call });
  }
  await api.store.calls.flush();
  made.sort((a, b) => b.atMs - a.atMs || (a.id < b.id ? 1 : -1));
});
afterAll(() => api.close());

async function pages(query: string, limit: number): Promise<string[]> {
  const ids: string[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const at: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
    const { status, body } = await api.request('GET', `/v1/calls/search?limit=${limit}&${query}${at}`);
    expect(status).toBe(200);
    ids.push(...body.data.map(({ id }: { id: string }) => id));
    cursor = body.next_cursor;
  }
  return ids;
}

const minuteOf = ({ atMs }: Made) => Math.floor((atMs % dayMs) / 60_000);
const isOf = (call: Made, ...numbers: string[]) =>
  numbers.some((number) => call.from.startsWith(number) || call.to.startsWith(number));
const questions: Record<string, (call: Made) => boolean> = {
  '': () => true,
  'status=failed': ({ status }) => status === 'failed',
  'direction=outbound': ({ direction }) => direction === 'outbound',
  [`endpoint_id=${endpoints[0]}`]: ({ endpointId }) => endpointId === endpoints[0],
  'hangup_cause=user_busy': ({ status }) => status === 'busy',
  'min_duration=50&max_duration=60': ({ seconds }) => seconds >= 50 && seconds <= 60,
  'number=%2B120255510': (call) => isOf(call, '+120255510'),
  'number=1202555101': (call) => isOf(call, '+1202555101'),
  'number=%2B1%20(202)%20555-1012': (call) => isOf(call, '+12025551012'),
  'number=49302&direction=inbound&status=completed': (call) =>
    isOf(call, '+49302') && call.direction === 'inbound' && call.status === 'completed',
  'number=sip%3A100%25_': (call) => isOf(call, 'sip:100%_'),
  'number=%25': () => false,
  'text=a%20table': ({ transcript }) => transcript?.toLowerCase().includes('a table') ?? false,
  'text=100%25': ({ transcript }) => transcript?.includes('100%') ?? false,
  'text=e_l': ({ transcript }) => transcript?.includes('e_l') ?? false,
  'start_date=2026-01-13&end_date=2026-01-14': ({ atMs }) => atMs >= midnight - 2 * dayMs && atMs < midnight,
  'from_time=08:00&until_time=17:30': (call) => minuteOf(call) >= 480 && minuteOf(call) < 1_050,
  'from_time=22:00&until_time=06:00': (call) => minuteOf(call) >= 1_320 || minuteOf(call) < 360,
  'from_time=12:00': (call) => minuteOf(call) >= 720,
  'until_time=00:01': (call) => minuteOf(call) < 1,
};

describe('a search', () => {
  it.each(Object.entries(questions))(
    'for "%s" finds what filtering finds, in order, page by page',
    async (query, meets) => {
      const expected = made.filter(meets).map(({ id }) => id);
      expect(await pages(query, 7)).toEqual(expected);
      expect(await pages(query, 500)).toEqual(expected);
      if (!query.includes('%25&') && query !== 'number=%25') expect(expected.length).toBeGreaterThan(0);
    },
  );

  it('is not shifted by calls that begin between two pages', async () => {
    const first = (await api.request('GET', '/v1/calls/search?limit=20')).body;
    const id = api.store.calls.begin({
      ...{ organizationId: api.a.organizationId, mode: 'live', direction: 'inbound', fromNumber: '+1', toNumber: '+2' },
      ...{
        phoneNumberId: '0198aaaa-0000-7000-8000-000000000001',
        endpointId: null,
        createdAt: new Date(midnight + 2 * dayMs),
      },
    });
    const second = (await api.request('GET', `/v1/calls/search?limit=20&cursor=${first.next_cursor}`)).body;
    expect(second.data.map((call: { id: string }) => call.id)).toEqual(made.slice(20, 40).map((call) => call.id));
    api.store.calls.finish(id, {
      status: 'failed',
      hangupCause: 'agent_error',
      hangupSource: 'system',
      durationSec: 0,
    });
    await api.request('DELETE', `/v1/calls/${id}`);
  });

  it.each(['cursor=x', 'from_time=24:00', 'min_duration=-1', 'limit=501', 'text=a', 'colour=red'])(
    'with %s is refused',
    async (query) => expect((await api.request('GET', `/v1/calls/search?${query}`)).status).toBe(400),
  );

  it('finds the same when a number has too many calls for its index', async () => {
    const database = new ReadOnlyDatabase(api.file);
    const scope = { organizationId: api.a.organizationId, mode: 'live' } as const;
    const of = async (most: number, number: string) =>
      (await new CallSearch(database, most).find(scope, { number }, null, 1_000)).map(({ id }) => id);
    for (const number of ['+1', '1202', '+4930', 'sip:100%_', 'Ä', '9'])
      expect(await of(2, number)).toEqual(await of(5_000, number));
    expect(await of(2, '+4930')).toHaveLength(made.length);
  });
});

describe('an export', () => {
  it('has the same calls as CSV, quoted, and harmless to a spreadsheet', async () => {
    const formula = api.store.calls.begin({
      ...{
        organizationId: api.a.organizationId,
        mode: 'live',
        direction: 'inbound',
        fromNumber: '=cmd|"x",y',
        toNumber: '+2',
      },
      ...{
        phoneNumberId: '0198aaaa-0000-7000-8000-000000000001',
        endpointId: null,
        createdAt: new Date(midnight + 3 * dayMs),
      },
    });
    const { status, text, headers } = await api.request('GET', '/v1/calls/export');
    expect(status).toBe(200);
    expect(headers['content-type']).toBe('text/csv; charset=utf-8');
    expect(headers['content-disposition']).toBe('attachment; filename="calls.csv"');
    const [head, first, ...others] = text.split('\r\n');
    expect(head).toMatch(/^id,created_at,/);
    expect(first).toContain(`"'=cmd|""x"",y",+2,`);
    expect(others.filter((line) => line !== '').map((line) => line.split(',')[0])).toEqual(made.map(({ id }) => id));
    const some = (await api.request('GET', '/v1/calls/export?status=busy&number=%2B4930')).text.trimEnd().split('\r\n');
    expect(some).toHaveLength(1 + made.filter((call) => call.status === 'busy').length);
    api.store.calls.finish(formula, {
      status: 'failed',
      hangupCause: 'agent_error',
      hangupSource: 'system',
      durationSec: 0,
    });
  });
});
