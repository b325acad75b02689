import { createHash } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type TestApi, testApi } from '../support/api.js';

let api: TestApi;
beforeEach(async () => {
  api = await testApi();
});
afterEach(() => api.close());

const scope = () => ({ organizationId: api.a.organizationId, mode: 'live' }) as const;
const endpoint = async (name: string) =>
  (
    await api.store.endpoints.create(scope(), {
      name,
      type: 'agent',
      target: 'wss://agent.example.com',
      provider: 'custom',
      providerConfig: {},
    })
  ).record.id;

describe('what is kept of a call', () => {
  it('can be read as a capture and as quality over time', async () => {
    const id = api.store.calls.begin({
      ...scope(),
      direction: 'inbound',
      fromNumber: 'x',
      toNumber: 'y',
      phoneNumberId: api.a.userId,
      endpointId: null,
      sipCallId: 's',
    });
    const samples = [{ at: '2026-01-15T12:00:05.000Z', mos: 4.4, jitter_ms: 1 }];
    const peer = { transport: 'udp', address: '192.0.2.7', port: 5070 };
    const at = '2026-01-15T12:00:00.250Z';
    api.store.calls.finish(id, {
      status: 'completed',
      hangupCause: 'normal_clearing',
      hangupSource: 'caller',
      durationSec: 9,
      qualitySamples: samples,
      trace: [
        { at, direction: 'received', peer, message: 'INVITE' },
        { at, direction: 'sent', peer: { ...peer, address: '2001:db8::1' }, message: 'SIP/2.0 200 OK' },
      ],
    });
    expect((await api.request('GET', `/v1/calls/${id}/quality`)).body).toEqual({ call_id: id, samples });
    expect((await api.request('GET', `/v1/calls/${id}/quality`, { key: api.b.key })).status).toBe(404);
    const response = await api.app.inject({
      url: `/v1/calls/${id}/trace?format=pcap`,
      headers: { authorization: `Bearer ${api.a.key}` },
    });
    expect(response.headers['content-type']).toBe('application/vnd.tcpdump.pcap');
    const file = response.rawPayload;
    expect([file.readUInt32LE(0), file.readUInt32LE(20)]).toEqual([0xa1b2c3d4, 101]);
    expect([file.readUInt32LE(24) * 1000, file.readUInt32LE(28)]).toEqual([
      Date.parse('2026-01-15T12:00:00Z'),
      250_000,
    ]);
    const length = file.readUInt32LE(32);
    const packet = file.subarray(40, 40 + length);
    expect(length).toBe(20 + 8 + 'INVITE'.length);
    let sum = 0;
    for (let i = 0; i < 20; i += 2) sum += packet.readUInt16BE(i);
    expect((sum & 0xffff) + (sum >> 16)).toBe(0xffff);
    expect([...packet.subarray(12, 20)]).toEqual([192, 0, 2, 7, 127, 0, 0, 1]);
    expect([packet.readUInt16BE(20), packet.readUInt16BE(22)]).toEqual([5070, 5060]);
    expect(packet.subarray(28).toString()).toBe('INVITE');
    const second = file.subarray(40 + length + 16);
    expect([second[0], second.length]).toEqual([0x60, 40 + 8 + 'SIP/2.0 200 OK'.length]);
  });
});

