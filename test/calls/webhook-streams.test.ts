import type { AddressInfo } from 'node:net';
import twilio from 'twilio';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WebSocketServer } from 'ws';
import { startTestApp, type TestApp } from '../support/app.js';
import { phoneCalls } from '../support/caller.js';
import { soon, type WebhookApp, webhookApp } from '../support/webhook-app.js';

interface Message {
  event: string;
  streamSid?: string;
  start?: { streamSid: string; tracks: string[]; customParameters: Record<string, string> };
  media?: { track: string };
}

let app: TestApp;
let bots: WebSocketServer;
let botUrl = '';
/** By path. */
const heard = new Map<string, { messages: Message[]; signature: string; closed: boolean }>();
const closing: WebhookApp[] = [];

beforeAll(async () => {
  app = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
  bots = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  bots.on('connection', (socket, request) => {
    const bot = {
      messages: [] as Message[],
      signature: String(request.headers['x-twilio-signature']),
      closed: false,
    };
    heard.set(request.url ?? '', bot);
    socket.on('message', (data) => bot.messages.push(JSON.parse(String(data))));
    socket.on('close', () => {
      bot.closed = true;
    });
  });
  await new Promise((resolve) => bots.once('listening', resolve));
  botUrl = `ws://127.0.0.1:${(bots.address() as AddressInfo).port}`;
});
afterAll(async () => {
  for (const each of closing) await each.server.close();
  await app.end();
  bots.close();
});

describe.concurrent('<Start><Stream>', () => {
  test('gets the audio beside the actions, until <Stop>; its status callbacks are signed', async () => {
    const url = `${botUrl}/copy`;
    const { number, server, secret, forms } = await webhookApp(app, {
      '/start': `<Response><Start><Stream url="${url}" name="copy" track="both_tracks" statusCallback="/stream"><Parameter name="customer" value="C-42"/></Stream></Start><Say>One moment please.</Say><Pause length="1"/><Stop><Stream name="copy"/></Stop><Pause length="1"/><Hangup/></Response>`,
    });
    closing.push({ server } as WebhookApp);
    const phone = await phoneCalls(app, number, { durationMs: 20_000 });
    expect(phone.report()).toMatchObject({ endedBy: 'far side' });
    const bot = heard.get('/copy');
    expect(twilio.validateRequest(secret, bot?.signature ?? '', url, {})).toBe(true);
    const start = bot?.messages.find((message) => message.event === 'start')?.start;
    expect(start).toMatchObject({ tracks: ['inbound', 'outbound'], customParameters: { customer: 'C-42' } });
    const media = bot?.messages.filter((message) => message.event === 'media') ?? [];
    for (const track of ['inbound', 'outbound'])
      expect(media.filter((message) => message.media?.track === track).length).toBeGreaterThan(30);
    expect(bot?.messages.at(-1)?.event).toBe('stop');
    expect(bot?.closed).toBe(true);
    await soon(() => expect(forms('/stream')).toHaveLength(2));
    expect(forms('/stream').map((form) => form.StreamEvent)).toEqual(['stream-started', 'stream-stopped']);
    expect(forms('/stream')[0]).toMatchObject({ StreamSid: start?.streamSid, StreamName: 'copy' });
    const callback = server.requests.find((request) => request.path === '/stream');
    const signature = String(callback?.headers['x-twilio-signature']);
    expect(twilio.validateRequest(secret, signature, `${server.url}/stream`, forms('/stream')[0] ?? {})).toBe(true);
    // Its second half was not for the bot: two seconds of Pause, one of them streamed.
    const call = await app.finishedCall(number);
    expect(call).toMatchObject({ status: 'completed', hangup_cause: 'normal_clearing' });
  });

  test('that cannot connect is reported, and the call continues; a running one ends with the call', async () => {
    const { number, server, forms, paths } = await webhookApp(app, {
      '/start': `<Response><Start><Stream url="ws://127.0.0.1:9/none" statusCallback="/stream"/></Start><Start><Stream url="${botUrl}/rest"/></Start><Pause length="1"/><Redirect>/next</Redirect></Response>`,
      '/next': '<Response><Hangup/></Response>',
    });
    closing.push({ server } as WebhookApp);
    await phoneCalls(app, number, { durationMs: 20_000 });
    await soon(() => expect(forms('/stream').map((form) => form.StreamEvent)).toEqual(['stream-error']));
    expect(forms('/stream')[0]?.StreamError).not.toBe('');
    expect(paths()).toContain('/next');
    await soon(() => expect(heard.get('/rest')?.closed).toBe(true));
    const media = heard.get('/rest')?.messages.filter((message) => message.event === 'media') ?? [];
    expect(new Set(media.map((message) => message.media?.track))).toEqual(new Set(['inbound']));
  });
});

describe.concurrent('<Connect><Stream>', () => {
  test('tells its status under the name of the stream', async () => {
    const { number, server, forms, form } = await webhookApp(app, {
      '/start': `<Response><Connect action="/after"><Stream url="${botUrl}/talk" name="bot" statusCallback="/stream"/></Connect></Response>`,
    });
    closing.push({ server } as WebhookApp);
    await phoneCalls(app, number, { durationMs: 1500 });
    await soon(() =>
      expect(forms('/stream').map((each) => each.StreamEvent)).toEqual(['stream-started', 'stream-stopped']),
    );
    const start = heard.get('/talk')?.messages.find((message) => message.event === 'start')?.start;
    expect(forms('/stream')[0]).toMatchObject({ StreamSid: start?.streamSid, StreamName: 'bot' });
    await soon(() => expect(form('/after')).toMatchObject({ CallStatus: 'completed' }));
  });
});
