/** What runs beside the call: recordings, transcriptions, and the report of its end. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { tone } from '../../media/audio/dsp/tone.js';
import { readWav } from '../../media/audio/wav.js';
import { type CallRecord, startTestApp, type TestApp } from '../support/app.js';
import { phoneCalls } from '../support/caller.js';
import { type Receiver, startReceiver } from '../support/receiver.js';
import { probeTone } from '../support/tone-probe.js';
import { soon, type WebhookApp, webhookApp } from '../support/webhook-app.js';

let engine: Receiver;
let withEngine: TestApp;
let without: TestApp;
const closing: WebhookApp[] = [];
let utterances = 0;

beforeAll(async () => {
  engine = await startReceiver((_, response) => {
    utterances += 1;
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ text: `sentence ${utterances}` }));
  });
  withEngine = await startTestApp({ TRUNKLINE_TRANSCRIPTION_URL: engine.url }, { t1: 100, t2: 400, t4: 500 });
  without = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
});
afterAll(async () => {
  for (const each of closing) await each.server.close();
  await withEngine.end();
  await without.end();
  await engine.close();
});

async function application(app: TestApp, answers: Parameters<typeof webhookApp>[1], config?: object) {
  const made = await webhookApp(app, answers, config);
  closing.push(made);
  return made;
}

/** Two sentences of a second each, with silence around them. */
const speech = {
  kind: 'samples' as const,
  samples: Int16Array.from([
    ...new Int16Array(16_000),
    ...tone({ frequencyHz: 500, durationMs: 1000 }),
    ...new Int16Array(20_000),
    ...tone({ frequencyHz: 500, durationMs: 1000 }),
    ...new Int16Array(24_000),
  ]),
};

describe('<Start><Recording>', () => {
  test('records the call from now on, and reports the file', async () => {
    const { number, forms } = await application(without, {
      '/start':
        '<Response><Start><Recording track="inbound" recordingStatusCallback="/made" recordingStatusCallbackEvent="in-progress completed"/></Start><Pause length="4"/></Response>',
    });
    await phoneCalls(without, number, {
      durationMs: 20_000,
      speech: { kind: 'samples', samples: tone({ frequencyHz: 500, durationMs: 4000, amplitude: 8000 }) },
    });
    await soon(() => expect(forms('/made')).toHaveLength(2), 15_000);
    const [begun, made] = forms('/made');
    expect(begun).toMatchObject({ RecordingStatus: 'in-progress', RecordingSource: 'StartCallRecordingTwiML' });
    expect(made).toMatchObject({ RecordingStatus: 'completed', RecordingChannels: '1', RecordingTrack: 'inbound' });
    expect(made?.RecordingSid).toBe(begun?.RecordingSid);
    const audio = await fetch(made?.RecordingUrl ?? '');
    const { channels, sampleRateHz } = readWav(Buffer.from(await audio.arrayBuffer()));
    expect(channels).toHaveLength(1);
    // wherever in the file the caller's tone is: a late machine has gaps in it
    const part = sampleRateHz / 5;
    const parts = Array.from({ length: Math.floor((channels[0]?.length ?? 0) / part) }, (_, i) =>
      channels[0]?.subarray(i * part, (i + 1) * part),
    );
    expect(Math.max(...parts.map((each) => probeTone(each ?? new Int16Array(), 500).amplitude))).toBeGreaterThan(2000);
    const { events } = await without.finishedCall(number);
    expect(events.filter(({ event_type: type }) => type === 'webhook.warning')).toEqual([]);
  });
});

