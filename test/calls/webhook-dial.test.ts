import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type CalleeHeard, openSimulatedCarrier, type SimulatedCarrier } from '../../src/simulator/carrier.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { phoneCalls } from '../support/caller.js';
import { addTrunk } from '../support/outbound.js';
import { type Receiver, startReceiver } from '../support/receiver.js';
import { probeTone } from '../support/tone-probe.js';

let app: TestApp;
let carrier: SimulatedCarrier;
const heard: CalleeHeard[] = [];
const closing: Receiver[] = [];
let nextNumber = 12025550500;

beforeAll(async () => {
  app = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
  carrier = await openSimulatedCarrier({ ringMs: 200, timersMs: { t1: 100 }, onHeard: (what) => heard.push(what) });
  await addTrunk(app, [carrier.uri]);
});
afterAll(async () => {
  for (const each of closing) await each.close();
  await carrier.close();
  await app.end();
});

async function numberThatAnswers(start: string) {
  const server = await startReceiver((request, response) => {
    response.writeHead(200, { 'content-type': 'text/xml' });
    response.end(request.path === '/start' ? start : '<Response><Hangup/></Response>');
  });
  closing.push(server);
  const number = `+${nextNumber++}`;
  const { id } = await app.api<{ id: string }>('POST', '/v1/endpoints', {
    name: number,
    type: 'webhook',
    target: `${server.url}/start`,
    provider_config: { format: 'twiml' },
  });
  await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: id });
  return { number, server };
}

const dialResult = (server: Receiver) => Object.fromEntries(new URLSearchParams(server.requests.at(-1)?.body));

describe('Dial', () => {
  test('joins caller and callee until the callee hangs up, and tells what became of it', async () => {
    const { number, server } = await numberThatAnswers(
      '<Response><Dial action="/after">+15005550202</Dial></Response>',
    );
    const caller = await phoneCalls(app, number, { durationMs: 20_000 });
    expect(caller.report()).toMatchObject({ answered: true, endedBy: 'far side' });
    expect(dialResult(server)).toMatchObject({
      DialCallStatus: 'completed',
      DialCallDuration: '2',
      DialBridged: 'true',
    });
    expect(await app.finishedCall(number)).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
    // Each hears the tone of the other: the caller's and the callee's are both 440 Hz.
    await vi.waitFor(() => expect(heard).toHaveLength(1));
    expect(probeTone((heard[0]?.samples ?? new Int16Array()).subarray(4000, 12_000), 440).purityDb).toBeGreaterThan(3);
    const samples = caller.samples();
    expect(probeTone(samples.subarray(samples.length - 8000, samples.length - 1000), 440).purityDb).toBeGreaterThan(3);
  });

  test.each([
    ['+15005550486', 'busy'],
    ['+15005550404', 'failed'],
    ['+15005550480', 'no-answer'],
  ])('of %s ends as %s, without the caller being answered when the document says so', async (to, status) => {
    const { number, server } = await numberThatAnswers(
      `<Response><Dial action="/after" answerOnBridge="true">${to}</Dial></Response>`,
    );
    const caller = await phoneCalls(app, number, { durationMs: 10_000 });
    expect(caller.report()).toMatchObject({ answered: false });
    expect(dialResult(server)).toMatchObject({ DialCallStatus: status });
  });

  test('of several numbers takes the first that answers, and hangs up on the others', async () => {
    const { number, server } = await numberThatAnswers(
      '<Response><Dial action="/after"><Number>+15005550100</Number><Number>+15005550201</Number></Dial></Response>',
    );
    await phoneCalls(app, number, { durationMs: 20_000 });
    expect(dialResult(server)).toMatchObject({ DialCallStatus: 'completed' });
  });

  test('ends for the callee when the caller hangs up', async () => {
    const { number } = await numberThatAnswers('<Response><Dial>+12025550999</Dial></Response>');
    const before = heard.length;
    await phoneCalls(app, number, { durationMs: 1500 });
    expect(await app.finishedCall(number)).toMatchObject({ status: 'completed', hangup_source: 'caller' });
    await vi.waitFor(() => expect(heard.length).toBe(before + 1));
  });

  test('with a caller id of somebody else is refused', async () => {
    const { number } = await numberThatAnswers(
      '<Response><Dial callerId="+19995550000">+12025550999</Dial></Response>',
    );
    await phoneCalls(app, number);
    expect(await app.finishedCall(number)).toMatchObject({ status: 'failed', hangup_cause: 'webhook_error' });
  });
});
