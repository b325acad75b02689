import { readdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { tone } from '../../media/audio/dsp/tone.js';
import { readWav } from '../../media/audio/wav.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { phoneCalls } from '../support/caller.js';
import { millisecondsOfTone } from '../support/tone-probe.js';
import { type Answer, soon, type WebhookApp, webhookApp } from '../support/webhook-app.js';

let app: TestApp;
const closing: WebhookApp[] = [];

beforeAll(async () => {
  app = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
});
afterAll(async () => {
  for (const each of closing) await each.server.close();
  await app.end();
});

async function numberWith(answers: { [path: string]: Answer }, config?: object): Promise<WebhookApp> {
  const made = await webhookApp(app, answers, config);
  closing.push(made);
  return made;
}

/** Half a second of silence, words of a second, and silence. */
const message = {
  kind: 'samples' as const,
  samples: Int16Array.from([...new Int16Array(8000), ...tone({ frequencyHz: 500, durationMs: 1000 })]),
};

async function read(url: string) {
  const response = await fetch(url);
  expect(response.status).toBe(200);
  expect(response.headers.get('content-type')).toBe('audio/wav');
  return readWav(new Uint8Array(await response.arrayBuffer()));
}

describe.concurrent('record', () => {
  test('ends with the silence after a message, without it, and tells where to read it', async () => {
    const answers = {
      '/start': [{ action: 'record', silence_s: 2, beep: false, url: '/done' }],
      '/done': [{ action: 'hangup' }],
    };
    const { number, server } = await numberWith(answers, {});
    const heard = await phoneCalls(app, number, { durationMs: 15_000, speech: message });
    expect(heard.report()).toMatchObject({ endedBy: 'far side' });
    const asked = JSON.parse(server.requests[1]?.body ?? '{}');
    expect(asked).toMatchObject({ type: 'call.recorded', data: { duration: 1, reason: 'silence', digits: '' } });
    const { sampleRateHz, channels } = await read(asked.data.recording_url);
    expect([sampleRateHz, channels.length]).toEqual([8000, 1]);
    const samples = channels[0] as Int16Array;
    expect(samples.length / 8).toBeGreaterThan(950);
    expect(samples.length / 8).toBeLessThan(1500);
    expect(millisecondsOfTone(samples, 500)).toBeGreaterThan(400);
    const call = await app.finishedCall(number);
    const completed = call.events.find((event) => event.event_type === 'recording.completed');
    expect(completed?.event_data).toMatchObject({ source: 'record', recording_url: asked.data.recording_url });
  });

  test('as TwiML: beeps, ends with a key, sends the fields of Twilio, and its status', async () => {
    const record =
      '<Record action="/done" finishOnKey="#" recordingStatusCallback="/status" recordingStatusCallbackEvent="in-progress completed"/>';
    const { number, form, forms, paths } = await numberWith({
      '/start': `<Response>${record}<Hangup/></Response>`,
      '/done': '<Response><Hangup/></Response>',
    });
    const plan = { durationMs: 15_000, digits: '#', digitsAfterMs: 2500 };
    const heard = await phoneCalls(app, number, plan);
    expect(form('/done')).toMatchObject({ Digits: '#', CallStatus: 'in-progress' });
    expect(form('/done').RecordingSid).toMatch(/^RE[0-9a-f]{32}$/);
    expect(Number(form('/done').RecordingDuration)).toBeGreaterThan(0);
    expect(heard.samples().some((sample) => sample !== 0)).toBe(true); // the beep
    await soon(() => expect(forms('/status')).toHaveLength(2));
    expect(forms('/status').map((each) => each.RecordingStatus)).toEqual(['in-progress', 'completed']);
    expect(forms('/status')[1]).toMatchObject({
      RecordingSource: 'RecordVerb',
      RecordingChannels: '1',
      RecordingUrl: form('/done').RecordingUrl,
      CallSid: form('/done').CallSid,
    });
    expect(paths()[0]).toBe('/start');
    await read(`${form('/done').RecordingUrl}.wav`);
  });

  test('of a caller who hangs up is reported too: a voice mail', async () => {
    const { number, form } = await numberWith({ '/start': '<Response><Record action="/done"/></Response>' });
    await phoneCalls(app, number, { durationMs: 2500 });
    await soon(() => expect(form('/done')).toMatchObject({ Digits: 'hangup', CallStatus: 'completed' }));
    await read(form('/done').RecordingUrl as string);
  });

  test('of nothing goes on with the next verb', async () => {
    const { number, paths } = await numberWith({
      '/start': '<Response><Record action="/done" timeout="1" playBeep="false"/><Redirect>/next</Redirect></Response>',
      '/next': '<Response><Hangup/></Response>',
    });
    await phoneCalls(app, number, { durationMs: 10_000, speech: { kind: 'silence' } });
    expect(paths()).toEqual(['/start', '/next']);
  });

  test('ends at its longest, untrimmed when asked, and goes with its call', async () => {
    const { number, server } = await numberWith(
      { '/start': [{ action: 'record', max_s: 1, beep: false, url: '/done' }], '/done': [] },
      {},
    );
    await phoneCalls(app, number, { durationMs: 10_000 });
    const { data } = JSON.parse(server.requests[1]?.body ?? '{}');
    expect(data).toMatchObject({ duration: 1, reason: 'max_length' });
    const call = await app.finishedCall(number);
    const [kept] = await app.store.recordings.ofCall(
      { organizationId: app.first?.organizationId ?? '', mode: 'live' },
      call.id,
    );
    const folder = fileURLToPath(new URL('.', kept?.file));
    expect((await readdir(folder)).filter((name) => name.includes(data.recording_id))).toHaveLength(1);
    expect((await fetch(`${data.recording_url.slice(0, -3)}xyz`)).status).toBe(404);
    await app.api('DELETE', `/v1/calls/${call.id}`);
    expect((await fetch(data.recording_url)).status).toBe(404);
    await soon(async () =>
      expect((await readdir(folder)).filter((name) => name.includes(data.recording_id))).toEqual([]),
    );
  });
});
