import type { ServerResponse } from 'node:http';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { placeCall } from '../../src/simulator/place-call.js';
import { type CallRecord, startTestApp, type TestApp } from '../support/app.js';
import { type ReceivedRequest, type Receiver, startReceiver } from '../support/receiver.js';
import { type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';

const secret = 'whsec_c2VjcmV0IG9mIHRoaXMgdGVzdCBvbmx5';
let app: TestApp;
let agent: ScriptedAgent;
const receivers: Receiver[] = [];
let nextNumber = 19995553100;

beforeAll(async () => {
  app = await startTestApp({}, { t1: 50, t2: 200, t4: 250 });
  agent = await startScriptedAgent({ onText: ({ event }, socket) => event === 'start' && socket.close(1000) });
});
afterAll(async () => {
  for (const receiver of receivers) await receiver.close();
  await agent.close();
  await app.end();
});

async function call(config: object): Promise<{ number: string; start: Record<string, unknown>; record: CallRecord }> {
  const number = `+${nextNumber++}`;
  const { id } = await app.api<{ id: string }>('POST', '/v1/endpoints', {
    name: `agent of ${number}`,
    type: 'agent',
    target: agent.url,
    provider_config: { protocol: 'raw', ...config },
  });
  await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: id });
  const port = app.sip.addresses.find((each) => each.transport === 'udp')?.port ?? 0;
  const before = agent.messages.length;
  const target = { host: '127.0.0.1', port, transport: 'udp' as const };
  await placeCall({ to: number, durationMs: 3000, target, markers: false, from: '+4930123456' });
  const record = await app.finishedCall(number);
  return { number, start: agent.messages[before] ?? {}, record };
}

async function preConnect(answer: (request: ReceivedRequest, response: ServerResponse) => void) {
  const receiver = await startReceiver(answer);
  receivers.push(receiver);
  return receiver;
}

const said = (body: object) => (_request: ReceivedRequest, response: ServerResponse) =>
  void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
const eventsOf = (record: CallRecord, type: string) => record.events.filter((event) => event.event_type === type);
const variables = { caller: '{{call.from}}', number: '{{call.to}}', kind: '{{sip.headers.content-type}}' };

it("an agent gets the caller's number", async () => {
  const { number, start } = await call({ variables });
  expect(start).toMatchObject({
    custom: { caller: '+4930123456', number, kind: 'application/sdp' },
  });
});

it('pre_connect_url is asked with a signature, and its answer wins over the templates', async () => {
  const receiver = await preConnect(said({ variables: { caller: 'Ada', tier: 'gold-77' }, greeting: 'Hi' }));
  const { number, start, record } = await call({
    variables,
    pre_connect_url: `${receiver.url}/who`,
    pre_connect_secret: secret,
  });
  expect(start).toMatchObject({ custom: { caller: 'Ada', tier: 'gold-77', number } });
  const [request] = receiver.requests;
  expect(request?.headers).toMatchObject({ 'webhook-signature': expect.stringMatching(/^v1,/) });
  expect(JSON.parse(request?.body ?? '')).toMatchObject({
    type: 'agent.connecting',
    call_id: record.id,
    data: { from_number: '+4930123456', to_number: number, direction: 'inbound' },
  });
  const [event] = eventsOf(record, 'agent.personalized');
  expect(event?.event_data).toMatchObject({ fields: ['greeting'], variables: 2 });
  expect(JSON.stringify(record)).not.toMatch(/gold-77|Ada/);
});

it.each<[string, (request: ReceivedRequest, response: ServerResponse) => void, RegExp]>([
  ['never answers', () => {}, /did not answer within 1 s/],
  ['answers 500', (_request, response) => void response.writeHead(500).end(), /status 500/],
  ['answers text', (_request, response) => void response.writeHead(200).end('secret-text'), /other than a JSON object/],
  ['answers a wrong field', said({ instructions: { a: 'secret-text' } }), /^instructions in the answer/],
])('a server that %s: the agent is connected without it, and the record says so', async (_what, answer, message) => {
  const receiver = await preConnect(answer);
  const { start, record } = await call({ variables, pre_connect_url: receiver.url });
  expect(start).toMatchObject({ event: 'start', custom: { caller: '+4930123456' } });
  const [warning] = eventsOf(record, 'agent.warning');
  expect(warning?.event_data).toMatchObject({ code: 'pre_connect_failed', message: expect.stringMatching(message) });
  expect(JSON.stringify(record)).not.toContain('secret-text');
  expect(record).toMatchObject({ status: 'completed', hangup_cause: 'agent_hangup' });
});
