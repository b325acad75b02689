import { type ChildProcess, fork } from 'node:child_process';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { startTestApp, type TestApp } from '../support/app.js';
import { phoneCalls } from '../support/caller.js';

/** An unmodified application for Twilio answers calls; see `test/fixtures/twilio-app.mjs`. */
interface Report {
  path: string;
  port?: number;
  body?: Record<string, string>;
  start?: { customParameters: Record<string, string>; callSid: string; accountSid: string };
}

let app: TestApp;
let child: ChildProcess;
let reports: Report[] = [];
const number = '+12025550377';

beforeAll(async () => {
  app = await startTestApp({ TRUNKLINE_RTP_FIRST_TIMEOUT_SEC: '0' }, { t1: 100, t2: 400, t4: 500 });
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
  await vi.waitFor(() => expect(reports).toHaveLength(1), 20_000);
  const { port } = reports[0] as Report;
  await app.api('PATCH', `/v1/endpoints/${endpoint.id}`, {
    target: `http://127.0.0.1:${port}/voice`,
    provider_config: { wss_map: { [`127.0.0.1:${port}`]: `ws://127.0.0.1:${port}` } },
  });
  await app.api('POST', '/v1/phone-numbers', { number, endpoint_id: endpoint.id });
});
afterAll(async () => {
  const gone = new Promise((resolve) => child.once('exit', resolve));
  child.kill();
  await gone;
  await app.end();
});

async function call(options: Parameters<typeof phoneCalls>[2]) {
  reports = [];
  const heard = await phoneCalls(app, number, options);
  const { data } = await app.api<{ data: { id: string }[] }>('GET', '/v1/calls?limit=1');
  const record = await vi.waitFor(async () => {
    const found = await app.api<Awaited<ReturnType<TestApp['finishedCall']>>>('GET', `/v1/calls/${data[0]?.id}`);
    expect(found.status).not.toBe('in_progress');
    return found;
  });
  return { heard, record };
}

describe('an application written for Twilio', () => {
  test('speaks, gathers a key over its prompt, redirects, plays a file and hangs up', async () => {
    const { heard, record } = await call({ durationMs: 15_000, digits: '1', digitsAfterMs: 2500 });
    expect(reports.map((report) => report.path)).toEqual(['/voice', '/menu', '/goodbye?reason=sales', '/tone.wav']);
    expect(reports[0]?.body).toMatchObject({
      CallSid: `CA${record.id.replaceAll('-', '')}`,
      From: '+15005550001',
      To: number,
      CallStatus: 'ringing',
      Direction: 'inbound',
      ApiVersion: '2010-04-01',
    });
    expect(reports[1]?.body).toMatchObject({ Digits: '1', CallStatus: 'in-progress' });
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
    const { record } = await call({ durationMs: 20_000 });
    expect(reports.map((report) => report.path)).toEqual(['/voice']);
    expect(record).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing', hangup_source: 'agent' });
  });

  test('connects its Media Streams bot, which checks our signature and hears and speaks', async () => {
    const { record } = await call({ durationMs: 15_000, digits: '2', digitsAfterMs: 500 });
    expect(reports.map((report) => report.path)).toEqual(['/voice', '/menu', 'stream', '/after-stream']);
    expect(reports[2]?.start).toMatchObject({
      customParameters: { customer: 'C-42' },
      callSid: `CA${record.id.replaceAll('-', '')}`,
    });
    expect(record).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
  });
});