describe('GET /v1/calls/{id}/capsule', () => {
  it('is everything about one call, without secrets', async () => {
    const { body: endpoint } = await api.request('POST', '/v1/endpoints', {
      body: {
        name: 'W',
        type: 'webhook',
        target: 'https://example.com/calls',
        provider_config: { events_url: 'https://example.com/events' },
      },
    });
    const { body: number } = await api.request('POST', '/v1/phone-numbers', {
      body: { number: '+15557770001', endpoint_id: endpoint.id },
    });
    const id = api.store.calls.begin({
      ...scope(),
      direction: 'inbound',
      fromNumber: 'x',
      toNumber: '+15557770001',
      phoneNumberId: number.id,
      endpointId: endpoint.id,
      sipCallId: 'of-the-capsule',
    });
    const running = await api.request('GET', `/v1/calls/${id}/capsule`);
    expect([running.status, running.body.call.status, running.body.sip_messages]).toEqual([200, 'in_progress', []]);
    const trace = [{ at: '2026-01-15T12:00:00.250Z', direction: 'sent' as const, peer: null, message: 'BYE' }];
    const qualitySamples = [{ at: '2026-01-15T12:00:05.000Z', mos: 4.4 }];
    api.store.calls.finish(id, {
      status: 'completed',
      hangupCause: 'normal_clearing',
      hangupSource: 'caller',
      durationSec: 9,
      qualitySamples,
      trace,
    });
    const { status, body, headers, text } = await api.request('GET', `/v1/calls/${id}/capsule`);
    expect([status, body.format, body.made_at]).toEqual([200, 'trunkline.capsule.1', '2026-01-15T12:00:00.000Z']);
    expect(headers['content-disposition']).toBe(`attachment; filename="${id}.capsule.json"`);
    expect(body.call).toEqual((await api.request('GET', `/v1/calls/${id}`)).body);
    expect(body.quality_samples).toEqual(qualitySamples);
    expect(body.sip_messages).toEqual(trace);
    expect(body.webhook_deliveries.map((each: { event_type: string }) => each.event_type).sort()).toEqual([
      'call.completed',
      'call.initiated',
    ]);
    expect([body.endpoint.id, body.phone_number.id]).toEqual([endpoint.id, number.id]);
    expect(text).not.toContain(endpoint.webhook_secret);
    await api.request('DELETE', `/v1/phone-numbers/${number.id}`);
    await api.request('DELETE', `/v1/endpoints/${endpoint.id}`);
    const later = (await api.request('GET', `/v1/calls/${id}/capsule`)).body;
    expect([later.endpoint, later.phone_number]).toEqual([null, null]);
  });
});

