import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type TestApi, testApi } from '../support/api.js';

let api: TestApi;
const numberId = '0198aaaa-0000-7000-8000-000000000001';
const otherNumberId = '0198aaaa-0000-7000-8000-000000000002';

beforeEach(async () => {
  api = await testApi();
});
afterEach(() => api.close());

const begin = (over: object = {}) =>
  api.store.calls.begin({
    organizationId: api.a.organizationId,
    mode: 'live',
    direction: 'inbound',
    fromNumber: '+15551230000',
    toNumber: '+15550100',
    phoneNumberId: numberId,
    endpointId: null,
    createdAt: new Date(api.clock.now()),
    ...over,
  });
const end = { status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 3 } as const;
const finished = (over: object = {}, how: object = {}) => {
  const id = begin(over);
  api.store.calls.finish(id, { ...end, ...how });
  return id;
};
const get = (url: string, options = {}) => api.request('GET', url, options);
const day = (date: string) => ({ createdAt: new Date(`${date}T23:59:59.999Z`) });

const callKeys = [
  'id',
  'from_number',
  'to_number',
  'direction',
  'status',
  'duration',
  'cost',
  'latency_ms',
  'phone_number_id',
  'endpoint_id',
  'recording_url',
  'hangup_cause',
  'organization_id',
  'created_at',
  'answered_at',
  'completed_at',
].sort();

