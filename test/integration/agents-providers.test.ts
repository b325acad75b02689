/** Fixtures: what each named provider is sent, and what its messages become. */
import { describe, expect, test } from 'vitest';
import type { Conversation, Plain, Sink } from '../../media/agents/agent.js';
import { agentProtocols } from '../../media/agents/providers/registry.js';
import { writeWav } from '../../media/audio/wav.js';
import { agentTarget } from '../support/agent-rig.js';

const AUDIO = Buffer.from([1, 2, 3, 4]);
const BASE64 = AUDIO.toString('base64');

function conversation(provider: string, config: Plain, target = {}): Conversation {
  const protocol = agentProtocols.get(provider)!;
  const url = protocol.knownUrl ?? 'wss://agent.example.com/';
  return protocol.converse(protocol.parseConfig(config), agentTarget({ protocol: provider, url, ...target }));
}

/** Everything that the messages make a conversation do, in order. */
function does(c: Conversation, ...messages: (object | Uint8Array | string)[]): unknown[] {
  const done: unknown[] = [];
  const parsed = (m: unknown) => (typeof m === 'string' ? JSON.parse(m) : m);
  const sink: Sink = {
    send: (m) => done.push(['send', parsed(m)]),
    audio: (bytes, itemId) => done.push(itemId === undefined ? ['audio', [...bytes]] : ['audio', [...bytes], itemId]),
    audioOf: () => done.push(['audioOf']),
    clear: () => done.push(['clear']),
    mark: (name) => done.push(['mark', name]),
    event: (event) => done.push(['event', event]),
    ready: () => done.push(['ready']),
    warn: (code) => done.push(['warn', code]),
    garbage: (code) => done.push(['garbage', code]),
    said: (text) => done.push(['said', text]),
    saidAll: () => done.push(['saidAll']),
    hangUp: () => done.push(['hangUp']),
    fail: ({ reason }) => done.push(['fail', reason]),
    renew: (withinMs) => done.push(withinMs === undefined ? ['renew'] : ['renew', withinMs]),
  };
  for (const message of messages) {
    const raw = typeof message === 'string' || message instanceof Uint8Array ? message : JSON.stringify(message);
    c.receive(raw, sink);
  }
  return done;
}

const bytes = [1, 2, 3, 4];
const caller = (text: string) => ['event', { type: 'transcript', speaker: 'caller', text }];

