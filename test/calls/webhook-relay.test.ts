/** An application that speaks with callers by Twilio's ConversationRelay. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { startTestApp, type TestApp } from '../support/app.js';
import { type Receiver, startReceiver } from '../support/receiver.js';
import { toneCaller, tonesHz } from '../support/tone-caller.js';
import { soon, type WebhookApp, webhookApp } from '../support/webhook-app.js';

type Message = { type: string; [name: string]: unknown };

let engine: Receiver;
/** What the engine understands. */
let understood = 'a table for two';
let app: TestApp;
let deaf: TestApp;
const closing: (() => unknown)[] = [];

beforeAll(async () => {
  engine = await startReceiver((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ text: understood }));
  });
  app = await startTestApp({ TRUNKLINE_TRANSCRIPTION_URL: engine.url }, { t1: 100, t2: 400, t4: 500 });
  deaf = await startTestApp({}, { t1: 100, t2: 400, t4: 500 });
});
afterAll(async () => {
  for (const close of closing.reverse()) await close();
  await app.end();
  await deaf.end();
  await engine.close();
});

/** The application: what it got, and its socket. */
async function relay(
  of: TestApp,
  attributes: string | object,
  onMessage: (message: Message, ws: WebSocket) => void = () => {},
) {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as { port: number };
  const got: Message[] = [];
  const sockets: WebSocket[] = [];
  const signatures: unknown[] = [];
  server.on('connection', (ws, { headers }) => {
    sockets.push(ws);
    signatures.push(headers['x-twilio-signature']);
    ws.on('message', (data) => {
      const message = JSON.parse(String(data)) as Message;
      got.push(message);
      onMessage(message, ws);
    });
  });
  const webhook: WebhookApp = await webhookApp(
    of,
    {
      '/start':
        typeof attributes === 'object'
          ? [{ action: 'relay', url: `ws://127.0.0.1:${port}/relay`, result_url: '/after', ...attributes }]
          : `<Response><Connect action="/after"><ConversationRelay url="ws://127.0.0.1:${port}/relay" ${attributes}><Parameter name="who" value="Ada"/></ConversationRelay></Connect></Response>`,
      '/after': '<Response><Hangup/></Response>',
    },
    { format: typeof attributes === 'object' ? 'json' : 'twiml' },
  );
  closing.push(async () => {
    await webhook.server.close();
    for (const ws of sockets) ws.terminate();
    await new Promise((resolve) => server.close(resolve));
  });
  const types = (type: string) => got.filter((message) => message.type === type);
  const send = (message: object) => sockets.at(-1)?.send(JSON.stringify(message));
  return { webhook, got, types, send, sockets, signatures };
}

/** The caller hears something that is not silence. */
const hearsVoice = (caller: Awaited<ReturnType<typeof toneCaller>>, after: number) =>
  caller.phone.rtp.until(
    () => caller.phone.rtp.heard.slice(after).some(({ payload }) => payload[5] !== 0xff && payload[9] !== 0x7f),
    'a voice',
    20_000,
  );