describe('GET /v1/calls', () => {
  it('answers calls with exactly the 16 fields, newest first', async () => {
    const first = finished({}, { costMicrocents: 1_250_000 });
    api.clock.advance(1);
    const second = begin();
    const { status, body } = await get('/v1/calls');
    expect(status).toBe(200);
    expect(Object.keys(body).sort()).toEqual(['data', 'limit', 'page', 'total', 'total_pages']);
    expect(body).toMatchObject({ total: 2, page: 1, limit: 20, total_pages: 1 });
    expect(body.data.map((call: { id: string }) => call.id)).toEqual([second, first]);
    for (const call of body.data) expect(Object.keys(call).sort()).toEqual(callKeys);
    expect(body.data[1]).toEqual({
      id: first,
      from_number: '+15551230000',
      to_number: '+15550100',
      direction: 'inbound',
      status: 'completed',
      duration: 3,
      cost: 1.25,
      latency_ms: 0,
      phone_number_id: numberId,
      endpoint_id: null,
      recording_url: null,
      hangup_cause: 'normal_clearing',
      organization_id: api.a.organizationId,
      created_at: '2026-01-15T12:00:00.000Z',
      answered_at: null,
      completed_at: '2026-01-15T12:00:00.000Z',
    });
  });

  it('pages without gap or overlap, also among calls of one millisecond', async () => {
    const ids = Array.from({ length: 25 }, () => finished());
    const pages = await Promise.all([1, 2, 3, 4].map((page) => get(`/v1/calls?limit=10&page=${page}`)));
    expect(pages.map(({ body }) => body.data.length)).toEqual([10, 10, 5, 0]);
    expect(pages.map(({ body }) => body.total_pages)).toEqual([3, 3, 3, 3]);
    const seen = pages.flatMap(({ body }) => body.data.map((call: { id: string }) => call.id));
    expect(seen).toEqual([...ids].reverse());
  });

  it('answers an empty page for any page past the end', async () => {
    for (const page of ['2', '999999999999999']) {
      const { status, body } = await get(`/v1/calls?page=${page}`);
      expect([status, body.data, body.total, body.total_pages]).toEqual([200, [], 0, 0]);
    }
  });

  it('filters by status, direction and number, in list, stats and trends alike', async () => {
    finished();
    finished({ direction: 'outbound' }, { status: 'busy' });
    finished({ phoneNumberId: otherNumberId }, { status: 'busy' });
    const filters: [string, number][] = [
      ['status=busy', 2],
      ['direction=outbound', 1],
      [`phone_number_id=${otherNumberId}`, 1],
      [`phone_number_id=${otherNumberId.toUpperCase()}`, 1],
      ['status=busy&direction=inbound', 1],
      ['status=failed', 0],
    ];
    const sum = (counts: Record<string, unknown>) =>
      Object.values(counts).reduce<number>((total, value) => total + (typeof value === 'number' ? value : 0), 0);
    for (const [filter, count] of filters) {
      expect((await get(`/v1/calls?${filter}`)).body.total, filter).toBe(count);
      expect(sum((await get(`/v1/calls?action=stats&${filter}`)).body), filter).toBe(count);
      const trends = (await get(`/v1/calls?action=trends&${filter}`)).body as Record<string, unknown>[];
      expect(
        trends.map(sum).reduce((a, b) => a + b, 0),
        filter,
      ).toBe(count);
    }
  });

  it('stats has exactly the five counts', async () => {
    finished();
    finished({}, { status: 'no_answer' });
    begin();
    const { body } = await get('/v1/calls?action=stats');
    expect(body).toEqual({ completed: 1, failed: 0, in_progress: 1, no_answer: 1, busy: 0 });
  });

  it('trends are the last 30 days, ascending and zero-filled', async () => {
    finished(day('2026-01-15'));
    finished(day('2025-12-17'), { status: 'failed' });
    finished(day('2025-12-16'));
    const { body } = await get('/v1/calls?action=trends');
    expect(body).toHaveLength(30);
    expect(body[0]).toEqual({ date: '2025-12-17', completed: 0, failed: 1, in_progress: 0, no_answer: 0, busy: 0 });
    expect(body[29]).toEqual({ date: '2026-01-15', completed: 1, failed: 0, in_progress: 0, no_answer: 0, busy: 0 });
    const dates = body.map((item: { date: string }) => item.date);
    expect(dates).toEqual([...dates].sort());
    expect(body.slice(1, 29).every((item: { completed: number }) => item.completed === 0)).toBe(true);
  });

  it('takes dates as inclusive UTC days', async () => {
    finished({ createdAt: new Date('2026-01-10T00:00:00.000Z') });
    finished(day('2026-01-11'));
    finished({ createdAt: new Date('2026-01-12T00:00:00.000Z') });
    finished(day('2026-01-09'));
    expect((await get('/v1/calls?start_date=2026-01-10&end_date=2026-01-11')).body.total).toBe(2);
    expect((await get('/v1/calls?action=trends&start_date=2026-01-10&end_date=2026-01-11')).body).toHaveLength(2);
  });

  it('makes 30 days of one bound alone', async () => {
    const trends = async (query: string) => {
      const { body } = await get(`/v1/calls?action=trends&${query}`);
      return [body[0].date, body.at(-1).date, body.length];
    };
    expect(await trends('start_date=2026-01-01')).toEqual(['2026-01-01', '2026-01-30', 30]);
    expect(await trends('end_date=2026-01-30')).toEqual(['2026-01-01', '2026-01-30', 30]);
    finished(day('2026-01-31'));
    finished(day('2026-01-30'));
    expect((await get('/v1/calls?start_date=2026-01-01')).body.total).toBe(1);
  });

  it('takes 366 days of trends and no more', async () => {
    expect((await get('/v1/calls?action=trends&start_date=2024-01-01&end_date=2024-12-31')).body).toHaveLength(366);
    const refused = await get('/v1/calls?action=trends&start_date=2024-01-01&end_date=2025-01-01');
    expect([refused.status, refused.body.code]).toEqual([400, 'VALIDATION_ERROR']);
    expect((await get('/v1/calls?start_date=2024-01-01&end_date=2026-01-01')).status).toBe(200);
  });

  it.each([
    ['page=0', 'page'],
    ['page=1.5', 'page'],
    ['page=1e1', 'page'],
    ['page=', 'page'],
    ['page=1&page=2', 'page'],
    ['limit=0', 'limit'],
    ['limit=101', 'limit'],
    ['action=sum', 'action'],
    ['status=done', 'status'],
    ['direction=up', 'direction'],
    ['phone_number_id=7', 'phone_number_id'],
    ['start_date=2026-02-30', 'start_date'],
    ['start_date=2026-1-1', 'start_date'],
    ['end_date=tomorrow', 'end_date'],
    ['start_date=2026-01-02&end_date=2026-01-01', 'start_date'],
    ['statsu=busy', 'statsu'],
  ])('refuses ?%s and names the field', async (query, field) => {
    const { status, body } = await get(`/v1/calls?${query}`);
    expect([status, body.code]).toEqual([400, 'VALIDATION_ERROR']);
    expect(body.details.fields.map((problem: { path: string }) => problem.path)).toContain(field);
  });

  it('takes the bounds of page and limit', async () => {
    expect((await get('/v1/calls?limit=1')).status).toBe(200);
    expect((await get('/v1/calls?limit=100')).body.limit).toBe(100);
  });
});

