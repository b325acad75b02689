import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openSimulatedCarrier, type SimulatedCarrier } from '../../src/simulator/carrier.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { phoneCalls } from '../support/caller.js';
import { addTrunk, placeOutbound } from '../support/outbound.js';
import { startScriptedAgent } from '../support/scripted-agent.js';
import { type Answer, soon, type WebhookApp, webhookApp } from '../support/webhook-app.js';

let app: TestApp;
let carrier: SimulatedCarrier;
const closing: WebhookApp[] = [];

beforeAll(async () => {
  app = await startTestApp({ TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '0' }, { t1: 100, t2: 400, t4: 500 });
  carrier = await openSimulatedCarrier({ ringMs: 200, timersMs: { t1: 100 } });
  await addTrunk(app, [carrier.uri]);
});
afterAll(async () => {
  for (const each of closing) await each.server.close();
  await app.end();
  await carrier.close();
});

async function numberWith(answers: { [path: string]: Answer }, config: object = {}): Promise<WebhookApp> {
  const made = await webhookApp(app, answers, config);
  closing.push(made);
  return made;
}
const types = (call: { events: { event_type: string }[] }) => call.events.map((event) => event.event_type);
const bodies = ({ server }: WebhookApp) => server.requests.map((request) => JSON.parse(request.body));

describe.concurrent('actions', () => {
  test('dtmf presses keys that the phone hears', async () => {
    const { number } = await numberWith({ '/start': [{ action: 'dtmf', digits: '1w2#' }, { action: 'hangup' }] });
    const heard = await phoneCalls(app, number, { durationMs: 10_000 });
    expect(heard.report().received.digits).toBe('12#');
    expect(types(await app.finishedCall(number))).toContain('dtmf.sent');
  });

  test('<Play digits> presses keys too', async () => {
    const { number } = await numberWith({ '/start': '<Response><Play digits="7"/><Hangup/></Response>' });
    expect((await phoneCalls(app, number, { durationMs: 10_000 })).report().received.digits).toBe('7');
  });

  test('connect to another webhook endpoint hands the call over: it is asked as if the call had come to it', async () => {
    const second = await numberWith({
      '/start': [{ action: 'redirect', url: '/more' }],
      '/more': [{ action: 'hangup' }],
    });
    const first = await numberWith({ '/start': [{ action: 'connect', endpoint_id: second.endpointId }] });
    await phoneCalls(app, first.number);
    expect(bodies(second).map((body) => body.type)).toEqual(['call.incoming', 'call.redirected']);
    expect(bodies(second)[0]).toMatchObject({ call_id: bodies(first)[0].call_id, data: { to_number: first.number } });
    expect(first.paths()).toEqual(['/start']);
  });

  test('connect to an endpoint of nobody fails the call and says so', async () => {
    const { number } = await numberWith({
      '/start': [{ action: 'connect', endpoint_id: '01920000-0000-7000-8000-000000000000' }],
    });
    await phoneCalls(app, number);
    const call = await app.finishedCall(number);
    expect(call).toMatchObject({ status: 'failed', hangup_cause: 'webhook_error' });
  });

  test('a transfer that the phone refuses is reported, and the next action runs', async () => {
    const { number, paths } = await numberWith({
      '/start': [
        { action: 'transfer', to: '+15005550404' },
        { action: 'redirect', url: '/next' },
      ],
      '/next': [{ action: 'hangup' }],
    });
    await phoneCalls(app, number, { durationMs: 15_000 });
    const call = await app.finishedCall(number);
    const events = types(call).filter((type) => type.startsWith('transfer.'));
    expect(events).toEqual(['transfer.started', 'transfer.failed']);
    expect(paths()).toEqual(['/start', '/next']);
  });
});

describe('an outbound call of a webhook endpoint', () => {
  test('asks with call.outgoing after the answer', async () => {
    const asked = await numberWith({ '/start': [{ action: 'pause', seconds: 0.3 }, { action: 'hangup' }] });
    const { data } = await app.api<{ data: { id: string; number: string }[] }>('GET', '/v1/phone-numbers');
    const numberId = data.find((each) => each.number === asked.number)?.id ?? '';
    const to = '+12025550888';
    const id = placeOutbound(app, {
      to,
      numberId,
      endpointId: asked.endpointId,
      from: asked.number,
      ringTimeoutMs: 30_000,
    });
    await soon(async () =>
      expect((await app.api<{ status: string }>('GET', `/v1/calls/${id}`)).status).toBe('completed'),
    );
    expect(bodies(asked)).toHaveLength(1);
    expect(bodies(asked)[0]).toMatchObject({
      type: 'call.outgoing',
      call_id: id,
      data: { direction: 'outbound', to_number: to, from_number: asked.number },
    });
  });

  test('ends at its maximum duration, which counts from the answer and not from a connect', async () => {
    const agent = await startScriptedAgent({
      onText: (message, socket) => {
        if (message.event === 'start') setTimeout(() => socket.close(1000), 1200);
      },
    });
    const connect = { action: 'connect', url: agent.url, protocol: 'raw', result_url: '/start' };
    const { endpointId, number } = await numberWith({ '/start': [connect] });
    const { data } = await app.api<{ data: { id: string; number: string }[] }>('GET', '/v1/phone-numbers');
    const numberId = data.find((each) => each.number === number)?.id ?? '';
    const to = '+12025550889';
    placeOutbound(app, { to, numberId, endpointId, from: number, maxDurationMs: 2000 });
    // were it counted from each connect, the call would not end by it
    await soon(async () => expect((await app.finishedCall(to)).hangup_cause).toBe('time_limit'));
    const { events } = await app.finishedCall(to);
    const connects = events.filter(({ event_type }) => event_type === 'agent.connected').length;
    expect(connects, 'connects within the limit').toBeGreaterThanOrEqual(1);
    expect(connects, 'connects within the limit').toBeLessThanOrEqual(2);
    await agent.close();
  });

  test('without an answer requests nothing', async () => {
    const asked = await numberWith({ '/start': [] });
    const { data } = await app.api<{ data: { id: string; number: string }[] }>('GET', '/v1/phone-numbers');
    const numberId = data.find((each) => each.number === asked.number)?.id ?? '';
    const id = placeOutbound(app, { to: '+15005550486', numberId, endpointId: asked.endpointId });
    await soon(async () => expect((await app.api<{ status: string }>('GET', `/v1/calls/${id}`)).status).toBe('busy'));
    expect(asked.paths()).toEqual([]);
  });
});
