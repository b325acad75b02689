/** A speech server's text is heard while the rest of it is still being made. The server speaks in tones. */
import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tone } from '../../media/audio/dsp/tone.js';
import { writeWav } from '../../media/audio/wav.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { phoneCalls } from '../support/caller.js';
import { type Receiver, startReceiver } from '../support/receiver.js';
import { probeTone } from '../support/tone-probe.js';
import { type Answer, soon, type WebhookApp, webhookApp } from '../support/webhook-app.js';

let app: TestApp;
let server: Receiver;
const closing: WebhookApp[] = [];
/** What the server says to each text. */
const speech = new Map<string, (response: ServerResponse) => void>();

beforeAll(async () => {
  server = await startReceiver(({ body }, response) => {
    const { input } = JSON.parse(body) as { input: string };
    response.writeHead(200, { 'content-type': 'audio/wav' });
    speech.get(input)?.(response);
  });
  app = await startTestApp({ TRUNKLINE_TTS_URL: server.url }, { t1: 100, t2: 400, t4: 500 });
}, 60_000);

afterAll(async () => {
  for (const each of closing) await each.server.close();
  await app.end();
  await server.close();
});

const rate = 24_000;
const toneOf = (frequencyHz: number, durationMs: number) => tone({ frequencyHz, durationMs, sampleRateHz: rate });
/** A WAV file that does not know its length, as servers begin one. */
function begin(response: ServerResponse, samples: Int16Array): void {
  const file = writeWav({ sampleRateHz: rate, channels: [samples] });
  new DataView(file.buffer).setUint32(40, 0xffff_ffff, true);
  response.write(file);
}
const goOn = (response: ServerResponse, samples: Int16Array) =>
  response.end(new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength));

async function calling(start: Answer, plan: Parameters<typeof phoneCalls>[2] = {}) {
  const made = await webhookApp(app, { '/start': start, '/next': '<Response><Hangup/></Response>' });
  closing.push(made);
  const recording = await phoneCalls(app, made.number, { durationMs: 30_000, speech: { kind: 'silence' }, ...plan });
  const record = await app.finishedCall(made.number);
  const warnings = record.events
    .filter(({ event_type }) => event_type === 'webhook.warning')
    .map(({ event_data }) => event_data);
  return { samples: recording.samples(), warnings, record, paths: made.paths() };
}

/** The twentieths of a second that are this tone: when the first begins and how many there are, in ms. */
function heard(samples: Int16Array, frequencyHz: number): { fromMs: number; ms: number } {
  const blocks = Array.from({ length: Math.floor(samples.length / 400) }, (_, i) => {
    const { amplitude, purityDb } = probeTone(samples.subarray(i * 400, (i + 1) * 400), frequencyHz);
    return amplitude > 500 && purityDb > 6;
  });
  return { fromMs: blocks.indexOf(true) * 50, ms: blocks.filter(Boolean).length * 50 };
}

const redirect = '<Redirect>/next</Redirect>';

describe.concurrent('a text of a speech server', () => {
  it('is heard before the server has made the rest, and later from memory', async () => {
    const text = 'The first half of this text comes much sooner than the second one.';
    speech.set(text, (response) => {
      begin(response, toneOf(440, 600));
      setTimeout(() => goOn(response, toneOf(700, 600)), 1500);
    });
    const start = `<Response><Say>${text}</Say>${redirect}</Response>`;
    const first = await calling(start);
    const [before, after] = [heard(first.samples, 440), heard(first.samples, 700)];
    expect(before.ms).toBeGreaterThan(400);
    expect(after.ms).toBeGreaterThan(400);
    expect(after.fromMs - before.fromMs).toBeGreaterThan(1000); // had it waited for all, they would follow at once
    expect(first.warnings).toEqual([]);
    const asked = server.requests.filter(({ body }) => body.includes(text)).length;
    const second = await calling(start);
    expect(heard(second.samples, 700).fromMs - heard(second.samples, 440).fromMs).toBeLessThan(800);
    expect(server.requests.filter(({ body }) => body.includes(text))).toHaveLength(asked);
    expect(asked).toBe(1);
  });

  it('that stops in the middle is left, with a warning, and the call goes on', async () => {
    const [stops, next] = [
      'This sentence is long enough to be one of its own, and stops.',
      'The next sentence is long enough to be one of its own too.',
    ];
    speech.set(stops, (response) => begin(response, toneOf(500, 600)));
    speech.set(next, (response) => {
      begin(response, toneOf(800, 600));
      response.end();
    });
    const { samples, warnings, paths, record } = await calling(
      `<Response><Say>${stops}</Say><Say>${next}</Say>${redirect}</Response>`,
    );
    expect(heard(samples, 500).ms).toBeGreaterThan(400);
    expect(heard(samples, 800).ms).toBeGreaterThan(400);
    expect(warnings.map(({ code, message }) => [code, message])).toEqual([
      [
        'speech_server_failed',
        'The speech server failed: Nothing more came within 2500 ms. The rest of a sentence was not spoken.',
      ],
    ]);
    expect([record.hangup_cause, paths]).toEqual(['normal_clearing', ['/start', '/next']]);
  });

  it('is not made any further when a key interrupts it, nor is what would follow', async () => {
    const [first, second] = [
      'A long announcement that somebody interrupts by a key, at last.',
      'And another sentence that was asked for ahead of its time.',
    ];
    const closed = new Map<string, boolean>();
    for (const text of [first, second])
      speech.set(text, (response) => {
        closed.set(text, false);
        response.on('close', () => closed.set(text, !response.writableFinished));
        begin(response, toneOf(900, 800));
        const more = setInterval(() => response.write(new Uint8Array(toneOf(900, 100).buffer)), 100);
        response.on('close', () => clearInterval(more));
      });
    const { paths } = await calling(
      `<Response><Gather numDigits="1" action="/next"><Say>${first} ${second}</Say></Gather></Response>`,
      { digits: '5', digitsAfterMs: 2000 },
    );
    expect(paths).toEqual(['/start', '/next']);
    await soon(() => expect([...closed.values()]).toEqual([true, true]));
  });

  it('is decoded as a whole when it is no WAV file', async () => {
    const text = 'A server that answers with a compressed file.';
    const mp3 = readFileSync(new URL('../fixtures/audio/tone-440.mp3', import.meta.url));
    speech.set(text, (response) => void response.end(mp3));
    const { samples, warnings } = await calling(`<Response><Say>${text}</Say></Response>`);
    expect(heard(samples, 440).ms).toBeGreaterThan(700);
    expect(warnings).toEqual([]);
  });

  it('is repeated as often as it should be', async () => {
    const text = 'Three times.';
    speech.set(text, (response) => {
      begin(response, toneOf(1000, 400));
      response.end();
    });
    const { samples } = await calling(`<Response><Say loop="3">${text}</Say></Response>`);
    const { ms } = heard(samples, 1000);
    expect(ms).toBeGreaterThan(900);
    expect(ms).toBeLessThan(1500);
  });
});
