/** What callers hear when a text cannot be spoken as it was asked for, and what the record says. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { activeLevelDb, spokenLevelDb } from '../../src/speech/loudness.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { phoneCalls } from '../support/caller.js';
import { type Receiver, startReceiver } from '../support/receiver.js';
import { type Answer, webhookApp } from '../support/webhook-app.js';

let app: TestApp;
let speechServer: Receiver;
let answer: 'fails' | 'hangs' = 'fails';
const closing: { server: Receiver }[] = [];

beforeAll(async () => {
  speechServer = await startReceiver((_request, response) => answer === 'fails' && response.writeHead(500).end());
  app = await startTestApp({ TRUNKLINE_TTS_URL: speechServer.url }, { t1: 100, t2: 400, t4: 500 });
});
afterAll(async () => {
  for (const each of closing) await each.server.close();
  await app.end();
  await speechServer.close();
});

async function heardOf(start: Answer) {
  const made = await webhookApp(app, { '/start': start, '/next': '<Response><Hangup/></Response>' });
  closing.push(made);
  const recording = await phoneCalls(app, made.number, { durationMs: 30_000, speech: { kind: 'silence' } });
  const { events, hangup_cause: cause } = await app.finishedCall(made.number);
  const warnings = events
    .filter(({ event_type }) => event_type === 'webhook.warning')
    .map(({ event_data }) => event_data);
  return { levelDb: activeLevelDb(Int16Array.from(recording.samples()), 8000), warnings, cause, paths: made.paths() };
}

const thanks = '<Say>Thank you for calling, we are glad that you are here.</Say>';

test('a speech server that answers 500 is replaced by the offline voice, and the call goes on', async () => {
  const { levelDb, warnings, cause, paths } = await heardOf(`<Response>${thanks}<Redirect>/next</Redirect></Response>`);
  expect(Math.abs(levelDb - spokenLevelDb)).toBeLessThan(3);
  expect(warnings).toMatchObject([{ code: 'speech_server_failed', endpoint_id: expect.any(String) }]);
  expect(warnings[0]?.message).toBe('The speech server answered 500. The offline voice spoke instead.');
  expect([cause, paths]).toEqual(['normal_clearing', ['/start', '/next']]);
});

test('one that never answers costs a caller four seconds', async () => {
  answer = 'hangs';
  const { levelDb, warnings } = await heardOf('<Response><Say>Another text that is new.</Say></Response>');
  answer = 'fails';
  expect(Math.abs(levelDb - spokenLevelDb)).toBeLessThan(3);
  expect(warnings[0]?.message).toContain('No complete answer within 4000 ms.');
});

test('a text without anything to speak is a warning, although it shall be said for ever', async () => {
  const { warnings, cause, paths } = await heardOf(
    `<Response><Say loop="0">… !</Say>${thanks}<Redirect>/next</Redirect></Response>`,
  );
  expect(warnings.map(({ code }) => code)).toContain('text_not_spoken');
  expect([cause, paths]).toEqual(['normal_clearing', ['/start', '/next']]);
});