describe('<Start><Transcription>', () => {
  test('reports each utterance of the caller, and writes it into the record', async () => {
    const before = utterances;
    const { number, forms } = await application(withEngine, {
      '/start':
        '<Response><Start><Transcription name="notes" languageCode="en-GB" track="inbound_track" inboundTrackLabel="customer" statusCallbackUrl="/heard"/></Start><Pause length="60"/></Response>',
    });
    const calling = phoneCalls(withEngine, number, { durationMs: 12_000, speech });
    await calling;
    const of = (event: string) => forms('/heard').filter((form) => form.TranscriptionEvent === event);
    await soon(() => expect(of('transcription-stopped')).toHaveLength(1), 15_000);
    expect(of('transcription-started')).toMatchObject([{ Name: 'notes', LanguageCode: 'en-GB', SequenceId: '1' }]);
    const content = of('transcription-content');
    expect(content.length).toBeGreaterThanOrEqual(2);
    expect(content[0]).toMatchObject({ Track: 'inbound_track', InboundTrackLabel: 'customer', Final: 'true' });
    expect(content[0]?.TranscriptionSid).toMatch(/^GT[0-9a-f]{32}$/);
    expect(JSON.parse(content[0]?.TranscriptionData ?? '')).toEqual({ transcript: `sentence ${before + 1}` });
    const call = await withEngine.finishedCall(number);
    expect(call.transcript).toContain(`caller: sentence ${before + 1}\ncaller: sentence ${before + 2}`);
    expect(call.events.filter(({ event_type: type }) => type === 'transcript.final').length).toBeGreaterThanOrEqual(2);
  });

  test('ends with <Stop>, and the call goes on', async () => {
    const { number, forms } = await application(withEngine, {
      '/start':
        '<Response><Start><Transcription name="x" track="inbound_track" statusCallbackUrl="/heard"/></Start><Pause length="1"/><Stop><Transcription name="x"/></Stop><Pause length="1"/></Response>',
    });
    await phoneCalls(withEngine, number, { durationMs: 20_000 });
    await soon(() =>
      expect(forms('/heard').map(({ TranscriptionEvent: event }) => event)).toEqual([
        'transcription-started',
        'transcription-stopped',
      ]),
    );
    expect(await withEngine.finishedCall(number)).toMatchObject({ status: 'completed' });
  });

  test('without an engine: a warning says what is needed, and the call goes on', async () => {
    const { number, form } = await application(without, {
      '/start':
        '<Response><Start><Transcription track="inbound_track" statusCallbackUrl="/heard"/></Start><Pause length="1"/></Response>',
    });
    await phoneCalls(without, number, { durationMs: 20_000 });
    await soon(() => expect(form('/heard').TranscriptionEvent).toBe('transcription-error'));
    const call: CallRecord = await without.finishedCall(number);
    const [warning] = call.events.filter(({ event_type: type }) => type === 'webhook.warning');
    expect(warning?.event_data.message).toContain('npx trunkline setup speech');
    expect(call.status).toBe('completed');
  });
});

describe('a recording with transcribe', () => {
  test('is written down, and the call goes on meanwhile', async () => {
    const before = utterances;
    const { number, form } = await application(withEngine, {
      '/start':
        '<Response><Record timeout="3" playBeep="false" transcribe="true" transcribeCallback="/text" action="/next"/></Response>',
      '/next': '<Response><Pause length="1"/></Response>',
    });
    await phoneCalls(withEngine, number, { durationMs: 20_000, speech });
    await soon(() => expect(form('/text').TranscriptionStatus).toBe('completed'), 15_000);
    expect(form('/text').TranscriptionText).toBe(`sentence ${before + 1}`);
    expect(form('/text').RecordingSid).toBe(form('/next').RecordingSid);
    const { transcript } = await withEngine.finishedCall(number);
    expect(transcript).toContain(`caller: sentence ${before + 1}`);
  });

  test('in JSON, without an engine: it has failed, and a warning says what is needed', async () => {
    const { number, server } = await application(
      without,
      {
        '/start': [{ action: 'record', silence_s: 3, beep: false, transcribe_url: '/text', url: '/next' }],
        '/next': [{ action: 'pause', seconds: 1 }],
      },
      {},
    );
    await phoneCalls(without, number, { durationMs: 20_000, speech });
    const bodies = () => server.requests.map(({ body }) => JSON.parse(body) as { type: string; data: object });
    await soon(() => expect(bodies().map(({ type }) => type)).toContain('call.transcribed'));
    const told = bodies().find(({ type }) => type === 'call.transcribed');
    expect(told?.data).toMatchObject({ status: 'failed' });
    const { events } = await without.finishedCall(number);
    const [warning] = events.filter(({ event_type: type }) => type === 'webhook.warning');
    expect(warning?.event_data.message).toContain('npx trunkline setup speech');
  });
});