describe('GET /v1/calls/{id}', () => {
  it('answers the call with exactly its fields, events in order', async () => {
    const id = begin({ sipCallId: 'abc@host', metadata: { order: 7 } });
    api.store.calls.event(id, 'call.ringing');
    api.store.calls.answered(id, { latencyMs: 40 });
    const turns = [
      { startedAt: '2026-01-15T12:00:01.000Z', speaker: 'agent' as const, durationMs: 900, responseMs: null },
    ];
    api.store.calls.finish(id, {
      ...end,
      quality: { mos: 4.3, jitter_ms: 2, packet_loss: 0.1, rtt_ms: 9 },
      timings: { setupMs: 30 },
      turns,
      transcript: 'hi',
      ringSeconds: 1,
    });
    const { status, body } = await get(`/v1/calls/${id}`);
    expect(status).toBe(200);
    const ours = ['sip_call_id', 'hangup_source', 'ring_seconds', 'timings', 'turns', 'metadata'];
    expect(Object.keys(body).sort()).toEqual([...callKeys, 'quality_metrics', 'events', 'transcript', ...ours].sort());
    expect(body).toMatchObject({
      quality_metrics: { mos: 4.3, jitter_ms: 2, packet_loss: 0.1, rtt_ms: 9 },
      transcript: 'hi',
      sip_call_id: 'abc@host',
      hangup_source: 'caller',
      ring_seconds: 1,
      timings: { setup_ms: 30 },
      turns: [{ started_at: '2026-01-15T12:00:01.000Z', speaker: 'agent', duration_ms: 900, response_ms: null }],
      metadata: { order: 7 },
    });
    const types = ['call.initiated', 'call.ringing', 'call.answered', 'call.completed'];
    expect(body.events.map((event: { event_type: string }) => event.event_type)).toEqual(types);
    for (const [index, event] of body.events.entries()) {
      expect(Object.keys(event).sort()).toEqual(['created_at', 'event_data', 'event_type', 'id', 'sequence']);
      expect(event.sequence).toBe(index + 1);
      expect(event.event_data).toBeTypeOf('object');
    }
  });

  it('has an empty quality_metrics where nothing was measured', async () => {
    const { body } = await get(`/v1/calls/${begin()}`);
    expect(body).toMatchObject({ quality_metrics: {}, transcript: null, latency_ms: 0, timings: {}, turns: [] });
  });

  it('finds an id written in capitals', async () => {
    const id = begin();
    expect((await get(`/v1/calls/${id.toUpperCase()}`)).body.id).toBe(id);
  });
});

describe('DELETE /v1/calls/{id}', () => {
  it('removes the record, its events and its trace', async () => {
    const trace = [{ at: '2026-01-15T12:00:00.000Z', direction: 'sent' as const, peer: null, message: 'BYE' }];
    const id = finished({}, { trace });
    expect((await get(`/v1/calls/${id}/trace`)).body.messages).toHaveLength(1);
    const gone = await api.request('DELETE', `/v1/calls/${id}`);
    expect([gone.status, gone.text]).toEqual([204, '']);
    expect((await get(`/v1/calls/${id}`)).status).toBe(404);
    expect((await get(`/v1/calls/${id}/trace`)).status).toBe(404);
    expect((await api.request('DELETE', `/v1/calls/${id}`)).status).toBe(404);
    expect((await get('/v1/calls')).body.total).toBe(0);
  });

  it('leaves a running call alone', async () => {
    const id = begin();
    const refused = await api.request('DELETE', `/v1/calls/${id}`);
    expect([refused.status, refused.body.code, refused.body.details]).toEqual([
      409,
      'CALL_IN_PROGRESS',
      { call_id: id },
    ]);
    expect((await get(`/v1/calls/${id}`)).status).toBe(200);
  });
});

