/** Fixtures: what each named provider is sent, and what its messages become. */
import { describe, expect, test } from 'vitest';
import type { Conversation } from '../../media/agents/agent.js';
import { writeWav } from '../../media/audio/wav.js';
import { CALL } from '../support/agent-rig.js';
import { AUDIO, BASE64, bytes, caller, conversation, does } from '../support/provider-conversation.js';

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
  const call = { ...CALL, history: [{ speaker: 'caller' as const, text: 'Hi' }] };
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
  const call = { ...CALL, history };
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
