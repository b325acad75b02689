/** What goes wrong between us and a provider, for every protocol over real sockets: the outcome is right, and an event says what happened. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { AgentFailure } from '../../media/agents/agent.js';
import { agentProtocols } from '../../media/agents/providers/registry.js';
import { AgentConversation, NAMED, STREAMS, type Wish } from '../support/agent-conversation.js';
import { tcpServer, watchResources } from '../support/agent-rig.js';
import { selfSigned } from '../support/certificate.js';

/** AudioSocket has no messages of text: `agent-audiosocket.test.ts`. */
const ALL = [...NAMED, ...STREAMS].filter((each) => each !== 'audiosocket');
/** Ask over HTTP first. */
const REST = ['elevenlabs', 'ultravox', 'vapi'];
/** Audio is bare, in binary messages. */
const BARE = ['deepgram', 'ultravox', 'vapi', 'vonage', 'jambonz', 'asterisk', 'sinch', 'genesys', 'raw'];
/** 16 bit PCM by default. */
const PCM = [
  'gemini',
  'amazon_nova_sonic',
  'ultravox',
  'hume',
  'vonage',
  'exotel',
  'jambonz',
  'sinch',
  'audiocodes',
  'raw',
];
/** A broken connection is no reason to give the conversation up. */
const RESUMES = ['gemini', 'hume'];
/** The limit is the client's and not the provider's: the largest message is sent to one of each kind, the rest get a smaller limit. */
const HUGE = Buffer.alloc(50 * 1024 * 1024);
const HUGE_FOR = ['raw', 'openai', 'gemini'];
const SMALL_LIMIT = 64 * 1024;
const CERTIFICATE = selfSigned();
const JSON_AUDIO = ALL.filter((each) => !BARE.includes(each));

const realtimeAudio = (delta: string) => ({ type: 'response.output_audio.delta', item_id: 'item_x', delta });

/** One message of audio with any payload, as the provider would send it. */
const AUDIO: Record<string, (payload: string, started: Record<string, unknown>) => object> = {
  openai: realtimeAudio,
  azure_openai: realtimeAudio,
  xai: realtimeAudio,
  inworld: realtimeAudio,
  azure_voice_live: (delta) => ({ type: 'response.audio.delta', item_id: 'item_x', delta }),
  assemblyai: (data) => ({ type: 'reply.audio', data }),
  cartesia: (audio) => ({ type: 'audio_output', audio }),
  elevenlabs: (audio_base_64) => ({ type: 'audio', audio_event: { audio_base_64, event_id: 77 } }),
  gemini: (data) => ({ serverContent: { modelTurn: { parts: [{ inlineData: { mimeType: 'audio/pcm', data } }] } } }),
  amazon_nova_sonic: (content) => ({ event: { audioOutput: { content } } }),
  hume: (data) => ({ type: 'audio_output', id: 'x', data }),
  twilio: (payload, { streamSid }) => ({ event: 'media', streamSid, media: { payload } }),
  telnyx: (payload) => ({ event: 'media', media: { payload } }),
  plivo: (payload) => ({ event: 'playAudio', media: { payload } }),
  exotel: (payload) => ({ event: 'media', media: { payload } }),
  signalwire: (payload, { streamSid }) => ({ event: 'media', streamSid, media: { payload } }),
  audiocodes: (audioChunk) => ({ type: 'playStream.chunk', audioChunk }),
};

let resources: ReturnType<typeof watchResources>;
let c: AgentConversation | undefined;

beforeEach(() => {
  resources = watchResources();
});

afterEach(async () => {
  await c?.end();
  c = undefined;
  await resources.expectNone();
});

/** In the middle of a conversation. */
async function talking(provider: string, wish: Wish = {}): Promise<AgentConversation> {
  c = await AgentConversation.start(provider, { ...wish, simulator: { greetingMs: 100, ...wish.simulator } });
  c.silence(40);
  await c.until(() => (c?.heard().length ?? 0) > 0, 'it greets');
  return c;
}

const warnings = (of: AgentConversation) =>
  of.events.flatMap((event) => (event.type === 'warning' ? [event.code] : []));

/** The agent still hears, and is heard. */
async function goesOn(of: AgentConversation): Promise<void> {
  const said = of.call.events.filter(({ type }) => type === 'said').length;
  of.speak(700, 200);
  of.silence(500);
  await of.until(() => of.call.events.filter(({ type }) => type === 'said').length > said, 'it answers');
  expect(await Promise.race([of.socket.ended, Promise.resolve(null)])).toBeNull();
  expect(of.hooks.faults).toEqual([]);
}

const started = (of: AgentConversation) => of.call.received.find(({ event }) => event === 'start') ?? {};

