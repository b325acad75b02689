/** Fixtures: what Amazon Nova Sonic is sent, and what its messages become. */
import { describe, expect, test } from 'vitest';
import { agentProtocols } from '../../media/agents/providers/registry.js';
import { CALL } from '../support/agent-rig.js';
import { BASE64, bytes, caller, conversation, does } from '../support/provider-conversation.js';

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

  test('a history is of lines that alternate, of messages of 1 kB, and of 40 kB in all', () => {
    const line = (speaker: 'caller' | 'agent', text: string) => ({ speaker, text });
    const long = 'größer '.repeat(1000).trim();
    const history = [line('agent', 'x'.repeat(39_000)), line('caller', 'Hi.'), line('agent', 'Hello.')];
    history.push(line('agent', long), line('caller', 'One.'), line('caller', 'Two.'));
    const opening = open({}, { call: { ...CALL, history } }).opening();
    const contents: { role: string; texts: string[] }[] = [];
    for (const [name, { role, type, content }] of events(opening)) {
      if (name === 'contentStart' && type === 'TEXT') contents.push({ role, texts: [] });
      if (name === 'textInput') contents.at(-1)?.texts.push(content);
    }
    expect(contents.map(({ role, texts: parts }) => [role, parts.join('')])).toEqual([
      ['USER', 'Hi.'],
      ['ASSISTANT', `Hello. ${long}`],
      ['USER', 'One. Two.'],
    ]);
    const parts = contents[1]?.texts ?? [];
    expect(Math.max(...parts.map((part) => Buffer.byteLength(part)))).toBeLessThanOrEqual(1000);
    expect(parts.slice(0, -1).every((part) => part.endsWith(' '))).toBe(true);
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
