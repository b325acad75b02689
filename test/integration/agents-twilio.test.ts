import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { AgentConfigError, type AgentMessage, type Sink } from '../../media/agents/agent.js';
import { signUpgrade, twilio } from '../../media/agents/providers/streams/twilio.js';
import { agentTarget } from '../support/agent-rig.js';

const target = agentTarget({ protocol: 'twilio', url: 'wss://bot.example.com/ws' });

function conversation(config = {}) {
  return twilio.converse(twilio.parseConfig(config), target);
}

function parsed(message: AgentMessage | undefined) {
  return JSON.parse(message as string);
}

/** What a message makes the conversation do, as one list. */
function does(c: ReturnType<typeof conversation>, message: string | Uint8Array): unknown[] {
  const done: unknown[] = [];
  const sink: Sink = {
    send: (m) => done.push(['send', m]),
    audio: (bytes) => done.push(['audio', [...bytes]]),
    clear: () => done.push(['clear']),
    mark: (name) => done.push(['mark', name]),
    event: (event) => done.push(['event', event]),
    ready: () => done.push(['ready']),
    warn: (code) => done.push(['warn', code]),
    garbage: (code) => done.push(['garbage', code]),
    said: () => {},
    audioOf: () => {},
    saidAll: () => {},
    hangUp: () => {},
    fail: () => {},
    renew: () => {},
  };
  c.receive(message, sink);
  return done;
}

describe('what we send', () => {
  test('nothing before the caller answered', () => {
    expect(conversation().opening()).toEqual([]);
  });

  test('connected, then start with the ids of the call', () => {
    const [connected, start, ...rest] = conversation().start();
    expect(rest).toEqual([]);
    expect(parsed(connected)).toEqual({ event: 'connected', protocol: 'Call', version: '1.0.0' });
    const { streamSid } = parsed(start);
    expect(streamSid).toMatch(/^MZ[0-9a-f]{32}$/);
    expect(parsed(start)).toEqual({
      event: 'start',
      sequenceNumber: '1',
      start: {
        accountSid: 'AC0192f000222270008000000000000002',
        streamSid,
        callSid: 'CA0192f000111170008000000000000001',
        tracks: ['inbound'],
        mediaFormat: { encoding: 'audio/x-mulaw', sampleRate: 8000, channels: 1 },
        customParameters: { topic: 'billing' },
      },
      streamSid,
    });
  });

  test('each stream has a streamSid of its own', () => {
    expect(parsed(conversation().start()[1]).streamSid).not.toBe(parsed(conversation().start()[1]).streamSid);
  });

  test('media, mark, dtmf and stop, numbered by strings over all messages', () => {
    const c = conversation();
    const { streamSid } = parsed(c.start()[1]);
    const frame = Uint8Array.from({ length: 160 }, (_, i) => i);
    expect(parsed(c.audio(frame, 0))).toEqual({
      event: 'media',
      sequenceNumber: '2',
      media: { track: 'inbound', chunk: '1', timestamp: '0', payload: Buffer.from(frame).toString('base64') },
      streamSid,
    });
    expect(parsed(c.audio(frame, 20.4)).media).toMatchObject({ chunk: '2', timestamp: '20' });
    expect(c.dtmf('5').map(parsed)).toEqual([
      { event: 'dtmf', sequenceNumber: '4', dtmf: { track: 'inbound_track', digit: '5' }, streamSid },
    ]);
    expect(c.mark('a', false).map(parsed)).toEqual([
      { event: 'mark', sequenceNumber: '5', mark: { name: 'a' }, streamSid },
    ]);
    expect(parsed(c.mark('b', true)[0]).mark).toEqual({ name: 'b' });
    expect(c.interrupted({ heardMs: 1, droppedMs: 2 })).toEqual([]);
    expect(c.closing('x').map(parsed)).toEqual([
      {
        event: 'stop',
        sequenceNumber: '7',
        streamSid,
        stop: { accountSid: 'AC0192f000222270008000000000000002', callSid: 'CA0192f000111170008000000000000001' },
      },
    ]);
  });

  test('a view into a larger buffer sends only its own bytes', () => {
    const c = conversation();
    const view = new Uint8Array(Uint8Array.from([9, 1, 2, 3, 9]).buffer, 1, 3);
    expect(parsed(c.audio(view, 0)).media.payload).toBe(Buffer.from([1, 2, 3]).toString('base64'));
  });
});