describe('openai', () => {
  const open = (config = {}, target = {}) => conversation('openai', { api_key: 'k', ...config }, target);
  const delta = (item_id: string) => ({ type: 'response.output_audio.delta', item_id, delta: BASE64 });

  test('dials with its model and key, and configures the session in the law of the phone', () => {
    const c = open({ model: 'm', voice: 'marin', instructions: 'Be kind.' }, { phoneEncoding: 'alaw' });
    expect(c.upgrade()).toEqual({
      url: 'wss://api.openai.com/v1/realtime?model=m',
      headers: { Authorization: 'Bearer k' },
    });
    const [[, update], ready] = does(c, { type: 'session.created' }, { type: 'session.updated' }) as [
      [string, { session: Record<string, never> }],
      unknown,
    ];
    expect(update).toMatchObject({
      type: 'session.update',
      session: {
        type: 'realtime',
        instructions: 'Be kind.',
        audio: {
          input: { format: { type: 'audio/pcma' } },
          output: { format: { type: 'audio/pcma' }, voice: 'marin' },
        },
        tools: [{ type: 'function', name: 'hang_up' }],
      },
    });
    expect(ready).toEqual(['ready']);
  });

  test('an interruption drops what comes late of the item, and tells how much was heard', () => {
    const c = open();
    const speech = { type: 'input_audio_buffer.speech_started' };
    expect(does(c, delta('a'), speech, delta('a'), delta('b'))).toEqual([
      ['audio', bytes, 'a'],
      ['clear'],
      ['audio', bytes, 'b'],
    ]);
    expect(c.interrupted({ itemId: 'a', heardMs: 120.9, droppedMs: 50 }).map((m) => JSON.parse(String(m)))).toEqual([
      { type: 'conversation.item.truncate', item_id: 'a', content_index: 0, audio_end_ms: 120 },
    ]);
    expect(c.interrupted({ itemId: 'a', heardMs: 120, droppedMs: 0 })).toEqual([]);
  });

  test('a hang-up waits for the end of the response; a transfer needs the tool', () => {
    const call = (name: string, args: object) => ({
      type: 'response.function_call_arguments.done',
      call_id: 'c',
      name,
      arguments: JSON.stringify(args),
    });
    const done = { type: 'response.done' };
    expect(does(open(), call('hang_up', {}))).toEqual([]);
    expect(does(open(), call('hang_up', {}), done)).toContainEqual(['hangUp']);
    const to = '+4930123456';
    expect(does(open(), call('transfer_call', { to }), done)).not.toContainEqual(['event', { type: 'transfer', to }]);
    const allowed = open({ tools: [{ name: 'transfer_call' }] });
    expect(does(allowed, call('transfer_call', { to }), done)).toContainEqual(['event', { type: 'transfer', to }]);
    const bad = does(allowed, call('transfer_call', { to: 'x\r\ny' }), done);
    expect(JSON.stringify(bad)).not.toContain('"transfer"');
  });

  test('a session that ends is renewed with what was said; one that is refused fails', () => {
    const c = open();
    does(c, { type: 'session.updated' }, { type: 'response.output_audio_transcript.done', transcript: 'Hello.' });
    const expired = { type: 'error', error: { code: 'session_expired' } };
    expect(does(c, expired)).toEqual([['renew']]);
    c.upgrade();
    expect(does(c, { type: 'session.updated' })[0]).toMatchObject([
      'send',
      { item: { role: 'assistant', content: [{ type: 'output_text', text: 'Hello.' }] } },
    ]);
    expect(c.closed(1001, 'Your session hit the maximum duration of 60 minutes.')).toBe('renew');
    expect(c.closed(1001, '')).toBe('failed');
    expect(does(open(), { type: 'error', error: { code: 'invalid_api_key' } })).toEqual([['fail', 'unauthorized']]);
  });
});

describe('services with the protocol of OpenAI', () => {
  const url = 'wss://r.openai.azure.com/openai/v1/realtime';
  const azure = (config = {}) => conversation('azure_openai', { api_key: 'k', model: 'd', ...config }, { url });
  const sessionOf = (c: Conversation, first: string) => (does(c, { type: first })[0] as [string, object])[1];

  test('Azure OpenAI: the deployment is the model, the key a header, transcripts need a deployment', () => {
    expect(azure().upgrade()).toEqual({ url: `${url}?model=d`, headers: { 'api-key': 'k' } });
    expect(() => conversation('azure_openai', { api_key: 'k' }, { url })).toThrow('model is required');
    const input = (config: object) => ({ session: { audio: { input: config } } });
    expect(sessionOf(azure({ transcription_model: 't', language: 'de' }), 'session.created')).toMatchObject(
      input({ transcription: { model: 't', language: 'de' } }),
    );
    expect(JSON.stringify(sessionOf(azure(), 'session.created'))).not.toContain('transcription');
    const entra = conversation('azure_openai', { model: 'd', headers: { Authorization: 'Bearer e' } }, { url });
    expect(entra.upgrade().headers).toEqual({ Authorization: 'Bearer e' });
  });

  test('xAI: the session in its own shape, a greeting word for word, no truncation', () => {
    const c = conversation('xai', { api_key: 'k', voice: 'eve', language: 'de', greeting: 'Guten Tag.' });
    expect(c.upgrade()).toEqual({
      url: 'wss://api.x.ai/v1/realtime?model=grok-voice-latest',
      headers: { Authorization: 'Bearer k' },
    });
    for (const first of ['conversation.created', 'session.created'])
      expect(sessionOf(c, first)).toMatchObject({
        type: 'session.update',
        session: {
          voice: 'eve',
          turn_detection: { type: 'server_vad' },
          audio: {
            input: { format: { type: 'audio/pcmu' }, transcription: { language_hint: 'de' } },
            output: { format: { type: 'audio/pcmu' } },
          },
          tools: [{ type: 'function', name: 'hang_up' }],
        },
      });
    const sent = (messages: unknown[]) => messages.map((each) => JSON.parse(String(each)));
    expect(sent(c.start())).toEqual([
      {
        type: 'conversation.item.create',
        item: { type: 'force_message', role: 'assistant', content: [{ type: 'output_text', text: 'Guten Tag.' }] },
      },
    ]);
    const model = conversation('xai', { api_key: 'k' });
    expect(sent(model.start())).toMatchObject([
      { item: { type: 'message', role: 'user' } },
      { type: 'response.create' },
    ]);
    expect(model.interrupted({ itemId: 'a', heardMs: 120, droppedMs: 50 })).toEqual([]);
  });
});

