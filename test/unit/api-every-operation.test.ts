import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestApi, testApi } from '../support/api.js';
import type { ApiDocument } from '../support/api-description.js';

/** Every operation once with success and once with an error; the test client checks each answer against the served description. */

let api: TestApi;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'trunkline-operations-'));
  mkdirSync(path.join(folder, 'day'));
  writeFileSync(path.join(folder, 'day', 'x.wav'), 'RIFF and so on');
  api = await testApi({
    recordingsFolder: folder,
    outboundCalls: { refusal: () => null, start: () => {} },
    connectionTests: {
      endpoint: async ({ target }) => [{ what: target, ok: true, message: 'ready' }],
      trunk: async () => [],
    },
    doctor: async () => [{ check: 'node', level: 'ok', says: 'fine' }],
    simulateCall: async () => ({
      ...{ ok: false, problems: ['x'], answered: false, sipStatus: 404, sipCallId: null, cause: 'not_found' },
      ...{ setupMs: null, durationMs: 0, codec: null, sent: {}, received: {}, roundTrip: null },
    }),
    transcription: { transcribe: async () => ({ text: 'Hello', model: 'm' }) },
    translation: { translate: async () => ({ text: 'Hello', model: 'm' }) },
  });
});
afterAll(async () => {
  await api.close();
  rmSync(folder, { recursive: true });
});

/** A call with everything that a record can have. */
async function fullCall(phoneNumberId: string, endpointId: string): Promise<string> {
  const { calls } = api.store;
  const id = calls.begin({
    ...{ organizationId: api.a.organizationId, mode: 'live', direction: 'inbound', fromNumber: 'anonymous' },
    ...{ toNumber: '+15551234567', phoneNumberId, endpointId, sipCallId: 'x', metadata: { a: [1] } },
  });
  calls.answered(id, { latencyMs: 12.4 });
  calls.finish(id, {
    ...{ status: 'completed', hangupCause: 'user_busy', hangupSource: 'callee', durationSec: 3, ringSeconds: 1 },
    quality: { mos: 4.1, jitter_ms: 3, packet_loss: 0.5, received: { lost: 1 } },
    qualitySamples: [{ at: new Date(0).toISOString(), mos: 4 }],
    timings: { setupMs: 5 },
    turns: [{ startedAt: new Date(0).toISOString(), speaker: 'agent', durationMs: 5, responseMs: 2 }],
    transcript: 'agent: Hello',
    trace: [{ at: new Date(0).toISOString(), direction: 'sent', peer: null, message: 'BYE' }],
  });
  calls.recorded(id, pathToFileURL(path.join(folder, 'day', 'x.wav')).href);
  await calls.flush();
  return id;
}

