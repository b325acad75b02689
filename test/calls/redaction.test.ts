/** Nothing that was typed or said in a redacted passage is anywhere on the disk, in the API or in a delivery. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { WebSocket } from 'ws';
import { linearToUlaw } from '../../media/audio/codec/g711.js';
import { writeKeyTone } from '../../media/audio/detect/dtmf-tones.js';
import { tone } from '../../media/audio/dsp/tone.js';
import { readSamples } from '../../media/audio/sample-format.js';
import { ScratchBuffer } from '../../media/audio/scratch-buffer.js';
import { readWav } from '../../media/audio/wav.js';
import { type CallRecord, startTestApp, type TestApp } from '../support/app.js';
import { phoneCalls } from '../support/caller.js';
import { eventually } from '../support/media-engine.js';
import { startReceiver } from '../support/receiver.js';
import { type ScriptedAgent, startScriptedAgent } from '../support/scripted-agent.js';
import { millisecondsOfTone, probeTone } from '../support/tone-probe.js';
import { type WebhookApp, webhookApp } from '../support/webhook-app.js';

let app: TestApp;
let agent: ScriptedAgent;
let steps: ((socket: WebSocket) => void)[] = [];
const servers: WebhookApp[] = [];
const events = { bodies: [] as string[] };
let deliveries: Awaited<ReturnType<typeof startReceiver>>;

beforeAll(async () => {
  app = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
  deliveries = await startReceiver((request, response) => {
    events.bodies.push(request.body);
    response.writeHead(204).end();
  });
  const words = Buffer.from(
    Uint8Array.from(tone({ frequencyHz: 1000, durationMs: 20 }), (sample) => linearToUlaw[sample & 0xffff]!),
  );
  let frames = 0;
  agent = await startScriptedAgent({
    onText: ({ event }) => {
      if (event === 'start') frames = 0;
    },
    onBinary: (_bytes, socket) => {
      frames += 1;
      socket.send(words);
      if (frames % 50 === 0) steps.shift()?.(socket);
    },
  });
});
afterAll(async () => {
  for (const { server } of servers) await server.close();
  await agent.close();
  await app.end();
  await deliveries.close();
});

const dataOf = (call: CallRecord, type: string) =>
  call.events.filter(({ event_type }) => event_type === type).map(({ event_data }) => event_data);

async function recordingOf(id: string) {
  const read = () => app.api<CallRecord & { recording_url: string | null }>('GET', `/v1/calls/${id}`);
  await eventually(async () => dataOf(await read(), 'recording.completed').length > 0, 'the recording');
  const response = await fetch((await read()).recording_url!);
  const { channels } = readWav(new Uint8Array(await response.arrayBuffer()));
  return channels as [Int16Array, Int16Array];
}

/** All files of the data folder, the write-ahead log of the database included. */
function onDisk(): string {
  const folder = path.dirname(app.databaseFile);
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((file) => path.join(folder, file))
    .filter((file) => statSync(file).isFile() && !file.endsWith('.wav'))
    .map((file) => readFileSync(file, 'latin1'))
    .join('\n');
}