describe('POST /v1/simulator/calls', () => {
  it('hands the faults over, and tells what the caller measured', async () => {
    await api.close();
    const plans: object[] = [];
    const waiting: (() => void)[] = [];
    api = await testApi({
      simulateCall: async (plan, signal) => {
        plans.push(plan);
        if (plan.durationMs > 1_000)
          await new Promise<void>((resolve) => {
            waiting.push(resolve);
            signal.addEventListener('abort', () => resolve());
          });
        return {
          ...{ ok: true, problems: [], answered: true, sipStatus: null, sipCallId: 'x', cause: 'normal_clearing' },
          ...{ setupMs: 5.5, durationMs: 100, codec: 'PCMU', sent: { worstLateMs: 1 }, received: {}, roundTrip: null },
        };
      },
    });
    const call = (body: object, options = {}) => api.request('POST', '/v1/simulator/calls', { body, ...options });
    const to = '+15557770001';
    expect((await call({ to })).status).toBe(404);
    await api.request('POST', '/v1/phone-numbers', { body: { number: to } });
    expect((await call({ to }, { key: api.b.key })).status).toBe(404); // a number of another organization
    expect((await call({ to: 'echo' })).body.code).toBe('INVALID_PHONE_NUMBER');
    const test = await api.addKey({ organizationId: api.a.organizationId, mode: 'test' });
    expect((await call({ to }, { key: test })).status).toBe(403);
    expect(plans).toEqual([]);

    const answer = await call({
      to,
      duration_ms: 500,
      loss_percent: 2.5,
      jitter_ms: 30,
      seed: 7,
      digits: '1w#a',
      codec: 'PCMA',
    });
    expect([answer.status, answer.body.setup_ms, answer.body.sent]).toEqual([200, 5.5, { worst_late_ms: 1 }]);
    expect(plans).toEqual([
      {
        ...{ to, from: '+15005550001', durationMs: 500, ringTimeoutMs: 30_000, codecs: ['PCMA'], digits: '1w#A' },
        speech: 'tone',
        impairments: { lossPercent: 2.5, jitterMs: 30, seed: 7 },
      },
    ]);

    const calls = Array.from({ length: 5 }, () => call({ to }));
    const first = await Promise.race(calls);
    expect([first.status, first.body.code]).toEqual([429, 'CONCURRENCY_LIMIT_EXCEEDED']);
    expect(waiting).toHaveLength(4);
    for (const end of waiting) end();
    const statuses = (await Promise.all(calls)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(4);
    expect((await call({ to, duration_ms: 100 })).status).toBe(200);
  });
});

describe('POST /v1/routes/simulate', () => {
  it("says where a call would go, with each rule's verdict", async () => {
    const [day, night, base] = [await endpoint('Day'), await endpoint('Night'), await endpoint('Base')];
    const number = await api.store.phoneNumbers.create(scope(), {
      number: '+15551112222',
      endpointId: base,
      routes: [
        { endpoint_id: night, from_prefix: '+49' },
        { endpoint_id: day, schedule: { timezone: 'Europe/Berlin', start: '09:00', end: '17:00' } },
      ],
    });
    const ask = async (body: object, key = api.a.key) =>
      (
        await api.request('POST', '/v1/routes/simulate', {
          body: { from: '+12025550100', to: '+1 555 111 2222', ...body },
          key,
        })
      ).body;
    expect(await ask({ at: '2026-01-15T12:00:00Z' })).toEqual({
      decision: 'connect',
      phone_number_id: number.id,
      endpoint_ids: [day],
      hangup_cause: null,
      rules: [
        { rule: 'number', verdict: 'matched', detail: number.id },
        { rule: 'routes[0]', verdict: 'skipped', detail: 'The caller has another prefix.' },
        { rule: 'routes[1]', verdict: 'matched', detail: day },
        { rule: 'endpoint', verdict: 'matched', detail: day },
      ],
    });
    expect((await ask({ at: '2026-01-15T20:00:00Z' })).endpoint_ids).toEqual([base]);
    expect((await ask({ from: '+4930123' })).endpoint_ids).toEqual([night]);
    await api.store.endpoints.update(scope(), base, { status: 'inactive' });
    expect(await ask({ at: '2026-01-15T20:00:00Z' })).toMatchObject({
      decision: 'refuse',
      hangup_cause: 'endpoint_inactive',
    });
    expect(await ask({}, api.b.key)).toMatchObject({ decision: 'unknown', phone_number_id: null, endpoint_ids: [] });
  });
});

describe('the source of a simulated route', () => {
  it('is trusted by the trunks of the organization and those that all share, and by no others', async () => {
    await api.request('POST', '/v1/phone-numbers', {
      body: { number: '+15557770001', endpoint_id: await endpoint('E') },
    });
    const trunk = (key: string, body: object) =>
      api.request('POST', '/v1/trunks', { key, body: { name: 'T', ...body } });
    await trunk(api.a.key, { addresses: ['192.0.2.0/24', '2001:db8::/32'] });
    await trunk(api.a.key, { addresses: ['198.51.100.1'], organization_id: null });
    await trunk(api.a.key, { addresses: ['198.51.100.2'], direction: 'outbound' });
    await trunk(api.b.key, { addresses: ['203.0.113.9'] });
    const ask = async (source_ip: string) =>
      (await api.request('POST', '/v1/routes/simulate', { body: { from: 'x', to: '+15557770001', source_ip } })).body;
    for (const address of ['192.0.2.77', '::ffff:192.0.2.77', '2001:db8::7', '198.51.100.1'])
      expect([address, (await ask(address)).decision, (await ask(address)).rules[0].verdict]).toEqual([
        address,
        'connect',
        'matched',
      ]);
    for (const address of ['198.51.100.2', '203.0.113.9', '10.0.0.1', '2001:db9::1'])
      expect(await ask(address)).toMatchObject({
        decision: 'refuse',
        hangup_cause: 'blocked_source',
        endpoint_ids: [],
      });
    expect((await ask('carrier')).details.fields).toEqual([{ path: 'source_ip', message: 'must be an IP address' }]);
  });
});

describe('GET /docs', () => {
  it('is a page of every operation, with nothing from other hosts', async () => {
    const page = await api.request('GET', '/docs', { key: null });
    expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    expect(page.headers['content-security-policy']).toContain("default-src 'none'");
    expect(page.text).not.toMatch(/(?:src|href)="(?:https?:)?\/\//);
    // Its one script is that of the policy.
    const scripts = [...page.text.matchAll(/<script(.*?)>(.*?)<\/script>/gs)];
    expect(scripts.map(([, attributes]) => attributes)).toEqual(['']);
    const hash = createHash('sha256')
      .update(scripts[0]?.[2] ?? '')
      .digest('base64');
    expect(page.headers['content-security-policy']).toContain(`script-src 'sha256-${hash}';`);
    const description = (await api.request('GET', '/openapi.json', { key: null })).body;
    for (const methods of Object.values<Record<string, { operationId: string }>>(description.paths))
      for (const { operationId } of Object.values(methods)) expect(page.text).toContain(`id="${operationId}"`);
  });
});
