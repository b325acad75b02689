import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { startTestApp, type TestApp } from '../support/app.js';
import { phoneCalls } from '../support/caller.js';
import type { ReceivedRequest, Receiver } from '../support/receiver.js';
import { startScriptedAgent } from '../support/scripted-agent.js';
import { type Answer, webhookApp } from '../support/webhook-app.js';

let app: TestApp;
let nextNumber = 12025550300;
const closing: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  app = await startTestApp(
    { TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '0', TRUNKLINE_AGENT_CONNECT_TIMEOUT_SEC: '2' },
    {
      t1: 100,
      t2: 400,
      t4: 500,
    },
  );
});
afterAll(async () => {
  for (const each of closing) await each.close();
  await app.end();
});

/** A webhook endpoint with a number, closed after the tests. */
async function webhookNumber(answers: { [path: string]: Answer }, config: object = {}, more: object = {}) {
  const made = await webhookApp(app, answers, config, more);
  closing.push(made.server);
  return made;
}

const bodies = (server: Receiver) => server.requests.map((request) => JSON.parse(request.body));
const types = (call: { events: { event_type: string }[] }) => call.events.map((event) => event.event_type);
const verified = (request: ReceivedRequest | undefined, secret: string) =>
  new Webhook(secret).verify(request?.body ?? '', request?.headers as Record<string, string>) as {
    type: string;
    data: Record<string, unknown>;
  } & Record<string, unknown>;

async function answeredCallTo(number: string): Promise<string> {
  return vi.waitFor(async () => {
    const { data } = await app.api<{ data: { id: string; to_number: string; answered_at: string | null }[] }>(
      'GET',
      '/v1/calls',
    );
    const found = data.find((call) => call.to_number === number && call.answered_at !== null);
    if (!found) throw new Error('not answered yet');
    return found.id;
  }, 5000);
}