describe('elevenlabs', () => {
  const open = (config = {}) => conversation('elevenlabs', { agent_id: 'a b', ...config });
  const audio = (event_id: number) => ({ type: 'audio', audio_event: { audio_base_64: BASE64, event_id } });

  test('asks for a signed address with a key, and dials a public agent without', () => {
    expect(open().prepare?.()).toBeNull();
    expect(open().upgrade().url).toBe('wss://api.elevenlabs.io/v1/convai/conversation?agent_id=a+b');
    const c = open({ api_key: 'k' });
    expect(c.prepare?.()).toEqual({
      method: 'GET',
      url: 'https://api.elevenlabs.io/v1/convai/conversation/get-signed-url?agent_id=a%20b',
      headers: { 'xi-api-key': 'k' },
    });
    c.prepared?.('{"signed_url":"wss://signed.example/?token=t"}');
    expect(c.upgrade().url).toBe('wss://signed.example/?token=t');
    expect(() => c.prepared?.('{"signed_url":"http://x"}')).toThrow('names no WebSocket address');
  });

  test('takes the formats of the handshake, answers pings, drops what was interrupted', () => {
    const c = open();
    const metadata = { agent_output_audio_format: 'pcm_16000', user_input_audio_format: 'ulaw_8000' };
    const handshake = {
      type: 'conversation_initiation_metadata',
      conversation_initiation_metadata_event: metadata,
    };
    const interruption = { type: 'interruption', interruption_event: { event_id: 2 } };
    const ping = { type: 'ping', ping_event: { event_id: 7 } };
    expect(does(c, handshake, audio(1), interruption, audio(2), audio(3), ping)).toEqual([
      ['ready'],
      ['audio', bytes, '1'],
      ['clear'],
      ['audio', bytes, '3'],
      ['send', { type: 'pong', event_id: 7 }],
    ]);
    expect([c.format.encoding, c.replyFormat.sampleRateHz]).toEqual(['ulaw', 16000]);
    const odd = { ...handshake, conversation_initiation_metadata_event: { agent_output_audio_format: 'pcm_22050' } };
    expect(does(open(), odd)).toEqual([['fail', 'protocol']]);
  });
});

test('deepgram: settings after the welcome; a hang-up waits for the last word', () => {
  const c = conversation('deepgram', { api_key: 'k', instructions: 'Be kind.', greeting: 'Hi.' });
  expect(c.upgrade().headers).toEqual({ Authorization: 'Token k' });
  const [settings, ready] = does(c, { type: 'Welcome' }, { type: 'SettingsApplied' });
  expect(settings).toMatchObject([
    'send',
    {
      type: 'Settings',
      audio: {
        input: { encoding: 'mulaw', sample_rate: 8000 },
        output: { encoding: 'mulaw', sample_rate: 8000, container: 'none' },
      },
      agent: { greeting: 'Hi.', think: { prompt: 'Be kind.' } },
    },
  ]);
  expect(ready).toEqual(['ready']);
  // It greets while it still rings: that does not make it an agent that takes over.
  does(c, { type: 'ConversationText', role: 'assistant', content: 'Hi.' });
  expect(c.start()).toEqual([]);
  const text = { type: 'ConversationText', role: 'assistant', content: 'Bye.' };
  const request = { type: 'FunctionCallRequest', functions: [{ id: 'f', name: 'hang_up', arguments: '{}' }] };
  expect(does(c, text, request, AUDIO, { type: 'AgentAudioDone' }).map((each) => (each as string[])[0])).toEqual([
    'said',
    'send',
    'audio',
    'saidAll',
    'hangUp',
  ]);
  // In the middle of an utterance: the rest of it is not wanted, the next one is.
  const interrupted = does(c, text, { type: 'UserStartedSpeaking' }, AUDIO, { type: 'AgentThinking' }, AUDIO);
  expect(interrupted.map((each) => (each as string[])[0])).toEqual(['said', 'clear', 'audio']);
  expect(does(c, { type: 'Error', code: 'INVALID_SETTINGS' })).toEqual([['fail', 'refused']]);
});

