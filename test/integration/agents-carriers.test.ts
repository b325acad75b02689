/** What the bots of carriers send that is not quite what the carrier's page says, and what their own libraries insist on. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { WebSocketServer } from 'ws';
import { tone } from '../../examples/tone-agent/sound.js';
import type { Conversation, Plain, Sink } from '../../media/agents/agent.js';
import { ForeignAudio } from '../../media/agents/connection/foreign-audio.js';
import { openAgentSocket } from '../../media/agents/connection/socket.js';
import { base64Bytes } from '../../media/agents/json.js';
import { agentProtocols } from '../../media/agents/providers/registry.js';
import { signUpgrade } from '../../media/agents/providers/streams/plivo.js';
import { decodeAudio, encodeAudio } from '../../src/simulator/providers/codec.js';
import { agentTarget, ProviderState } from '../support/agent-rig.js';
import { probeTone } from '../support/tone-probe.js';

function conversation(protocol: string, config: Plain = {}): Conversation {
  const found = agentProtocols.get(protocol)!;
  return found.converse(found.parseConfig(config), agentTarget({ protocol, url: 'wss://bot.example.com/s?b=2&a=1' }));
}

function read(c: Conversation, message: object) {
  const done: unknown[] = [];
  const audio: Uint8Array[] = [];
  const foreign = new ForeignAudio();
  const refuse = (what: string) => () => done.push([what]);
  const sink: Sink = {
    ...{ clear: refuse('clear'), said: refuse('said'), saidAll: refuse('saidAll'), hangUp: refuse('hangUp') },
    ...{ renew: refuse('renew'), ready: refuse('ready'), fail: refuse('fail'), event: refuse('event') },
    send: (sent) => done.push(['send', JSON.parse(String(sent))]),
    audio: (bytes) => audio.push(bytes),
    audioOf: (format, bytes) => audio.push(foreign.convert(bytes, format, c.replyFormat)),
    mark: (name) => done.push(['mark', name]),
    warn: (code) => done.push(['warn', code]),
    garbage: (code) => done.push(['garbage', code]),
  };
  c.receive(JSON.stringify(message), sink);
  return { done, audio: Buffer.concat(audio) };
}

const sent = (messages: unknown[]) => messages.map((each) => JSON.parse(String(each)));

describe('plivo', () => {
  const started = (config: Plain = {}) => {
    const c = conversation('plivo', config);
    c.start();
    return c;
  };
  const play = (media: object) => ({ event: 'playAudio', media });
  const wire = (samples: Int16Array, encoding: 'l16' | 'ulaw') => encodeAudio(samples, encoding).toString('base64');

  test('each message has what its own library insists on', () => {
    const c = started();
    const extra_headers = '{"topic":"billing"}';
    const numbered = { sequenceNumber: expect.any(Number), streamId: expect.stringMatching(/^[0-9a-f-]{36}$/) };
    expect(sent([c.audio(new Uint8Array(160), 40)])[0]).toMatchObject({ ...numbered, extra_headers });
    expect(sent(c.dtmf('5'))[0]).toEqual({
      event: 'dtmf',
      ...numbered,
      dtmf: { track: 'inbound', digit: '5', timestamp: '40' },
      extra_headers,
    });
    expect(sent(c.mark('m', false))[0]).toEqual({ event: 'playedStream', ...numbered, name: 'm' });
    expect(read(c, { event: 'clearAudio' }).done).toEqual([
      ['clear'],
      ['send', { event: 'clearedAudio', ...numbered }],
    ]);
    expect(c.closing('the caller hung up')).toEqual([]);
  });

  test.each([
    ['PCM of 16 kHz on a stream of μ-law', {}, 'audio/x-l16', 16000],
    ['PCM of 24 kHz on a stream of μ-law', {}, 'audio/x-l16;rate=24000', 24000],
    ['PCM of 8 kHz on a stream of 16 kHz', { encoding: 'l16', sample_rate: 16000 }, 'audio/x-l16', 8000],
    ['μ-law on a stream of 16 kHz', { encoding: 'l16', sample_rate: 16000 }, 'audio/x-mulaw', 8000],
    ['what the stream has', {}, 'audio/x-mulaw', 8000],
  ])('%s is heard as what it is', (_what, config, contentType, sampleRate) => {
    const c = started(config);
    const payload = wire(tone(600, 400, sampleRate), contentType.includes('mulaw') ? 'ulaw' : 'l16');
    const { done, audio } = read(c, play({ contentType, sampleRate, payload }));
    expect(done).toEqual([]);
    const { encoding, sampleRateHz } = c.replyFormat;
    const samples = decodeAudio(audio, encoding);
    expect(samples.length / sampleRateHz).toBeCloseTo(0.4, 1);
    expect(probeTone(samples.subarray(0, sampleRateHz / 4), 600, sampleRateHz).amplitude).toBeGreaterThan(3000);
  });

  test.each([
    ['audio/mpeg', 8000],
    ['audio/x-l16', 44100],
    ['audio/x-mulaw', 16000],
  ])('%s at %d Hz is refused', (contentType, sampleRate) => {
    const { done, audio } = read(started(), play({ contentType, sampleRate, payload: 'AQIDBA==' }));
    expect(done).toEqual([['garbage', 'bad_audio']]);
    expect(audio).toHaveLength(0);
  });

  test('signs the address with its parameters in order', () => {
    const headers = conversation('plivo', { auth_token: 'secret' }).upgrade().headers;
    expect(Object.keys(headers)).toEqual(['X-Plivo-Signature-V3', 'X-Plivo-Signature-V3-Nonce']);
    expect(conversation('plivo').upgrade().headers).toEqual({});
    const nonce = 'n';
    const one = signUpgrade('secret', 'wss://bot.example.com/s?b=2&a=1', nonce);
    // openssl dgst -sha256 -hmac secret of "https://bot.example.com/s?a=1&b=2.n"
    expect(one).toEqual(signUpgrade('secret', 'https://bot.example.com/s?a=1&b=2', nonce));
    expect(one).not.toEqual(signUpgrade('other', 'wss://bot.example.com/s?b=2&a=1', nonce));
    expect(one['X-Plivo-Signature-V3']).toBe('igaUO/fqaDSlFbEj7JD2hj1ovzQSUNh42CmKvQMv7RM=');
  });
});

test('twilio: a mark without a name, or a message without its stream, is warned of and is no garbage', () => {
  const c = conversation('twilio');
  const streamSid = sent(c.start())[1].streamSid;
  expect(read(c, { event: 'mark', streamSid }).done).toEqual([['warn', '31951']]);
  expect(read(c, { event: 'media', media: { payload: 'AQID' } }).done).toEqual([['warn', '31951']]);
  expect(read(c, { event: 'media', streamSid, media: { payload: 'AQ\r\nID' } }).audio).toEqual(Buffer.from([1, 2, 3]));
});

test('telnyx: a mark that is a number comes back as one, and once', () => {
  const c = conversation('telnyx');
  c.start();
  expect(read(c, { event: 'mark', mark: { name: 1763800000000 } }).done).toEqual([['mark', '1763800000000']]);
  expect(sent(c.mark('1763800000000', false))[0].mark).toEqual({ name: 1763800000000 });
  expect(sent(c.mark('1763800000000', false))[0].mark).toEqual({ name: '1763800000000' });
});

test.each([
  ['AQID', [1, 2, 3]],
  ['AQID\nBAUG\n', [1, 2, 3, 4, 5, 6]],
  ['AQ I\tD', [1, 2, 3]],
  ['AQ*D', null],
  ['A\n', null],
])('base64 %j', (text, bytes) => {
  const read = base64Bytes(text);
  expect(read === null ? null : [...read]).toEqual(bytes);
});

describe.each(['jambonz', 'asterisk'])('%s offers a subprotocol', (protocol) => {
  test.each([
    ['takes it', (offered: Set<string>) => [...offered][0] ?? false],
    ['takes none', () => false as const],
  ])('to a bot that %s', async (_what, handleProtocols) => {
    const server = new WebSocketServer({ host: '127.0.0.1', port: 0, handleProtocols });
    await once(server, 'listening');
    const offered = once(server, 'connection').then(([, { headers }]) => headers['sec-websocket-protocol']);
    const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const socket = openAgentSocket(agentTarget({ protocol, url }), new ProviderState(), new AbortController().signal);
    await socket.ready;
    expect(await offered).toBe(protocol === 'asterisk' ? 'media' : 'audio.jambonz.org');
    await socket.close('over');
    await new Promise((resolve) => server.close(resolve));
  });
});