describe.each(ALL)('%s sends', (provider) => {
  test.each([
    ['text that is not JSON', '{"type":'],
    ['JSON that is no object', '[1,2,3]'],
    ['deep JSON', '['.repeat(250_000) + ']'.repeat(250_000)],
    ['deep objects', `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`],
    ['a few deep brackets', `{"type":${'['.repeat(900)}${']'.repeat(900)}}`],
  ])('%s: one warning, and the call goes on', async (_what, text) => {
    const of = await talking(provider);
    of.call.wire.sendText(text);
    of.call.wire.sendText(text);
    const few = _what.startsWith('a few') && NAMED.includes(provider); // an event that nobody knows
    await of.until(() => few || of.socket.counters().garbage === 2, 'both were read');
    await goesOn(of);
    expect(warnings(of)).toHaveLength(few ? 0 : 1);
  });

  test('events that nobody knows, and known ones with odd fields', async () => {
    const of = await talking(provider);
    const odd = { type: 'no.such.event', event: 'no.such.event', action: 'no-such-action' };
    of.call.wire.sendText(JSON.stringify(odd));
    of.call.wire.sendText(`{"__proto__":{"type":"session.created"},"type":1e400,"event":null,"action":{}}`);
    await goesOn(of);
    expect(warnings(of).length).toBe(STREAMS.includes(provider) ? 1 : 0); // named providers add events at any time
  });

  test('an endless stream of garbage: it failed', async () => {
    const of = await talking(provider);
    for (let i = 0; i < 200; i++) of.call.wire.sendText('nonsense');
    expect(await of.socket.ended).toMatchObject({ by: 'failed', detail: expect.stringContaining('understood') });
    expect(warnings(of)).toHaveLength(1);
  });

  test('a message that is too long: it failed, and nothing of it was kept', async () => {
    const isHuge = HUGE_FOR.includes(provider);
    // the far end never answers our close
    const limits = { closeLimitMs: 100, ...(isHuge ? {} : { maxMessageBytes: SMALL_LIMIT }) };
    const of = await talking(provider, { options: { limits } });
    const before = of.socket.counters().bytesReceived;
    of.call.wire.sendBinary(isHuge ? HUGE : Buffer.alloc(SMALL_LIMIT + 1));
    if (RESUMES.includes(provider)) {
      await of.until(() => of.events.some(({ type }) => type === 'reconnected'), 'the session is resumed');
      expect(of.events).toContainEqual({
        type: 'warning',
        code: 'connection_lost',
        message: 'The agent sent a message that is too long.',
      });
      return;
    }
    expect(await of.socket.ended).toMatchObject({ by: 'failed', detail: 'The agent sent a message that is too long.' });
    expect(of.socket.counters().bytesReceived).toBe(before);
  });

  test('20,000 tiny messages at once: it is slowed down, and loses nothing', async () => {
    const of = await talking(provider, { options: { limits: { messagesPerWindow: 2500, windowMs: 10 } } });
    const before = of.hooks.heard().length;
    const payload = provider === 'hume' ? wav(Buffer.alloc(2)) : Buffer.alloc(2);
    const message = AUDIO[provider]?.(payload.toString('base64'), started(of));
    for (let i = 0; i < 20_000; i++) {
      if (message === undefined) of.call.wire.sendBinary(payload);
      else of.call.wire.sendText(JSON.stringify(message));
    }
    await of.until(() => of.hooks.heard().length >= before + 40_000, 'all of it is there');
    await goesOn(of);
  });

  test('nothing more and reads nothing: frames are dropped, nothing piles up, hanging up works', async () => {
    const of = await talking(provider, { options: { limits: { pingIntervalMs: 20, unreadLimitMs: 60 } } });
    await of.until(() => {
      of.silence(20);
      return of.socket.counters().framesSent > 0;
    }, 'it listens');
    await new Promise((resolve) => setTimeout(resolve, 50)); // a ping is answered
    of.call.wire.stopReading();
    await of.until(() => {
      of.silence(20);
      return of.socket.counters().framesDropped > 20;
    }, 'frames are dropped');
    of.call.wire.die();
  });
});

describe.each(JSON_AUDIO)('%s sends', (provider) => {
  test('audio that is not base64: one warning', async () => {
    const of = await talking(provider);
    const before = of.hooks.heard().length;
    for (const bad of ['!!! not base64 !!!', 'AAA*', 'A'])
      of.call.wire.sendText(JSON.stringify(AUDIO[provider]!(bad, started(of))));
    await of.until(() => warnings(of).length > 0, 'it is told of');
    expect(warnings(of)).toHaveLength(1);
    expect(of.hooks.heard().length).toBe(before);
    await goesOn(of);
  });

  test('binary where text is due', async () => {
    const of = await talking(provider);
    const before = of.hooks.heard().length;
    for (let i = 0; i < 3; i++) of.call.wire.sendBinary(Buffer.alloc(320, 7));
    await of.until(() => warnings(of).length > 0, 'it is told of');
    expect(warnings(of)).toHaveLength(1);
    expect(of.hooks.heard().length).toBe(before);
    await goesOn(of);
  });
});