test('deepgram: keys that were refused while someone spoke are sent once more, after the utterance', () => {
  const c = conversation('deepgram', { api_key: 'k' });
  does(c, { type: 'Welcome' }, { type: 'SettingsApplied' });
  const [keys] = c.dtmf('42') as string[];
  const refused = { type: 'InjectionRefused' };
  const done = { type: 'AgentAudioDone' };
  expect(does(c, refused, done)).toEqual([['garbage', 'injection_refused'], ['saidAll'], ['send', JSON.parse(keys!)]]);
  expect(does(c, refused, done)).toEqual([['garbage', 'injection_refused'], ['saidAll']]);
});

test('deepgram: a hang-up that is cancelled while the agent speaks does not happen', () => {
  const c = conversation('deepgram', { api_key: 'k' });
  const functions = [{ id: 'f', name: 'hang_up', arguments: '{}' }];
  const kinds = (...messages: object[]) => does(c, ...messages).map((each) => (each as string[])[0]);
  const text = { type: 'ConversationText', role: 'assistant', content: 'Bye.' };
  const done = { type: 'AgentAudioDone' };
  does(c, text, { type: 'FunctionCallRequest', functions });
  expect(kinds({ type: 'FunctionCallCancelled', functions: [{ id: 'g', name: 'weather' }] })).toEqual([]);
  does(c, { type: 'FunctionCallCancelled', functions });
  expect(kinds(done)).toEqual(['saidAll']);
  does(c, text, { type: 'FunctionCallRequest', functions });
  expect(kinds(done)).toEqual(['saidAll', 'hangUp']);
});

test.each(['openai', 'deepgram', 'gemini'])('%s takes over: it is asked to go on', (provider) => {
  const call = { ...agentTarget().call, history: [{ speaker: 'caller' as const, text: 'Hi' }] };
  const c = conversation(provider, { api_key: 'k', greeting: 'Hello.' }, { call });
  expect(c.start().join()).toContain('You take over this phone call');
  expect(c.start().join()).not.toContain('Hello.');
});

test('gemini: JSON in binary messages, and another connection before this one ends', () => {
  const c = conversation('gemini', { api_key: 'k', voice: 'Kore' });
  expect(c.upgrade().url).toMatch(/BidiGenerateContent\?key=k$/);
  expect(JSON.parse(String(c.opening()[0])).setup).toMatchObject({
    sessionResumption: {},
    inputAudioTranscription: {},
  });
  const binary = (message: object) => Buffer.from(JSON.stringify(message));
  const part = { inlineData: { mimeType: 'audio/pcm;rate=24000', data: BASE64 } };
  expect(
    does(
      c,
      binary({ setupComplete: {} }),
      binary({ serverContent: { inputTranscription: { text: 'Hel' } } }),
      binary({ serverContent: { inputTranscription: { text: 'lo' } } }),
      binary({ serverContent: { modelTurn: { parts: [part] } } }),
      binary({ sessionResumptionUpdate: { newHandle: 'h', resumable: true } }),
      binary({ goAway: { timeLeft: '50s' } }),
      binary({ serverContent: { interrupted: true } }),
      binary({ serverContent: { turnComplete: true } }),
    ),
  ).toEqual([['ready'], caller('Hello'), ['audio', bytes], ['renew', 48_000], ['clear'], ['saidAll']]);
  expect(JSON.parse(String(c.opening()[0])).setup.sessionResumption).toEqual({ handle: 'h' });
  expect([c.closed(1011, ''), c.closed(1007, ''), c.closed(1000, '')]).toEqual(['renew', 'failed', 'hangup']);
  // The next session does not take the handle: the one after it begins anew, and is told what was said.
  c.start();
  c.upgrade();
  expect(c.closed(1007, 'Request contains an invalid argument.')).toBe('failed');
  expect(JSON.parse(String(c.opening()[0])).setup.sessionResumption).toEqual({});
  expect(does(c, { setupComplete: {} })).toEqual([
    ['ready'],
    ['send', { clientContent: { turns: [{ role: 'user', parts: [{ text: 'Hello' }] }], turnComplete: true } }],
  ]);
});