describe('every operation', () => {
  it('answers as it is described', async () => {
    const ask = async (method: string, url: string, body?: object, status = method === 'DELETE' ? 204 : 200) => {
      const answer = await api.request(method, url, { body });
      expect(answer.status, `${method} ${url} ${answer.text}`).toBe(status);
      return answer.body;
    };
    const create = (url: string, body: object) => ask('POST', url, body, 201);
    const config = { protocol: 'raw', api_key: 'x' };
    const target = 'wss://agent.example.com';
    const agent = await create('/v1/endpoints', { name: 'A', type: 'agent', target, provider_config: config });
    const webhook = await create('/v1/endpoints', {
      ...{ name: 'W', type: 'webhook', target: 'https://e.com' },
      provider_config: { events_url: 'https://e.com/events' },
    });
    const number = await create('/v1/phone-numbers', { number: '+15551234567', endpoint_id: webhook.id });
    const trunk = await create('/v1/trunks', {
      name: 'T',
      addresses: ['192.0.2.1'],
      gateways: [{ uri: 'sip:gw.example.com' }],
    });
    for (const [kind, id] of [
      ['endpoints', agent.id],
      ['phone-numbers', number.id],
      ['trunks', trunk.id],
    ]) {
      expect((await ask('GET', `/v1/${kind}`)).data.length).toBeGreaterThan(0);
      await ask('GET', `/v1/${kind}/${id}`);
      await ask('PATCH', `/v1/${kind}/${id}`, { name: 'B' });
    }
    await ask('POST', `/v1/endpoints/${webhook.id}/rotate-secret`, {});
    const call = await fullCall(number.id, webhook.id);
    for (const url of [
      '',
      '?action=stats',
      '?action=trends',
      `/${call}`,
      `/${call}/quality`,
      `/${call}/capsule`,
      '/insights',
      '/search?limit=1',
      '/export',
      `/${call}/explanation`,
    ])
      await ask('GET', `/v1/calls${url}`);
    for (const format of ['json', 'text', 'pcap']) await ask('GET', `/v1/calls/${call}/trace?format=${format}`);
    await ask('GET', `/v1/calls/${call}/recording`);
    const part = await api.request('GET', `/v1/calls/${call}/recording`, { headers: { range: 'bytes=0-3' } });
    expect(part.status).toBe(206);
    const token = 'a'.repeat(22);
    const file = pathToFileURL(path.join(folder, 'day', 'x.wav')).href;
    const taken = { id: agent.id, callId: call, file, durationMs: 1, bytes: 1, createdAt: new Date(0) };
    await api.store.recordings.add({ ...taken, token });
    await ask('GET', `/recordings/${agent.id}/${token}`);
    await api.request('GET', `/recordings/${agent.id}/${token}`, { headers: { range: 'bytes=0-3' } });

    const wanted = { to_number: '+15557654321', from_number: '+15551234567', endpoint_id: agent.id };
    const started = await create('/v1/outbound-calls', wanted);
    const commands: [string, object][] = [
      ['hangup', {}],
      ['dtmf', { digits: '1' }],
      ['redact', { on: true, max_s: 60 }],
      ['transfer', { to: '+15557654321' }],
      ['redirect', { actions: [{ action: 'hangup' }] }],
      ['recording/pause', {}],
      ['recording/resume', {}],
    ];
    for (const [command, body] of commands) await ask('POST', `/v1/calls/${started.id}/${command}`, body);
    await ask('POST', '/v1/simulator/calls', { to: '+15551234567' });
    await ask('POST', '/v1/routes/simulate', { from: 'anonymous', to: '+15551234567' });
    await ask('GET', '/v1/overview');
    await ask('GET', '/sign-in');
    await ask('POST', '/v1/events/token', {});
    await ask('GET', '/v1/doctor');
    for (const of of [`endpoints/${agent.id}`, `trunks/${trunk.id}`]) await ask('POST', `/v1/${of}/test`, {});
    const { data: deliveries } = await ask('GET', '/v1/webhook-deliveries');
    await ask('POST', `/v1/webhook-deliveries/${deliveries[0].id}/retry`);

    const { id: organization } = await create('/v1/organizations', { name: 'New', tier: 'pro' });
    await ask('GET', '/v1/organizations');
    await ask('GET', `/v1/organizations/${organization}`);
    await ask('PATCH', `/v1/organizations/${organization}`, { limits: { concurrent_calls: 3 } });
    const rate = {
      direction: 'inbound',
      prefix: '',
      rate_cents_per_minute: 0.5,
      initial_increment_s: 1,
      increment_s: 1,
    };
    await ask('PUT', `/v1/organizations/${organization}/rates`, { rates: [rate] });
    await ask('GET', `/v1/organizations/${organization}/rates`);
    await create(`/v1/organizations/${organization}/credits`, { amount_cents: 12.5, note: 'x' });
    await ask('GET', `/v1/organizations/${organization}/ledger`);
    const { id } = await create(`/v1/organizations/${organization}/members`, { subject: 'ada', role: 'member' });
    await ask('GET', `/v1/organizations/${organization}/members`);
    await ask('DELETE', `/v1/organizations/${organization}/members/${id}`);
    api.store.rejectedInvites.add({
      ...{ sip_call_id: 'x', from_number: 'x', to_number: 'y', transport: 'udp', address: '192.0.2.9', port: 5060 },
      ...{ sip_status: 404, cause: 'not_found' },
    });
    await ask('GET', '/v1/rejected-invites');
    const key = await create('/v1/api-keys', { name: 'K', mode: 'test' });
    await ask('GET', '/v1/api-keys');
    await ask('GET', '/v1/me');
    for (const url of ['/healthz', '/readyz', '/metrics', '/openapi.json', '/docs']) await ask('GET', url);
    const form = new FormData();
    form.append('file', new Blob([Buffer.from('RIFF....WAVE and so on')]), 'x.wav');
    const transcribed = await api.app.inject({
      ...{ method: 'POST', url: '/api/v1/transcribe', headers: { 'x-api-key': api.a.key } },
      payload: form,
    });
    (await api.description()).expectDescribed('POST', '/api/v1/transcribe', {
      ...{ status: transcribed.statusCode, headers: transcribed.headers, text: transcribed.body },
      body: JSON.parse(transcribed.body),
    });
    for (const gone of [
      `calls/${call}`,
      `api-keys/${key.id}`,
      `phone-numbers/${number.id}`,
      `trunks/${trunk.id}`,
      `endpoints/${agent.id}`,
    ])
      await ask('DELETE', `/v1/${gone}`);

    const { seen } = await api.description();
    const document = (await ask('GET', '/openapi.json')) as ApiDocument;
    const described = Object.values(document.paths).flatMap((methods) =>
      Object.values(methods).flatMap(({ operationId, responses }) =>
        Object.keys(responses)
          .filter((status) => Number(status) < 400)
          .map((status) => `${operationId} ${status}`),
      ),
    );
    // A stream of events has no end, and nobody signs in twice: these have tests of their own.
    expect(described.filter((each) => !seen.has(each)).sort()).toEqual([
      'signInByCode 200',
      'signInByLink 200',
      'streamEvents 200',
    ]);
  });
});