describe('ConversationRelay', () => {
  test('greets, hears the caller, speaks tokens, and hands over at the end', async () => {
    const bot = await relay(
      app,
      'welcomeGreeting="Welcome to the table service." language="en-GB" dtmfDetection="true"',
    );
    const caller = await toneCaller(app, bot.webhook.number, 0);
    try {
      await soon(() => expect(bot.types('setup')).toHaveLength(1));
      const start = bot.webhook.form('/start');
      expect(bot.types('setup')[0]).toMatchObject({
        ...{ callSid: start.CallSid, accountSid: start.AccountSid, from: start.From, to: start.To },
        ...{ direction: 'inbound', customParameters: { who: 'Ada' } },
      });
      expect(bot.types('setup')[0]?.sessionId).toMatch(/^VX[0-9a-f]{32}$/);
      expect(bot.signatures[0]).toBeTruthy();
      await hearsVoice(caller, 0);
      caller.press(5);
      await soon(() => expect(bot.types('dtmf')).toMatchObject([{ digit: '5' }]));
      for (const token of ['Your ta', 'ble is ', 'ready. '])
        bot.send({ type: 'text', token, last: false, interruptible: false });
      bot.send({ type: 'text', token: 'Goodbye.', last: true, interruptible: false });
      bot.send({ type: 'end', handoffData: '{"reason":"done"}' });
      await caller.untilLet();
      const after = bot.webhook.form('/after');
      expect(after).toMatchObject({ SessionStatus: 'ended', HandoffData: '{"reason":"done"}' });
      expect(after.SessionId).toBe(bot.types('setup')[0]?.sessionId);
      const call = await app.finishedCall(bot.webhook.number);
      expect(call.transcript).toContain('agent: Your table is ready. Goodbye.');
    } finally {
      await caller.close();
    }
  });

  test('what the caller says is sent, and interrupts what may be interrupted', async () => {
    const long = 'This is a text that goes on and on without an end. '.repeat(6);
    const bot = await relay(app, `welcomeGreeting="${long}"`);
    // a tone of 0 Hz is silence
    const caller = await toneCaller(app, bot.webhook.number, 0);
    try {
      await soon(() => expect(bot.types('setup')).toHaveLength(1));
      await hearsVoice(caller, 0);
      caller.say(tonesHz[1], 1200);
      await soon(() => expect(bot.types('interrupt')).toHaveLength(1), 15_000);
      const [interrupt] = bot.types('interrupt');
      expect(long).toContain(String(interrupt?.utteranceUntilInterrupt).slice(0, 40));
      expect(String(interrupt?.utteranceUntilInterrupt).length).toBeLessThan(long.length - 10);
      expect(Number(interrupt?.durationUntilInterruptMs)).toBeGreaterThanOrEqual(0);
      await soon(() => expect(bot.types('prompt')).toHaveLength(1), 20_000);
      expect(bot.types('prompt')[0]).toEqual({
        type: 'prompt',
        voicePrompt: 'a table for two',
        lang: 'en-US',
        last: true,
      });
      bot.sockets.at(-1)?.terminate();
      await caller.untilLet();
      expect(bot.webhook.form('/after')).toMatchObject({ SessionStatus: 'failed', ErrorCode: '64105' });
      const call = await app.finishedCall(bot.webhook.number);
      expect(call.transcript).toContain('caller: a table for two');
    } finally {
      await caller.close();
    }
  });

  test('from JSON, with reports of who speaks when and which words were heard', async () => {
    const bot = await relay(app, { welcome: 'Welcome.', events: ['speakers', 'played'], custom: { who: 'Ada' } });
    const caller = await toneCaller(app, bot.webhook.number, 0);
    const info = (name: string) =>
      bot.types('info').flatMap((message) => (message.name === name ? [message.value] : []));
    try {
      await soon(() => expect(info('agentSpeaking')).toEqual(['on', 'off']), 20_000);
      expect(info('tokensPlayed')).toEqual(['Welcome.']);
      expect(bot.types('setup')[0]).toMatchObject({ customParameters: { who: 'Ada' } });
      caller.say(tonesHz[1], 1200);
      await soon(() => expect(info('clientSpeaking')).toEqual(['on', 'off']), 20_000);
      await soon(() => expect(bot.types('prompt')).toHaveLength(1), 20_000);
      bot.send({ type: 'end', handoffData: 'done' });
      await caller.untilLet();
      const after = bot.webhook.server.requests.find(({ path }) => path === '/after');
      expect(JSON.parse(after?.body ?? '')).toMatchObject({
        type: 'call.disconnected',
        data: { status: 'completed', handoff_data: 'done' },
      });
    } finally {
      await caller.close();
    }
  });

  test('the words of an utterance are sent while it goes on, and again at its end', async () => {
    const bot = await relay(app, 'partialPrompts="true"');
    const caller = await toneCaller(app, bot.webhook.number, 0);
    try {
      await soon(() => expect(bot.types('setup')).toHaveLength(1));
      caller.say(tonesHz[1], 2500);
      await soon(() => expect(bot.types('prompt').at(-1)?.last).toBe(true), 20_000);
      const [first, ...others] = bot.types('prompt');
      expect(first).toEqual({ type: 'prompt', voicePrompt: 'a table for two', lang: 'en-US', last: false });
      expect(others.map(({ last }) => last)).toEqual([true]); // the engine understood the same each time
      bot.send({ type: 'end' });
      await caller.untilLet();
      const call = await app.finishedCall(bot.webhook.number);
      expect(call.transcript).toBe('caller: a table for two');
    } finally {
      await caller.close();
    }
  });

  test('an acknowledgement neither interrupts nor is reported; words do both', async () => {
    const long = 'This is a text that goes on and on without an end. '.repeat(12);
    const bot = await relay(app, { welcome: long, ignore_backchannel: true, events: ['speakers'] });
    const caller = await toneCaller(app, bot.webhook.number, 0);
    const ofCaller = () => bot.types('info').filter(({ name, value }) => name === 'clientSpeaking' && value === 'off');
    try {
      await soon(() => expect(bot.types('setup')).toHaveLength(1));
      await hearsVoice(caller, 0);
      understood = 'Uh-huh.';
      caller.say(tonesHz[1], 400);
      await soon(() => expect(ofCaller()).toHaveLength(1), 15_000);
      understood = 'no, three';
      caller.say(tonesHz[1], 1000);
      await soon(() => expect(bot.types('prompt')).toHaveLength(1), 20_000);
      expect(bot.types('prompt')[0]?.voicePrompt).toBe('no, three');
      expect(bot.types('interrupt')).toHaveLength(1);
    } finally {
      understood = 'a table for two';
      await caller.close();
    }
  });

  test('without an engine: an error says what is needed; nonsense is answered; a caller who leaves ends it', async () => {
    const bot = await relay(deaf, 'welcomeGreeting="Hello."');
    const caller = await toneCaller(deaf, bot.webhook.number, tonesHz[0]);
    try {
      await soon(() => expect(bot.types('error')).toHaveLength(1));
      expect(bot.types('error')[0]?.description).toContain('npx trunkline setup speech');
      bot.sockets.at(-1)?.send('nonsense');
      bot.send({ type: 'dance' });
      await soon(() => expect(bot.types('error')).toHaveLength(3));
      expect(bot.types('error')[1]?.description).toContain('it is not JSON');
      await caller.leave();
      await soon(() =>
        expect(bot.webhook.form('/after')).toMatchObject({ SessionStatus: 'ended', CallStatus: 'completed' }),
      );
      await soon(() => expect(bot.sockets.at(-1)?.readyState).toBe(3));
    } finally {
      await caller.close();
    }
  });

  test('an application that cannot be reached: the next instructions are asked for', async () => {
    const gone = await webhookApp(deaf, {
      '/start': '<Response><Connect action="/after"><ConversationRelay url="ws://127.0.0.1:9/x"/></Connect></Response>',
      '/after': '<Response><Hangup/></Response>',
    });
    closing.push(() => gone.server.close());
    const caller = await toneCaller(deaf, gone.number, tonesHz[0]);
    await caller.untilLet();
    await caller.close();
    expect(gone.form('/after')).toMatchObject({ SessionStatus: 'failed', ErrorCode: '64105' });
    const { events } = await deaf.finishedCall(gone.number);
    expect(events.find(({ event_type: type }) => type === 'agent.warning')?.event_data).toMatchObject({
      code: 'relay_failed',
    });
  });
});