test('ultravox: the call is created first, and carries what was said before', () => {
  const history = [{ speaker: 'caller' as const, text: 'Hi' }];
  const call = { ...agentTarget().call, history };
  const c = conversation('ultravox', { api_key: 'k', instructions: 'Be kind.' }, { call });
  const request = c.prepare?.();
  expect([request?.url, request?.headers['X-API-Key']]).toEqual(['https://api.ultravox.ai/api/calls', 'k']);
  expect(JSON.parse(request?.body ?? '')).toMatchObject({
    systemPrompt: 'Be kind.',
    medium: { serverWebSocket: { inputSampleRate: 8000, outputSampleRate: 8000 } },
    selectedTools: [{ toolName: 'hangUp' }],
    initialMessages: [{ role: 'MESSAGE_ROLE_USER', text: 'Hi' }],
  });
  c.prepared?.('{"joinUrl":"wss://join.example/1"}');
  expect(c.upgrade()).toEqual({ url: 'wss://join.example/1', headers: {} });
  const said = { type: 'transcript', role: 'agent', ordinal: 1 };
  expect(
    does(
      c,
      AUDIO,
      { ...said, delta: 'Hel' },
      { ...said, text: 'Hello', final: true },
      { type: 'playback_clear_buffer' },
    ),
  ).toEqual([['audio', bytes], ['said', 'Hel'], ['said', 'lo'], ['clear']]);
});

test('hume: a WAV file per piece, and the group of the chat that is resumed', () => {
  const c = conversation('hume', { api_key: 'k', config_id: 'c' });
  expect(c.upgrade().url).toBe('wss://api.hume.ai/v0/evi/chat?api_key=k&config_id=c');
  const wav = (sampleRateHz: number) =>
    Buffer.from(writeWav({ sampleRateHz, channels: [Int16Array.from([513, 1027])] })).toString('base64');
  const piece = { type: 'audio_output', id: 'm' };
  expect(
    does(
      c,
      { type: 'chat_metadata', chat_group_id: 'g' },
      { ...piece, data: wav(48000) },
      { ...piece, data: wav(44100) },
      { ...piece, data: 'AAAA' },
      { type: 'user_interruption' },
      { ...piece, data: wav(48000) },
    ),
  ).toEqual([['ready'], ['audio', bytes, 'm'], ['garbage', 'bad_audio'], ['garbage', 'bad_audio'], ['clear']]);
  expect(c.closed(1006, '')).toBe('renew');
  expect(c.upgrade().url).toContain('resumed_chat_group_id=g');
});

test('vapi: control in both forms; its transfer is ours to carry out', () => {
  const c = conversation('vapi', { api_key: 'k', assistant_id: 'a' });
  expect(JSON.parse(c.prepare?.()?.body ?? '')).toEqual({
    assistantId: 'a',
    transport: { provider: 'vapi.websocket', audioFormat: { format: 'mulaw', container: 'raw', sampleRate: 8000 } },
  });
  const final = { type: 'transcript[transcriptType="final"]', role: 'user', transcript: 'Hi' };
  const transfer = { type: 'transfer-update', destination: { number: '+4930123456' } };
  expect(does(c, AUDIO, final, { message: { type: 'user-interrupted' } }, transfer, { type: 'hang' })).toEqual([
    ['audio', bytes],
    caller('Hi'),
    ['clear'],
    ['event', { type: 'transfer', to: '+4930123456' }],
    ['hangUp'],
  ]);
});

