import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type TestApi, testApi } from '../support/api.js';

let api: TestApi;
beforeEach(async () => {
  api = await testApi();
});
afterEach(() => api.close());

const scope = () => ({ organizationId: api.a.organizationId, mode: 'live' }) as const;
const endpoint = (name: string) =>
  api.store.endpoints.create(scope(), {
    name,
    type: 'agent',
    target: 'wss://agent.example.com',
    provider: 'custom',
    providerConfig: {},
  }).record.id;

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

describe('POST /v1/routes/simulate', () => {
  it("says where a call would go, with each rule's verdict", async () => {
    const [day, night, base] = [endpoint('Day'), endpoint('Night'), endpoint('Base')];
    const number = api.store.phoneNumbers.create(scope(), {
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
    api.store.endpoints.update(scope(), base, { status: 'inactive' });
    expect(await ask({ at: '2026-01-15T20:00:00Z' })).toMatchObject({
      decision: 'refuse',
      hangup_cause: 'endpoint_inactive',
    });
    expect(await ask({}, api.b.key)).toMatchObject({ decision: 'unknown', phone_number_id: null, endpoint_ids: [] });
  });
});

describe('GET /docs', () => {
  it('is a page of every operation, with nothing from other hosts', async () => {
    const page = await api.request('GET', '/docs', { key: null });
    expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    expect(page.headers['content-security-policy']).toContain("default-src 'none'");
    expect(page.text).not.toMatch(/<script|(?:src|href)="(?:https?:)?\/\//);
    const description = (await api.request('GET', '/openapi.json', { key: null })).body;
    for (const methods of Object.values<Record<string, { operationId: string }>>(description.paths))
      for (const { operationId } of Object.values(methods)) expect(page.text).toContain(`id="${operationId}"`);
  });
});
