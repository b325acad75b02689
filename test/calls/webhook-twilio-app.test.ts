import { type ChildProcess, fork } from 'node:child_process';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openSimulatedCarrier, type SimulatedCarrier } from '../../src/simulator/carrier.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { phoneCalls } from '../support/caller.js';
import { addTrunk } from '../support/outbound.js';
import { soon } from '../support/webhook-app.js';

/** An unmodified application for Twilio answers calls; see `test/fixtures/twilio-app.mjs`. */
interface Report {
  path: string;
  port?: number;
  body?: Record<string, string>;
  bytes?: number;
  start?: { customParameters: Record<string, string>; callSid: string; accountSid: string };
}

let app: TestApp;
let child: ChildProcess;
let carrier: SimulatedCarrier;
const reports: Report[] = [];
let nextNumber = 12025550377;
let endpointId = '';

beforeAll(async () => {
  app = await startTestApp({ TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '0' }, { t1: 100, t2: 400, t4: 500 });
  carrier = await openSimulatedCarrier({ ringMs: 200, timersMs: { t1: 100 } });
  await addTrunk(app, [carrier.uri]);
  const endpoint = await app.api<{ id: string; webhook_secret: string }>('POST', '/v1/endpoints', {
    name: 'twilio app',
    type: 'webhook',
    target: 'http://127.0.0.1:1/voice',
    provider_config: { format: 'twiml' },
  });
  child = fork(path.join(import.meta.dirname, '../fixtures/twilio-app.mjs'), {
    env: { ...process.env, TWILIO_AUTH_TOKEN: endpoint.webhook_secret },
    execArgv: [],
  });
  child.on('message', (report: Report) => reports.push(report));
  await soon(() => expect(reports).toHaveLength(1), 20_000);
  const { port } = reports[0] as Report;
  await app.api('PATCH', `/v1/endpoints/${endpoint.id}`, {
    target: `http://127.0.0.1:${port}/voice`,
    provider_config: { wss_map: { [`127.0.0.1:${port}`]: `ws://127.0.0.1:${port}` } },
  });
  endpointId = endpoint.id;
});
afterAll(async () => {
  const gone = new Promise((resolve) => child.once('exit', resolve));
  child.kill();
  await gone;
  await app.end();
  await carrier.close();
});

/** A call to a number of its own, and what the application reports of it and of the calls that it dialled. */
async function call(options: Parameters<typeof phoneCalls>[2]) {
  const number = `+${nextNumber++}`;
  await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: endpointId });
  const heard = await phoneCalls(app, number, options);
  const record = await app.finishedCall(number);
  const sid = `CA${record.id.replaceAll('-', '')}`;
  const ofCall = ({ body, start }: Report) => [body?.CallSid, body?.ParentCallSid, start?.callSid].includes(sid);
  return { number, heard, record, reports: () => reports.filter(ofCall) };
}

// Calls mostly wait, and each has a number of its own.
describe.concurrent('an application written for Twilio', () => {
  test('speaks, gathers a key over its prompt, redirects, plays a file and hangs up', async () => {
    const { number, heard, record, reports } = await call({ durationMs: 15_000, digits: '1', digitsAfterMs: 2500 });
    expect(reports().map((report) => report.path)).toEqual(['/voice', '/menu', '/goodbye?reason=sales', '/tone.wav']);
    expect(reports()[0]?.body).toMatchObject({
      CallSid: `CA${record.id.replaceAll('-', '')}`,
      From: '+15005550001',
      To: number,
      CallStatus: 'ringing',
      Direction: 'inbound',
      ApiVersion: '2010-04-01',
    });
    expect(reports()[1]?.body).toMatchObject({ Digits: '1', CallStatus: 'in-progress' });
    expect(record).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
    expect(heard.report()).toMatchObject({ answered: true, endedBy: 'far side' });
    // Speech was heard, and at the end a quarter of a second of tone.
    const samples = heard.samples();
    const loud = (from: number, to: number) =>
      samples.slice(from, to).filter((sample) => Math.abs(sample) > 2000).length;
    expect(loud(0, samples.length - 4000)).toBeGreaterThan(200);
    expect(loud(samples.length - 4000, samples.length)).toBeGreaterThan(1000);
  });

  test('goes on with the next verb when no key comes', async () => {
    const { record, reports } = await call({ durationMs: 20_000 });
    expect(reports().map((report) => report.path)).toEqual(['/voice']);
    expect(record).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing', hangup_source: 'agent' });
  });

  test('connects its Media Streams bot, which checks our signature and hears and speaks', async () => {
    const { record, reports } = await call({ durationMs: 15_000, digits: '2', digitsAfterMs: 500 });
    expect(reports().map((report) => report.path)).toEqual(['/voice', '/menu', 'stream', '/after-stream']);
    expect(reports()[2]?.start).toMatchObject({
      customParameters: { customer: 'C-42' },
      callSid: `CA${record.id.replaceAll('-', '')}`,
    });
    expect(record).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
  });

  test('dials a callee, records both, and gets the result', async () => {
    const { heard, record, reports } = await call({ durationMs: 20_000, digits: '3', digitsAfterMs: 500 });
    await soon(() => expect(reports().filter((report) => report.path === '/status')).toHaveLength(2));
    const body = (path: string) => reports().find((report) => report.path === path)?.body;
    expect(
      reports()
        .map((report) => report.path)
        .filter((path) => path !== '/status'),
    ).toEqual(['/voice', '/menu', '/dialled']);
    expect(body('/dialled')).toMatchObject({ DialCallStatus: 'completed', DialCallDuration: '2', DialBridged: 'true' });
    expect((await fetch(body('/dialled')?.RecordingUrl ?? '')).status).toBe(200);
    expect(body('/status')).toMatchObject({ CallStatus: 'ringing', CallSid: body('/dialled')?.DialCallSid });
    expect(heard.report()).toMatchObject({ endedBy: 'far side' });
    expect(record).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
  });

  test('takes a message, reads it, and plays it back', async () => {
    const { heard, reports } = await call({ durationMs: 30_000, digits: '4wwwwwwww#', digitsAfterMs: 500 });
    const recorded = reports().find((report) => report.path === '/recorded');
    expect(recorded?.body).toMatchObject({ Digits: '#' });
    expect(recorded?.bytes).toBeGreaterThan(4000);
    await soon(() =>
      expect(reports().find((report) => report.path === '/recording-status')?.body).toMatchObject({
        RecordingStatus: 'completed',
        RecordingUrl: recorded?.body?.RecordingUrl,
      }),
    );
    expect(heard.report()).toMatchObject({ answered: true, endedBy: 'far side' });
  });
});