describe('amazon_nova_sonic', () => {
  const KEYS = { access_key_id: 'AKIDEXAMPLE', secret_access_key: 'k' };
  const open = (config = {}, target = {}) =>
    conversation('amazon_nova_sonic', { ...KEYS, ...config }, { url: 'https://bedrock.example.com', ...target });
  const events = (messages: unknown[]) =>
    messages.map((each) => Object.entries(JSON.parse(String(each)).event as object)[0] as [string, never]);
  const names = (messages: unknown[]) => events(messages).map(([name]) => name);
  const texts = (messages: unknown[]) =>
    events(messages).flatMap(([name, { content }]) => (name === 'textInput' ? [content] : []));
  const event = (name: string, fields: object) => ({ event: { [name]: fields } });
  const begin = (type: string, role: string, generationStage?: string) =>
    event('contentStart', { type, role, additionalModelFields: JSON.stringify({ generationStage }) });
  const end = (stopReason: string) => event('contentEnd', { stopReason });
  const said = (text: string) => [
    begin('TEXT', 'ASSISTANT', 'SPECULATIVE'),
    event('textOutput', { content: text }),
    end('PARTIAL_TURN'),
  ];

  test('asks for its model in its region, and never sends the secret', () => {
    const { url, headers } = open({ region: 'eu-north-1', model: 'arn:aws:x/y', session_token: 't' }).upgrade();
    expect(url).toBe('https://bedrock.example.com/model/arn%3Aaws%3Ax%2Fy/invoke-with-bidirectional-stream');
    expect(headers.authorization).toContain('Credential=AKIDEXAMPLE/');
    expect(headers.authorization).toContain('/eu-north-1/bedrock/aws4_request');
    expect(headers['x-amz-security-token']).toBe('t');
    expect(agentProtocols.get('amazon_nova_sonic')?.urlFor?.({ region: 'eu-north-1' })).toBe(
      'https://bedrock-runtime.eu-north-1.amazonaws.com',
    );
  });

  test('the prompt and the open audio come first, then the greeting', () => {
    const c = open({ instructions: 'Be kind.', voice: 'tiffany', temperature: 0.2, sample_rate: 8000 });
    const opening = c.opening();
    expect(names(opening)).toEqual([
      'sessionStart',
      'promptStart',
      ...['contentStart', 'textInput', 'contentEnd'],
      'contentStart',
    ]);
    const [session, prompt, system, , , audio] = events(opening).map(([, fields]) => fields);
    expect(session).toMatchObject({ inferenceConfiguration: { temperature: 0.2 } });
    expect(prompt).toMatchObject({
      audioOutputConfiguration: { voiceId: 'tiffany', sampleRateHertz: 24000 },
      toolConfiguration: { tools: [{ toolSpec: { name: 'hang_up', inputSchema: { json: expect.any(String) } } }] },
    });
    expect(system).toMatchObject({ type: 'TEXT', role: 'SYSTEM', interactive: false });
    expect(audio).toMatchObject({ type: 'AUDIO', role: 'USER', audioInputConfiguration: { sampleRateHertz: 8000 } });
    expect(names(c.start())).toEqual(['contentStart', 'textInput', 'contentEnd']);
    expect(names(c.closing('over'))).toEqual(['contentEnd', 'promptEnd', 'sessionEnd']);
  });

  test('the first generation gets no text: the caller speaks first, and keys are lost', () => {
    const c = open({ model: 'amazon.nova-sonic-v1:0' });
    expect([...c.start(), ...c.dtmf('12')]).toEqual([]);
    expect(open({ model: 'us.amazon.nova-2-sonic-v1:0' }).start()).not.toEqual([]);
  });

  test('its text comes before its audio; what it says once more afterwards is not read', () => {
    const audio = [begin('AUDIO', 'ASSISTANT'), event('audioOutput', { content: BASE64 }), end('END_TURN')];
    const again = [begin('TEXT', 'ASSISTANT', 'FINAL'), event('textOutput', { content: 'Hello.' }), end('END_TURN')];
    expect(does(open(), ...said('Hello.'), ...audio, ...again)).toEqual([
      ['said', 'Hello.'],
      ['audio', bytes],
      ['saidAll'],
    ]);
  });

  test("the caller's words", () => {
    const heard = [begin('TEXT', 'USER', 'FINAL'), event('textOutput', { content: 'Hi' }), end('END_TURN')];
    expect(does(open(), ...heard)).toEqual([caller('Hi')]);
  });

  test('an interruption clears once, drops late audio, and not the next reply', () => {
    const late = event('audioOutput', { content: BASE64 });
    const cut = [end('INTERRUPTED'), late, begin('TEXT', 'ASSISTANT', 'FINAL'), end('INTERRUPTED'), late];
    const next = [...said('Yes?'), begin('AUDIO', 'ASSISTANT'), late];
    expect(does(open(), begin('AUDIO', 'ASSISTANT'), late, ...cut, ...next)).toEqual([
      ['audio', bytes],
      ['clear'],
      ['saidAll'],
      ['saidAll'],
      ['said', 'Yes?'],
      ['audio', bytes],
    ]);
  });

  test('a function is carried out and answered when its content ends', () => {
    const use = event('toolUse', { toolName: 'hang_up', toolUseId: 't1', content: '{}' });
    const done = does(open(), begin('TOOL', 'TOOL'), use, end('TOOL_USE'));
    expect(done[0]).toEqual(['hangUp']);
    expect(done.slice(1)).toMatchObject([
      ['send', { event: { contentStart: { type: 'TOOL', toolResultInputConfiguration: { toolUseId: 't1' } } } }],
      ['send', { event: { toolResult: { content: expect.stringContaining('last words') } } }],
      ['send', { event: { contentEnd: {} } }],
    ]);
  });

  test('a later session gets the conversation, and answers the words of the caller that wait', () => {
    const c = open();
    c.start();
    does(c, ...said('Hello.'), begin('TEXT', 'USER', 'FINAL'), event('textOutput', { content: 'Hi' }), end('END_TURN'));
    c.upgrade();
    const opening = c.opening();
    const contents = events(opening).flatMap(([name, { type, role, interactive }]) =>
      name === 'contentStart' ? [[type, role, interactive]] : [],
    );
    expect(contents).toEqual([
      ['TEXT', 'USER', false], // a history begins with the caller
      ['TEXT', 'ASSISTANT', false],
      ['AUDIO', 'USER', true],
      ['TEXT', 'USER', true],
    ]);
    expect(texts(opening).slice(1)).toEqual(['Hello.', 'Hi']);
  });

  test('errors: those that pass lead to another session, all others are failures', () => {
    const passing = open();
    expect(does(passing, { exception: 'modelStreamErrorException' })).toEqual([['warn', 'provider_error']]);
    expect(passing.closed(1006, '')).toBe('renew');
    passing.upgrade();
    expect(passing.closed(1006, '')).toBe('failed');
    expect(does(open(), { exception: 'validationException' })).toEqual([['fail', 'refused']]);
  });

  test.each([
    [{ secret_access_key: 'k' }, 'access_key_id'],
    [{ access_key_id: 'A' }, 'secret_access_key'],
    [{ ...KEYS, region: 'https://evil.example' }, 'region'],
    [{ ...KEYS, session_token: 'a\nb' }, 'session_token'],
    [{ ...KEYS, access_key_id: 'a, b' }, 'access_key_id'],
    [{ ...KEYS, encoding: 'ulaw' }, 'encoding'],
  ])('refuses %o', (config, field) => {
    const parse = () => agentProtocols.get('amazon_nova_sonic')?.parseConfig(config);
    expect(parse).toThrow(expect.objectContaining({ field }));
  });
});