test.each(PCM)('%s sends half a sample: it waits for its other half', async (provider) => {
  const of = await talking(provider);
  const before = of.hooks.heard().length;
  for (const half of [Buffer.from([1, 2, 3]), Buffer.from([4])]) {
    const payload = provider === 'hume' ? wav(half) : half;
    if (BARE.includes(provider)) of.call.wire.sendBinary(payload);
    else of.call.wire.sendText(JSON.stringify(AUDIO[provider]!(payload.toString('base64'), {})));
  }
  // A WAV file has whole samples: there, half a sample belongs to nothing.
  const whole = provider === 'hume' ? [1, 2] : [1, 2, 3, 4];
  await of.until(() => of.hooks.heard().length >= before + whole.length, 'it is heard');
  expect([...of.hooks.heard().subarray(before)]).toEqual(whole);
  for (const bytes of of.hooks.audioBytes) expect(bytes.length % 2).toBe(0);
});

/** A WAV file at 48 kHz with these bytes in it. */
function wav(data: Buffer): Buffer {
  const head = Buffer.alloc(44);
  head.write('RIFF');
  head.writeUInt32LE(36 + data.length, 4);
  head.write('WAVEfmt ', 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(48_000, 24);
  head.writeUInt32LE(96_000, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write('data', 36);
  head.writeUInt32LE(data.length, 40);
  return Buffer.concat([head, data]);
}

async function refusal(provider: string, wish: Wish): Promise<AgentFailure> {
  const of = await AgentConversation.open(provider, wish);
  c = of;
  const failure = await of.socket.ready.then(
    () => expect.fail('it became ready'),
    (error: AgentFailure) => error,
  );
  expect(await of.socket.ended).toMatchObject({ by: 'failed', detail: failure.message });
  expect(failure.message).toMatch(/^[A-Z].*\.$/);
  expect(failure.message).not.toMatch(/test|token|key=/); // no secret of the configuration
  return failure;
}

describe.each(ALL)('%s', (provider) => {
  test.each([
    [401, 'unauthorized', false],
    [403, 'unauthorized', false],
    [429, 'refused', true],
    [503, 'refused', true],
  ])('answers the upgrade with %i', async (status, reason, retryable) => {
    const failure = await refusal(provider, { dialect: { refuse: () => status } });
    expect(failure).toMatchObject({ reason, retryable, message: expect.stringContaining(String(status)) });
  });

  test('never upgrades', async () => {
    const server = await tcpServer(() => {});
    const scheme = agentProtocols.get(provider)?.schemes?.at(-1) ?? 'ws';
    const target = { url: `${scheme}://127.0.0.1:${server.port}/`, connectTimeoutMs: 100 };
    expect(await refusal(provider, { target })).toMatchObject({ reason: 'timeout', retryable: true });
    await server.close();
  });

  test('has a certificate that nobody signed', async () => {
    const failure = await refusal(provider, { simulator: { tls: CERTIFICATE } });
    expect(failure).toMatchObject({ reason: 'refused', retryable: true });
    if (!REST.includes(provider)) expect(failure.message).toContain('TLS');
  });

  test('says nothing after the upgrade', async () => {
    const mute = { simulator: { mute: true, greetingMs: 0 }, target: { firstAudioTimeoutMs: 150 } };
    if (STREAMS.includes(provider)) {
      c = await AgentConversation.start(provider, { ...mute, target: {} });
      expect(await Promise.race([c.socket.ended, Promise.resolve('runs')])).toBe('runs'); // as long as it likes
      return;
    }
    c = await AgentConversation.start(provider, mute);
    c.silence(100);
    expect(await c.socket.ended).toMatchObject({ by: 'failed', detail: expect.stringContaining('said nothing') });
  });
});

test.each(REST)('%s answers the request for a call with 401, 429, 503 or nonsense', async (provider) => {
  for (const [status, reason] of [
    [401, 'unauthorized'],
    [429, 'refused'],
    [503, 'refused'],
    [200, 'protocol'],
  ] as const) {
    const failure = await refusal(provider, { dialect: { rest: () => ({ status, body: { joinUrl: 7 } }) } });
    expect(failure.reason).toBe(reason);
    await c?.end();
  }
  c = undefined;
});

test.each(NAMED.filter((each) => !['ultravox', 'vapi', 'amazon_nova_sonic'].includes(each)))(
  '%s upgrades, and its handshake never ends',
  async (provider) => {
    const silent = {
      message() {},
      interrupted() {},
      heard() {},
      said() {},
      audio() {},
      finished() {},
      hangUp() {},
      expire() {},
    };
    const failure = await refusal(provider, { dialect: { open: () => silent }, target: { connectTimeoutMs: 150 } });
    expect(failure).toMatchObject({ reason: 'timeout' });
  },
);