describe('what we understand', () => {
  const c = conversation();
  const { streamSid } = parsed(c.start()[1]);
  const json = (fields: object) => JSON.stringify({ streamSid, ...fields });
  const tooDeep = `{"streamSid":"${streamSid}","event":"clear","more":${'['.repeat(20_000)}${']'.repeat(20_000)}}`;

  test.each<[string, string | Uint8Array, unknown[]]>([
    ['media', json({ event: 'media', media: { payload: 'AQID' } }), [['audio', [1, 2, 3]]]],
    [
      'media with fields of its own',
      json({ event: 'media', media: { payload: 'AQ==', track: 'x' }, y: 1 }),
      [['audio', [1]]],
    ],
    ['unpadded base64', json({ event: 'media', media: { payload: 'AQI' } }), [['audio', [1, 2]]]],
    ['empty media', json({ event: 'media', media: { payload: '' } }), []],
    ['mark', json({ event: 'mark', mark: { name: 'x' } }), [['mark', 'x']]],
    ['clear', json({ event: 'clear' }), [['clear']]],
    ['binary', new Uint8Array([1]), [['garbage', '31950']]],
    ['no JSON', '{', [['garbage', '31951']]],
    ['an array', '[]', [['garbage', '31951']]],
    ['null', 'null', [['garbage', '31951']]],
    ['too many brackets', tooDeep, [['garbage', '31951']]],
    ['unknown event', json({ event: 'hangup' }), [['garbage', '31951']]],
    ['event of a prototype', json({ event: '__proto__' }), [['garbage', '31951']]],
    ['no event', json({}), [['garbage', '31951']]],
    ['foreign streamSid', json({ event: 'clear', streamSid: 'MZ0' }), [['garbage', '31951']]],
    ['no streamSid', '{"event":"clear"}', [['warn', '31951']]],
    ['media without payload', json({ event: 'media', media: {} }), [['garbage', '31951']]],
    ['media as text', json({ event: 'media', media: 'AQID' }), [['garbage', '31951']]],
    [
      'media from __proto__',
      `{"streamSid":"${streamSid}","event":"media","__proto__":{"media":{"payload":"AQID"}}}`,
      [['garbage', '31951']],
    ],
    ['payload as a number', json({ event: 'media', media: { payload: 7 } }), [['garbage', '31951']]],
    ['payload not base64', json({ event: 'media', media: { payload: 'A!ID' } }), [['garbage', '31951']]],
    ['payload cut', json({ event: 'media', media: { payload: 'AQIDB' } }), [['garbage', '31951']]],
    ['mark without name', json({ event: 'mark', mark: {} }), [['warn', '31951']]],
    ['mark with an endless name', json({ event: 'mark', mark: { name: 'x'.repeat(2000) } }), [['garbage', '31951']]],
  ])('%s', (_name, message, expected) => {
    expect(does(c, message)).toEqual(expected);
  });

  test.each([
    [1000, 'hangup'],
    [1001, 'hangup'],
    [1005, 'hangup'],
    [1006, 'failed'],
    [1011, 'failed'],
    [4000, 'failed'],
  ])('close code %i is %s', (code, how) => {
    expect(c.closed(code, '')).toBe(how);
  });
});

describe('the upgrade request', () => {
  test('has a signature only with a token', () => {
    expect(conversation().upgrade()).toEqual({ url: 'wss://bot.example.com/ws', headers: {} });
    // printf '%s' 'wss://bot.example.com/ws' | openssl dgst -sha1 -hmac '12345' -binary | base64
    expect(conversation({ auth_token: '12345', headers: { 'X-Tenant': 'a' } }).upgrade().headers).toEqual({
      'X-Tenant': 'a',
      'X-Twilio-Signature': 'c4TTtAVPJTzcp2rN7Q8Nwtala9A=',
    });
  });

  test.each([
    ['wss://h/p', 'wss://h/p'],
    ['wss://h:443/p', 'wss://h/p'],
    ['wss://h:443', 'wss://h'],
    ['wss://h:8443/p', 'wss://h:8443/p'],
    ['wss://h:4430/p', 'wss://h:4430/p'],
    ['ws://h:80/p', 'ws://h/p'],
    ['ws://h:443/p', 'ws://h:443/p'],
    ['wss://h/p:443/x', 'wss://h/p:443/x'],
    ['wss://[2001:db8::1]:443/p', 'wss://[2001:db8::1]/p'],
  ])('%s is signed as %s', (url, signed) => {
    expect(signUpgrade('t', url)).toBe(createHmac('sha1', 't').update(signed).digest('base64'));
  });

  test.each<[string, string, unknown]>([
    ['auth_token', 'a number', { auth_token: 7 }],
    ['auth_token', 'empty', { auth_token: '' }],
    ['headers', 'a list', { headers: [] }],
    ['headers', 'a header that is no string', { headers: { a: 1 } }],
    ['headers', 'a line break in a value', { headers: { a: 'b\r\nc: d' } }],
    ['headers', 'a blank in a name', { headers: { 'a b': 'c' } }],
    ['headers', 'a header of the handshake', { headers: { 'Sec-WebSocket-Key': 'x' } }],
    ['headers', 'Host', { headers: { host: 'x' } }],
    ['', 'a config that is no object', 'x'],
  ])('refuses %s: %s', (field, _what, config) => {
    const parse = () => twilio.parseConfig(config as never);
    expect(parse).toThrow(AgentConfigError);
    expect(parse).toThrow(expect.objectContaining({ field }));
  });
});