describe('a webhook that answers JSON', () => {
  test('answers, waits, hangs up; the request is signed and describes the call', async () => {
    const { number, server, secret, endpointId } = await webhookNumber({
      '/start': [{ action: 'answer' }, { action: 'pause', seconds: 0.2 }, { action: 'hangup' }],
    });
    const heard = await phoneCalls(app, number);
    expect(heard.report()).toMatchObject({ endedBy: 'far side' });
    const call = await app.finishedCall(number);
    expect(call).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing', hangup_source: 'agent' });
    const asked = verified(server.requests[0], secret);
    expect(asked).toMatchObject({
      type: 'call.incoming',
      call_id: call.id,
      data: { from_number: '+15005550001', to_number: number, direction: 'inbound' },
    });
    expect((asked.data.headers as Record<string, string>)['call-id']).toBeDefined();
    const delivered = call.events.find((event) => event.event_type === 'webhook.delivered');
    expect(delivered?.event_data).toMatchObject({ endpoint_id: endpointId, actions: ['answer', 'pause', 'hangup'] });
    expect(server.connections).toBe(0);
  });

  test.each([
    [{ action: 'reject' }, 603, 'call_rejected'],
    [{ action: 'reject', status: 486 }, 486, 'user_busy'],
    [{ action: 'hangup' }, 480, 'normal_clearing'],
  ])('refuses without answering: %j', async (action, status, cause) => {
    const { number } = await webhookNumber({ '/start': [action] });
    const heard = await phoneCalls(app, number);
    expect(heard.report()).toMatchObject({ answered: false, sipStatus: status });
    expect(await app.finishedCall(number)).toMatchObject({ status: 'failed', hangup_cause: cause, answered_at: null });
  });

  test('gathers digits and is asked with them; the answer is carried out', async () => {
    const { number, server } = await webhookNumber({
      '/start': [{ action: 'gather', num_digits: 3, url: 'menu?x=1' }],
      '/menu': [{ action: 'redirect', url: '/end' }],
      '/end': [{ action: 'hangup' }],
    });
    await phoneCalls(app, number, { digits: '1*7', digitsAfterMs: 300 });
    expect(server.requests.map((request) => request.path)).toEqual(['/start', '/menu?x=1', '/end']);
    expect(bodies(server)[1]).toMatchObject({ type: 'call.gathered', data: { digits: '1*7', reason: 'num_digits' } });
    expect((await app.finishedCall(number)).status).toBe('completed');
  });

  test.each([
    ['12#', { finish_on_key: '#' }, { digits: '12', reason: 'finish_key' }],
    ['12', { timeout_s: 0.8 }, { digits: '12', reason: 'timeout' }],
    ['', { timeout_s: 0.3 }, { digits: '', reason: 'timeout' }],
  ])('a gather ends: %j with %j', async (digits, rules, data) => {
    const { number, server } = await webhookNumber({
      '/start': [{ action: 'gather', url: '/got', ...rules }],
      '/got': [],
    });
    await phoneCalls(app, number, digits === '' ? {} : { digits, digitsAfterMs: 300 });
    expect(bodies(server)[1].data).toEqual(data);
  });

  test('connects a stream, and is asked when it is over', async () => {
    const agent = await startScriptedAgent({
      onText: (message, socket) => {
        if (message.event === 'start') socket.close(1000);
      },
    });
    closing.push(agent);
    const { number, server } = await webhookNumber({
      '/start': [
        { action: 'connect', url: agent.url, protocol: 'raw', custom: { plan: 'gold' }, result_url: '/after' },
      ],
      '/after': [{ action: 'pause', seconds: 0.1 }],
    });
    await phoneCalls(app, number);
    expect(agent.messages[0]).toMatchObject({ event: 'start', custom: { plan: 'gold' }, to: number });
    expect(bodies(server)[1]).toMatchObject({ type: 'call.disconnected', data: { status: 'completed' } });
    expect(await app.finishedCall(number)).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
  });

  test('hands the call to another endpoint', async () => {
    const agent = await startScriptedAgent({
      onText: (message, socket) => void (message.event === 'start' && socket.send('{"event":"hangup"}')),
    });
    closing.push(agent);
    const { endpointId } = await app.connectNumber(`+${nextNumber++}`, agent.url, { protocol: 'raw' });
    const { number } = await webhookNumber({ '/start': [{ action: 'connect', endpoint_id: endpointId }] });
    await phoneCalls(app, number);
    expect(await app.finishedCall(number)).toMatchObject({ status: 'completed', hangup_cause: 'agent_hangup' });
    expect(agent.messages[0]).toMatchObject({ event: 'start' });
  });

  test('is left when the API redirects the call', async () => {
    const { number, server } = await webhookNumber({
      '/start': [{ action: 'answer' }, { action: 'pause', seconds: 60 }],
      '/elsewhere': [{ action: 'hangup' }],
    });
    const calling = phoneCalls(app, number);
    const id = await answeredCallTo(number);
    await app.api('POST', `/v1/calls/${id}/redirect`, { actions: [{ action: 'dance' }] }, 400);
    await app.api('POST', `/v1/calls/${id}/redirect`, {}, 400);
    await app.api('POST', `/v1/calls/${id}/redirect`, { url: `${server.url}/elsewhere` });
    expect((await calling).report()).toMatchObject({ endedBy: 'far side' });
    expect(bodies(server)[1]).toMatchObject({ type: 'call.redirected' });
    await app.api('POST', `/v1/calls/${id}/redirect`, { actions: [] }, 409);
  });

  test('is left at once for a second redirect while it is asked because of the first', async () => {
    const { number, server } = await webhookNumber({
      '/start': [{ action: 'answer' }, { action: 'pause', seconds: 60 }],
      '/slow': null,
      '/elsewhere': [{ action: 'hangup' }],
    });
    const calling = phoneCalls(app, number);
    const id = await answeredCallTo(number);
    await app.api('POST', `/v1/calls/${id}/redirect`, { url: `${server.url}/slow` });
    await vi.waitFor(() => expect(server.requests.map(({ path }) => path)).toContain('/slow'), 5000);
    await app.api('POST', `/v1/calls/${id}/redirect`, { url: `${server.url}/elsewhere` });
    expect((await calling).report()).toMatchObject({ endedBy: 'far side' });
    const call = await app.finishedCall(number);
    expect(call).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
    expect(types(call)).not.toContain('webhook.failed');
  });

  test('takes commands of the API while it is asked what follows a connect', async () => {
    const agent = await startScriptedAgent({
      onText: (message, socket) => {
        if (message.event === 'start') socket.close(1000);
      },
    });
    closing.push(agent);
    const { number, server } = await webhookNumber({
      '/start': [{ action: 'connect', url: agent.url, protocol: 'raw', result_url: '/after' }],
      '/after': null,
      '/elsewhere': [{ action: 'hangup' }],
    });
    const calling = phoneCalls(app, number);
    const id = await answeredCallTo(number);
    await vi.waitFor(() => expect(server.requests.map(({ path }) => path)).toContain('/after'), 5000);
    await app.api('POST', `/v1/calls/${id}/dtmf`, { digits: '5' });
    await app.api('POST', `/v1/calls/${id}/redirect`, { url: `${server.url}/elsewhere` });
    await calling;
    const call = await app.finishedCall(number);
    expect(call).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
    expect(call.events.find(({ event_type }) => event_type === 'dtmf.sent')?.event_data).toMatchObject({ digits: '5' });
    expect(bodies(server).at(-1)).toMatchObject({ type: 'call.redirected' });
  });
});