describe('status_callback_url', () => {
  test('gets the end of an inbound call, once', async () => {
    const server = await startReceiver((_, response) => void response.writeHead(204).end());
    const made = await application(
      without,
      { '/start': '<Response><Pause length="1"/></Response>' },
      { format: 'twiml', status_callback_url: `${server.url}/ended` },
    );
    await phoneCalls(without, made.number, { durationMs: 20_000 });
    await soon(() => expect(server.requests).toHaveLength(1));
    const form = Object.fromEntries(new URLSearchParams(server.requests[0]?.body));
    expect(form).toMatchObject({
      ...{ CallStatus: 'completed', Direction: 'inbound', To: made.number, CallbackSource: 'call-progress-events' },
      CallSid: made.form('/start').CallSid,
    });
    expect(Number(form.CallDuration)).toBeGreaterThanOrEqual(1);
    expect(server.requests[0]?.headers['x-twilio-signature']).toBeTruthy();
    await server.close();
  });

  test('of a number goes before that of its endpoint', async () => {
    const server = await startReceiver((_, response) => void response.writeHead(204).end());
    const made = await application(
      without,
      { '/start': '<Response><Hangup/></Response>' },
      { format: 'twiml', status_callback_url: `${server.url}/endpoint` },
    );
    await reportTo(made.number, { status_callback_url: `${server.url}/number?x=1`, status_callback_method: 'GET' });
    await phoneCalls(without, made.number, { durationMs: 20_000 });
    await soon(() => expect(server.requests).toHaveLength(1));
    const [asked] = server.requests;
    expect([asked?.method, asked?.path]).toEqual(['GET', expect.stringMatching(/^\/number\?x=1&/)]);
    expect(new URL(asked?.path ?? '', server.url).searchParams.get('CallSid')).toBe(made.form('/start').CallSid);
    expect(asked?.headers['x-twilio-signature']).toBeTruthy();
    await reportTo(made.number, { status_callback_url: null });
    await phoneCalls(without, made.number, { durationMs: 20_000 });
    await soon(() => expect(server.requests.map(({ path }) => path)).toEqual([asked?.path, '/endpoint']));
    await server.close();
  });

  test('of a number with an agent, which has no secret to sign with', async () => {
    const server = await startReceiver((_, response) => void response.writeHead(204).end());
    const number = '+12025557171';
    const { id } = await without.api<{ id: string }>('POST', '/v1/endpoints', {
      ...{ name: 'Gone', type: 'agent', provider: 'custom', target: 'ws://127.0.0.1:9', provider_config: {} },
    });
    const status_callback_url = `${server.url}/number`;
    await without.api('POST', '/v1/phone-numbers', { number, endpoint_id: id, status_callback_url });
    await phoneCalls(without, number, { durationMs: 20_000 });
    await soon(() => expect(server.requests).toHaveLength(1));
    const form = Object.fromEntries(new URLSearchParams(server.requests[0]?.body));
    expect(form).toMatchObject({ CallStatus: 'failed', Direction: 'inbound', To: number });
    expect(server.requests[0]?.headers['x-twilio-signature']).toBeUndefined();
    await server.close();
  });

  async function reportTo(number: string, change: object): Promise<void> {
    const { data } = await without.api<{ data: { id: string; number: string }[] }>('GET', '/v1/phone-numbers');
    await without.api('PATCH', `/v1/phone-numbers/${data.find((each) => each.number === number)?.id}`, change);
  }
});