describe('a gather with redact', () => {
  it('brings the keys to its webhook, and to nothing else', async () => {
    const made = await webhookApp(
      app,
      {
        '/start': [
          { action: 'answer' },
          { action: 'pause', seconds: 0.6 },
          { action: 'gather', num_digits: 4, timeout_s: 8, redact: true, url: '/got' },
          { action: 'hangup' },
        ],
        '/got': [{ action: 'pause', seconds: 1.5 }, { action: 'hangup' }],
      },
      { events_url: `${deliveries.url}/events` },
      { record: true },
    );
    servers.push(made);
    const speech = { kind: 'tone', frequencyHz: 440 } as const;
    await phoneCalls(app, made.number, { digits: '4929', digitsAfterMs: 1200, durationMs: 12_000, speech });
    const { id } = await app.finishedCall(made.number);
    const asked = made.server.requests.filter(({ path: url }) => url === '/got').map(({ body }) => JSON.parse(body));
    expect(asked[0].data).toMatchObject({ digits: '4929', reason: 'num_digits' });

    const capsule = await app.api<{ call: CallRecord }>('GET', `/v1/calls/${id}/capsule`);
    const keys = dataOf(capsule.call, 'dtmf.received');
    expect(keys.length).toBe(4);
    for (const key of keys) expect(key).toEqual({ redacted: true, method: 'rfc4733', duration_ms: expect.anything() });
    expect(dataOf(capsule.call, 'redaction.started')).toEqual([{ source: 'gather' }]);
    const [ended] = dataOf(capsule.call, 'redaction.ended') as [{ from_ms: number; to_ms: number; reason: string }];
    expect(ended.reason).toBe('stopped');
    expect(ended.from_ms).toBeGreaterThanOrEqual(500);
    expect(ended.to_ms - ended.from_ms).toBeGreaterThan(600);

    const [left, right] = await recordingOf(id);
    const within = [ended.from_ms + 100, ended.to_ms - 100].map((ms) => ms * 8) as [number, number];
    for (const channel of [left, right]) expect(channel.subarray(...within).some((sample) => sample !== 0)).toBe(false);
    expect(millisecondsOfTone(left, 440)).toBeGreaterThan(800); // before and after it

    await eventually(() => events.bodies.some((body) => body.includes('call.completed')), 'the deliveries');
    expect(events.bodies.filter((body) => body.includes('dtmf.received')).length).toBe(4);
    for (const text of [JSON.stringify(capsule), events.bodies.join('\n'), onDisk()])
      expect(text).not.toMatch(/"digits?":"/);
  });

  it('is `log="false"` in TwiML', async () => {
    const made = await webhookApp(app, {
      '/start': '<Response><Gather numDigits="1" log="false" action="/got"/></Response>',
      '/got': '<Response><Hangup/></Response>',
    });
    servers.push(made);
    await phoneCalls(app, made.number, { digits: '7', digitsAfterMs: 500 });
    expect(made.form('/got').Digits).toBe('7');
    const call = await app.finishedCall(made.number);
    expect(dataOf(call, 'dtmf.received')).toEqual([expect.not.objectContaining({ digit: '7' })]);
    expect(dataOf(call, 'redaction.ended').length).toBe(1);
  });
});

describe('an agent', () => {
  it('redacts what is said and typed while it asks for a secret', async () => {
    const number = '+19995557101';
    const { endpointId } = await app.connectNumber(number, agent.url, { protocol: 'raw', encoding: 'ulaw' });
    await app.api('PATCH', `/v1/endpoints/${endpointId}`, { record: true });
    const send = (message: object) => (socket: WebSocket) => socket.send(JSON.stringify(message));
    const both = (text: string) => (socket: WebSocket) => {
      for (const speaker of ['caller', 'agent']) send({ event: 'transcript', speaker, text })(socket);
    };
    steps = [
      both('room four, please'),
      send({ event: 'redact', on: true }),
      (socket) => {
        both('it is four nine two nine, Anna')(socket);
        send({ event: 'dtmf', digits: '4929' })(socket);
      },
      send({ event: 'redact', on: false }),
      send({ event: 'redact', on: 'no' }),
      send({ event: 'hangup' }),
    ];
    await phoneCalls(app, number, { durationMs: 15_000, digits: '55', digitsAfterMs: 2500 });
    const call = await app.finishedCall(number);
    expect(call.transcript).toBe(
      'caller: room four, please\nagent: room four, please\ncaller: it is [redacted], Anna\nagent: it is [redacted], Anna',
    );
    expect(dataOf(call, 'transcript.final').map(({ text }) => text)).not.toContain('it is four nine two nine, Anna');
    expect(dataOf(call, 'dtmf.sent')).toEqual([{ redacted: true, source: 'agent' }]);
    expect(dataOf(call, 'redaction.started')).toEqual([{ source: 'agent' }]);
    const [ended] = dataOf(call, 'redaction.ended') as [{ from_ms: number; to_ms: number }];
    const [left, right] = await recordingOf(call.id);
    const within = [ended.from_ms + 100, ended.to_ms - 100].map((ms) => ms * 8) as [number, number];
    for (const channel of [left, right]) expect(channel.subarray(...within).some((sample) => sample !== 0)).toBe(false);
    expect(millisecondsOfTone(left, 440)).toBeGreaterThan(500);
    expect(dataOf(call, 'agent.warning').map(({ code }) => code)).toContain('bad_field');
    expect(onDisk()).not.toContain('four nine two nine');
  });

  it('is redacted by the API, until a limit', async () => {
    const number = '+19995557102';
    await app.connectNumber(number, agent.url, { protocol: 'raw', encoding: 'ulaw' });
    const say = (socket: WebSocket) =>
      socket.send(JSON.stringify({ event: 'transcript', speaker: 'caller', text: 'my name is Anna' }));
    steps = [];
    const talking = phoneCalls(app, number, { durationMs: 15_000 });
    const running = async () =>
      (await app.api<{ data: CallRecord[] }>('GET', '/v1/calls?status=in_progress')).data.find(
        ({ answered_at }) => answered_at,
      );
    await eventually(async () => (await running()) !== undefined, 'the call');
    const { id } = (await running())!;
    await app.api('POST', `/v1/calls/${id}/redact`, { on: true, transcript: 'some' }, 400);
    await app.api('POST', `/v1/calls/${id}/redact`, {}, 400);
    await app.api('POST', `/v1/calls/${id}/redact`, { on: false });
    await app.api('POST', `/v1/calls/${id}/redact`, { on: true, transcript: 'all', streams: true, max_s: 3 });
    steps = [say, () => {}, () => {}, () => {}, (socket) => socket.send(JSON.stringify({ event: 'hangup' }))];
    await talking;
    const call = await app.finishedCall(number);
    expect(call.transcript).toBe('caller: [redacted]');
    expect(dataOf(call, 'redaction.started')).toEqual([{ source: 'api' }]);
    expect(dataOf(call, 'redaction.ended')).toMatchObject([{ reason: 'limit' }]);
    await app.api('POST', `/v1/calls/${id}/redact`, { on: true }, 409);
  });

  it('with redact_dtmf stores no key, typed as event or as tones', async () => {
    const number = '+19995557103';
    const config = { protocol: 'raw', encoding: 'ulaw', redact_dtmf: true };
    const { endpointId } = await app.connectNumber(number, agent.url, config);
    await app.api('PATCH', `/v1/endpoints/${endpointId}`, { record: true });
    steps = [() => {}, () => {}, () => {}, (socket) => socket.send(JSON.stringify({ event: 'hangup' }))];
    // Speech, and in it the tones of a phone that sends its keys twice: as events and in the audio.
    const samples = tone({ frequencyHz: 440, durationMs: 6000, amplitude: 3000 });
    const keyTone = new Uint8Array(8 * 120);
    writeKeyTone('5', 'PCMU', 0, keyTone, 0, keyTone.length);
    samples.set(readSamples(keyTone, 'PCMU', new ScratchBuffer(Int16Array)), 8 * 1500);
    await phoneCalls(app, number, {
      ...{ durationMs: 15_000, digits: '49', digitsAfterMs: 2500 },
      speech: { kind: 'samples', samples },
    });
    expect(agent.messages.filter(({ event }) => event === 'dtmf').map(({ digits }) => digits)).toEqual(
      expect.arrayContaining(['4', '9']),
    );
    const call = await app.finishedCall(number);
    for (const key of dataOf(call, 'dtmf.received')) expect(key).toMatchObject({ redacted: true });
    expect(dataOf(call, 'dtmf.received').length).toBe(2);
    const [left] = await recordingOf(call.id);
    expect(millisecondsOfTone(left, 440)).toBeGreaterThan(1000);
    for (let at = 0; at + 160 <= left.length; at += 80)
      expect(probeTone(left.subarray(at, at + 160), 1336).amplitude).toBeLessThan(1500);
  });
});