describe('a webhook that fails', () => {
  test.each<[string, Answer]>([
    ['500', 500],
    ['404', 404],
    ['a redirect', 302],
    ['XML that breaks off', '<Response><Say>'],
    ['an unknown action', [{ action: 'dance' }]],
    ['an unknown field', [{ action: 'pause', seconds: 1, loud: true }]],
  ])('with %s: the caller hears 503, the record says why', async (_name, answer) => {
    const { number, server } = await webhookNumber({ '/start': answer });
    const heard = await phoneCalls(app, number);
    expect(heard.report()).toMatchObject({ answered: false, sipStatus: 503 });
    const call = await app.finishedCall(number);
    expect(call).toMatchObject({ status: 'failed', hangup_cause: 'webhook_error' });
    expect(types(call)).toContain('webhook.failed');
    expect(server.requests).toHaveLength(1);
  });

  test('says where its answer is wrong', async () => {
    const { number } = await webhookNumber({ '/start': [{ action: 'answer' }, { action: 'dtmf', digits: 'xyz' }] });
    await phoneCalls(app, number);
    const failed = (await app.finishedCall(number)).events.find((event) => event.event_type === 'webhook.failed');
    expect(failed?.event_data).toMatchObject({ where: 'actions[1].digits' });
  });

  test('is replaced by its fallback, an agent', async () => {
    const agent = await startScriptedAgent({
      onText: (message, socket) => void (message.event === 'start' && socket.send('{"event":"hangup"}')),
    });
    closing.push(agent);
    const { endpointId } = await app.connectNumber(`+${nextNumber++}`, agent.url, { protocol: 'raw' });
    const { number } = await webhookNumber({ '/start': 500 }, {}, { fallback_endpoint_id: endpointId });
    await phoneCalls(app, number);
    const call = await app.finishedCall(number);
    expect(call).toMatchObject({ status: 'completed', hangup_cause: 'agent_hangup' });
    expect(types(call)).toEqual(expect.arrayContaining(['webhook.failed', 'agent.failover', 'agent.connected']));
  });

  test('is the fallback of an agent that cannot be reached', async () => {
    const { endpointId } = await webhookNumber({ '/start': [{ action: 'answer' }, { action: 'hangup' }] });
    const number = `+${nextNumber++}`;
    const agent = await app.api<{ id: string }>('POST', '/v1/endpoints', {
      name: 'gone',
      type: 'agent',
      target: 'ws://127.0.0.1:1/',
      provider_config: { protocol: 'raw' },
      fallback_endpoint_id: endpointId,
    });
    await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: agent.id });
    await phoneCalls(app, number);
    expect(await app.finishedCall(number)).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
  });

  test('by redirecting in a circle ends the call', async () => {
    const { number, server } = await webhookNumber({ '/start': [{ action: 'redirect', url: '/start' }] });
    await phoneCalls(app, number);
    expect(await app.finishedCall(number)).toMatchObject({ status: 'failed', hangup_cause: 'webhook_error' });
    expect(server.requests.length).toBeLessThan(30);
  });

  test('after the answer ends the call as failed', async () => {
    const { number } = await webhookNumber({
      '/start': [{ action: 'answer' }, { action: 'redirect', url: '/gone' }],
      '/gone': 404,
    });
    const heard = await phoneCalls(app, number);
    expect(heard.report()).toMatchObject({ answered: true, endedBy: 'far side' });
    expect(await app.finishedCall(number)).toMatchObject({ status: 'failed', hangup_cause: 'webhook_error' });
  });

  test('by silence while the caller gives up: nothing stays open', async () => {
    const { number, server } = await webhookNumber({ '/start': null });
    const stop = new AbortController();
    const calling = phoneCalls(app, number, { signal: stop.signal });
    await vi.waitFor(() => expect(server.requests).toHaveLength(1));
    stop.abort();
    await calling;
    expect(await app.finishedCall(number)).toMatchObject({ status: 'no_answer', hangup_cause: 'originator_cancel' });
    await vi.waitFor(() => expect(server.connections).toBe(0));
  });
});