describe('commands to a running call', () => {
  it('passes hangup on and answers the call as it is then', async () => {
    const id = begin();
    api.answerCommands((callId) => {
      api.store.calls.finish(callId, { ...end, hangupSource: 'api' });
      return { ok: true };
    });
    const { status, body } = await api.request('POST', `/v1/calls/${id}/hangup`);
    expect([status, body.status]).toEqual([200, 'completed']);
    expect(Object.keys(body).sort()).toEqual(callKeys);
    expect(api.commands).toEqual([{ callId: id, command: { kind: 'hangup' } }]);
  });

  it('answers hangup of an ended call unchanged, without a command', async () => {
    const id = finished();
    const { status, body } = await api.request('POST', `/v1/calls/${id}/hangup`, { payload: '' });
    expect([status, body.status, body.id]).toEqual([200, 'completed', id]);
    expect(api.commands).toEqual([]);
  });

  it('passes digits and transfers on', async () => {
    const id = begin();
    expect((await api.request('POST', `/v1/calls/${id}/dtmf`, { body: { digits: '12w#a' } })).status).toBe(200);
    expect((await api.request('POST', `/v1/calls/${id}/transfer`, { body: { to: '+1 (555) 123-4567' } })).status).toBe(
      200,
    );
    expect(
      (await api.request('POST', `/v1/calls/${id}/transfer`, { body: { to: 'sip:bob@example.com' } })).status,
    ).toBe(200);
    expect(api.commands.map(({ command }) => command)).toEqual([
      { kind: 'dtmf', digits: '12w#A' },
      { kind: 'transfer', to: '+15551234567' },
      { kind: 'transfer', to: 'sip:bob@example.com' },
    ]);
  });

  it.each([
    ['dtmf', { digits: '' }, 'VALIDATION_ERROR'],
    ['dtmf', { digits: '12x' }, 'VALIDATION_ERROR'],
    ['dtmf', {}, 'VALIDATION_ERROR'],
    ['dtmf', { digits: '1', speed: 2 }, 'VALIDATION_ERROR'],
    ['transfer', { to: '5551234' }, 'INVALID_PHONE_NUMBER'],
    ['transfer', { to: 'sip:' }, 'VALIDATION_ERROR'],
    ['transfer', { to: 'sip:a@b\r\nX: y' }, 'VALIDATION_ERROR'],
    ['hangup', { reason: 'x' }, 'VALIDATION_ERROR'],
  ])('refuses %s %j', async (what, body, code) => {
    const answer = await api.request('POST', `/v1/calls/${begin()}/${what}`, { body });
    expect([answer.status, answer.body.code]).toEqual([400, code]);
    expect(api.commands).toEqual([]);
  });

  it.each([
    ['not_answered', 409, 'CALL_NOT_ANSWERED'],
    ['failed', 409, 'CALL_COMMAND_FAILED'],
    ['not_running', 503, 'SERVICE_UNAVAILABLE'],
  ] as const)('tells %s as %i %s', async (code, status, told) => {
    api.answerCommands(() => ({ ok: false, code, message: 'no telephone-event' }));
    const answer = await api.request('POST', `/v1/calls/${begin()}/dtmf`, { body: { digits: '1' } });
    expect([answer.status, answer.body.code]).toEqual([status, told]);
  });

  it('tells a call that ended in between', async () => {
    api.answerCommands((callId) => {
      api.store.calls.finish(callId, end);
      return { ok: false, code: 'not_running', message: 'gone' };
    });
    expect((await api.request('POST', `/v1/calls/${begin()}/hangup`)).body.status).toBe('completed');
    const dtmf = await api.request('POST', `/v1/calls/${begin()}/dtmf`, { body: { digits: '1' } });
    expect([dtmf.status, dtmf.body.code]).toEqual([409, 'CALL_ALREADY_ENDED']);
  });

  it('refuses keys and transfer for an ended call', async () => {
    const id = finished();
    const dtmf = await api.request('POST', `/v1/calls/${id}/dtmf`, { body: { digits: '1' } });
    const transfer = await api.request('POST', `/v1/calls/${id}/transfer`, { body: { to: '+15551234567' } });
    expect([dtmf.body.code, transfer.body.code]).toEqual(['CALL_ALREADY_ENDED', 'CALL_ALREADY_ENDED']);
  });
});

describe('GET /v1/calls/{id}/trace', () => {
  const entry = {
    at: '2026-01-15T12:00:00.000Z',
    direction: 'received' as const,
    peer: { transport: 'udp', address: '192.0.2.1', port: 5060 },
    message: 'INVITE sip:x SIP/2.0\r\nVia: y\r\n\r\n',
  };

  it('answers what was kept, as JSON and as text', async () => {
    const id = finished({ sipCallId: 'abc' }, { trace: [entry] });
    expect((await get(`/v1/calls/${id}/trace`)).body).toEqual({ call_id: id, sip_call_id: 'abc', messages: [entry] });
    const text = await get(`/v1/calls/${id}/trace?format=text`);
    expect(text.headers['content-type']).toMatch(/^text\/plain/);
    expect(text.text).toBe('2026-01-15T12:00:00.000Z <-- udp 192.0.2.1:5060\nINVITE sip:x SIP/2.0\nVia: y\n');
    expect((await get(`/v1/calls/${id}/trace?format=pdf`)).status).toBe(400);
  });

  it('asks the SIP side while the call runs', async () => {
    await api.close();
    api = await testApi({ liveTrace: (sipCallId) => (sipCallId === 'abc' ? [entry] : []) });
    expect((await get(`/v1/calls/${begin({ sipCallId: 'abc' })}/trace`)).body.messages).toEqual([entry]);
    expect((await get(`/v1/calls/${begin()}/trace`)).body.messages).toEqual([]);
  });
});
