import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { tone } from '../../media/audio/dsp/tone.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { phoneCalls } from '../support/caller.js';
import { collectGarbage } from '../support/collect-garbage.js';
import { type Receiver, startReceiver } from '../support/receiver.js';
import { type Answer, type WebhookApp, webhookApp } from '../support/webhook-app.js';

let app: TestApp;
let engine: Receiver;
const closing: { server: Receiver }[] = [];

beforeAll(async () => {
  engine = await startReceiver((request, response) => {
    if (isIn('es', request.body)) return void setTimeout(collectGarbage, 100);
    if (isIn('fr', request.body)) return void response.writeHead(500).end();
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ text: 'a table for two' }));
  });
  app = await startTestApp({ TRUNKLINE_TRANSCRIPTION_URL: engine.url }, { t1: 100, t2: 400, t4: 500 });
});
afterAll(async () => {
  for (const each of closing) await each.server.close();
  await app.end();
  await engine.close();
});

/** Tests run beside each other: each speaks a language of its own, French fails, and Spanish is never answered. */
const isIn = (language: string, request: string) => request.includes(`\r\n\r\n${language}\r\n`);
const askedIn = (language: string) => engine.requests.filter(({ body }) => isIn(language, body));

async function numberWith(answers: { [path: string]: Answer }, config?: object): Promise<WebhookApp> {
  const made = await webhookApp(app, answers, config);
  closing.push(made);
  return made;
}

/** Silence, words of a second, and silence. */
const words = (silenceMs: number) => ({
  kind: 'samples' as const,
  samples: Int16Array.from([...new Int16Array(silenceMs * 8), ...tone({ frequencyHz: 500, durationMs: 1000 })]),
});

const long = 'This is a prompt that goes on and on, '.repeat(8);

describe.concurrent('a gather of speech', () => {
  test('ends with the silence after the words, which interrupted the prompt', async () => {
    const { number, form } = await numberWith({
      '/start': `<Response><Gather input="speech dtmf" action="/heard" speechTimeout="auto" language="en-GB" hints="table, chair"><Say>${long}</Say></Gather></Response>`,
      '/heard': '<Response><Hangup/></Response>',
    });
    const [startedMs, before] = [performance.now(), askedIn('en').length];
    await phoneCalls(app, number, { durationMs: 30_000, speech: words(2000) });
    expect(form('/heard')).toMatchObject({ SpeechResult: 'a table for two', Confidence: '1.0' });
    expect(form('/heard').Digits).toBeUndefined();
    expect(performance.now() - startedMs).toBeLessThan(12_000); // the prompt alone takes longer
    expect(askedIn('en')).toHaveLength(before + 1);
    const asked = askedIn('en').at(-1)?.body ?? '';
    expect(asked).toContain('RIFF');
    for (const field of ['en', 'table, chair']) expect(asked).toContain(`\r\n\r\n${field}\r\n`);
  });

  test('is left when a key comes first', async () => {
    const { number, form } = await numberWith({
      '/start': `<Response><Gather input="dtmf speech" numDigits="1" action="/heard" language="it-IT"><Say>${long}</Say></Gather></Response>`,
      '/heard': '<Response><Hangup/></Response>',
    });
    const plan = { durationMs: 30_000, speech: { kind: 'silence' as const }, digits: '7', digitsAfterMs: 1500 };
    await phoneCalls(app, number, plan);
    expect(form('/heard')).toMatchObject({ Digits: '7' });
    expect(askedIn('it')).toHaveLength(0);
  });

  test('of nothing goes on with the next verb', async () => {
    const { number, paths } = await numberWith({
      '/start': '<Response><Gather input="speech" action="/heard" timeout="1"/><Redirect>/next</Redirect></Response>',
      '/next': '<Response><Hangup/></Response>',
    });
    await phoneCalls(app, number, { durationMs: 20_000, speech: { kind: 'silence' } });
    expect(paths()).toEqual(['/start', '/next']);
  });

  test('in JSON has the speech; a failed engine is reported and counts as no speech', async () => {
    const actions = (language: string) => [{ action: 'gather', input: ['speech'], url: '/heard', language }];
    const good = await numberWith({ '/start': actions('de'), '/heard': [] }, {});
    const bad = await numberWith({ '/start': actions('fr'), '/heard': [] }, {});
    const calls = [good, bad].map(({ number }) => phoneCalls(app, number, { durationMs: 20_000, speech: words(500) }));
    await Promise.all(calls);
    expect(JSON.parse(good.server.requests[1]?.body ?? '{}')).toMatchObject({
      type: 'call.gathered',
      data: { digits: '', speech: 'a table for two', reason: 'speech' },
    });
    expect(JSON.parse(bad.server.requests[1]?.body ?? '{}').data).toEqual({ digits: '', reason: 'timeout' });
    const call = await app.finishedCall(bad.number);
    expect(call.events.find((event) => event.event_type === 'agent.warning')?.event_data).toMatchObject({
      code: 'transcription_failed',
    });
  });

  test('goes on after 5 s when the engine never answers, although the garbage is collected meanwhile', async () => {
    const { number, paths } = await numberWith({
      '/start':
        '<Response><Gather input="speech" action="/heard" language="es-ES"/><Redirect>/next</Redirect></Response>',
      '/next': '<Response><Hangup/></Response>',
    });
    const before = askedIn('es').length;
    await phoneCalls(app, number, { durationMs: 40_000, speech: words(500) });
    expect(askedIn('es')).toHaveLength(before + 1);
    expect(paths()).toEqual(['/start', '/next']);
    const { events } = await app.finishedCall(number);
    const warning = events.find((event) => event.event_type === 'agent.warning');
    expect(warning?.event_data).toEqual({
      code: 'transcription_failed',
      message: 'The answer of the transcription engine did not come within 5 s.',
    });
  });

  test('of a caller who hangs up asks nobody', async () => {
    const { number, paths } = await numberWith({
      '/start': '<Response><Gather input="speech" action="/heard" timeout="10" language="pt-BR"/></Response>',
    });
    await phoneCalls(app, number, { durationMs: 1000 });
    await app.finishedCall(number);
    expect(paths()).toEqual(['/start']);
    expect(askedIn('pt')).toHaveLength(0);
  });
});
