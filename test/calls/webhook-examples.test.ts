import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTwimlMenu } from '../../examples/twiml-menu/index.js';
import { startWebhookEndpoint } from '../../examples/webhook-endpoint/index.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { phoneCalls } from '../support/caller.js';

let app: TestApp;
const closing: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  app = await startTestApp({ TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '0' }, { t1: 100, t2: 400, t4: 500 });
});
afterAll(async () => {
  for (const each of closing) await each.close();
  await app.end();
});

async function callFor(number: string, target: string, config: object) {
  const endpoint = await app.api<{ id: string; webhook_secret: string }>('POST', '/v1/endpoints', {
    name: number,
    type: 'webhook',
    target,
    provider_config: config,
  });
  await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: endpoint.id });
  return endpoint;
}

test('the JSON example tells the time to who presses one, and only to signed requests', async () => {
  const unchecked = await startWebhookEndpoint({ port: 0 });
  closing.push(unchecked);
  const { id, webhook_secret: secret } = await callFor('+12025550401', `${unchecked.url}/calls`, {});
  const checked = await startWebhookEndpoint({ port: 0, secret });
  closing.push(checked);
  await app.api('PATCH', `/v1/endpoints/${id}`, { target: `${checked.url}/calls` });
  await phoneCalls(app, '+12025550401', { durationMs: 20_000, digits: '1', digitsAfterMs: 500 });
  const call = await app.finishedCall('+12025550401');
  expect(call).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing', hangup_source: 'agent' });
  const actions = call.events
    .filter((event) => event.event_type === 'webhook.delivered')
    .map((event) => event.event_data.actions);
  expect(actions).toEqual([['gather'], ['say']]);
  expect((await fetch(`${checked.url}/calls`, { method: 'POST', body: '{}' })).status).toBe(401);
});

test('the TwiML example spells the number to who presses one', async () => {
  const menu = await startTwimlMenu({ port: 0 });
  closing.push(menu);
  await callFor('+12025550402', `${menu.url}/voice`, { format: 'twiml' });
  await phoneCalls(app, '+12025550402', { durationMs: 20_000, digits: '1', digitsAfterMs: 500 });
  const call = await app.finishedCall('+12025550402');
  expect(call).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing', hangup_source: 'agent' });
  const actions = call.events
    .filter((event) => event.event_type === 'webhook.delivered')
    .map((event) => event.event_data.actions);
  expect(actions).toEqual([['gather', 'say'], ['say']]);
});
