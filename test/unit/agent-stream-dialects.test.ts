/** What is special about single stream protocols. */
import { expect, test } from 'vitest';
import type { Conversation, Plain, Sink } from '../../media/agents/agent.js';
import { agentProtocols } from '../../media/agents/providers/registry.js';
import { signUpgrade } from '../../media/agents/providers/streams/genesys.js';
import { agentTarget, CALL } from '../support/agent-rig.js';

function conversation(protocol: string, config: Plain = {}): Conversation {
  const found = agentProtocols.get(protocol)!;
  return found.converse(found.parseConfig(config), agentTarget({ protocol, url: 'wss://bot.example.com/s' }));
}

/** What a message makes it do, in order. */
function read(c: Conversation, message: string | Uint8Array): [what: string, ...how: unknown[]][] {
  const done: [string, ...unknown[]][] = [];
  const noted =
    (what: string) =>
    (...how: unknown[]) =>
      void done.push([what, ...how]);
  const sink = Object.fromEntries(
    ['send', 'audio', 'audioOf', 'clear', 'mark', 'hangUp', 'fail', 'event', 'warn', 'garbage'].map((name) => [
      name,
      noted(name),
    ]),
  ) as unknown as Sink;
  c.receive(message, sink);
  return done;
}

const json = (message: unknown) => JSON.parse(String(message)) as Record<string, unknown>;
const frame = (value: number) => new Uint8Array(160).fill(value);

test('asterisk: control in words, as Asterisk has it when nothing else is set', () => {
  const c = conversation('asterisk', { encoding: 'l16', sample_rate: 16000 });
  const id = CALL.callId;
  expect(c.start()).toEqual([
    `MEDIA_START connection_id:${id} channel:WebSocket/${id} channel_id:${id} format:slin16 optimal_frame_size:640 ptime:20`,
  ]);
  expect(c.dtmf('5')).toEqual([`DTMF_END digit:5 channel_id:${id}`]);
  expect(read(c, 'MARK_MEDIA one two')).toEqual([['mark', 'mark:one two']]);
  expect(c.mark('mark:one two', false)).toEqual(['MEDIA_MARK_PROCESSED one two']);
  expect(c.mark('mark:one two', true)).toEqual([]);
  expect(read(c, 'REPORT_QUEUE_DRAINED')).toEqual([['mark', 'QUEUE_DRAINED']]);
  expect(c.mark('QUEUE_DRAINED', false)).toEqual(['QUEUE_DRAINED']);
  expect(read(c, 'STOP_MEDIA_BUFFERING')).toEqual([['mark', 'buffered:']]);
  expect(c.mark('buffered:', false)).toEqual(['MEDIA_BUFFERING_COMPLETED']);
  expect(read(c, 'FLUSH_MEDIA')).toEqual([['clear']]);
  expect(read(c, 'HANGUP')).toEqual([['hangUp']]);
  expect(read(c, 'GET_STATUS').map(([what]) => what)).toEqual(['garbage', 'send']);
  expect(c.upgrade().subprotocol).toBe('media');
});

test('genesys: the signature of the example in its documentation', () => {
  const ids = {
    'Audiohook-Organization-Id': 'd7934305-0972-4844-938e-9060eef73d05',
    'Audiohook-Session-Id': '30b0e395-84d3-4570-ac13-9a62d8f514c0',
    'Audiohook-Correlation-Id': 'e160e428-53e2-487c-977d-96989bf5c99d',
    'X-API-KEY': 'SGVsbG8sIEkgYW0gdGhlIEFQSSBrZXkh',
  };
  const secret = 'TXlTdXBlclNlY3JldEtleVRlbGxOby0xITJAMyM0JDU=';
  const times = { nonce: 'VGhpc0lzQVVuaXF1ZU5vbmNl', createdSec: 1641013200, lifetimeSec: 3282026430 - 1641013200 };
  const signed = signUpgrade(secret, 'wss://audiohook.example.com/api/v1/voicebiometrics/ws', ids, times);
  expect(signed.Signature).toBe('sig1=:NZBwyBHRRyRoeLqy1IzOa9VYBuI8TgMFt2GRDkDuJh4=:');
});

test('genesys: playback is reported when the queue has run empty, pauses hold the audio back', () => {
  const c = conversation('genesys');
  const open = json(c.start()[0]);
  expect(c.audio(frame(1), 0)).toBeNull();
  const opened = read(c, '{"version":"2","type":"opened","seq":1,"parameters":{}}');
  expect(opened).toEqual([['send', frame(1)]]); // the caller's first word
  const began = read(c, frame(2));
  expect(began.map(([what]) => what)).toEqual(['audio', 'send', 'mark']);
  expect(json(began[1]?.[1])).toMatchObject({
    type: 'playback_started',
    id: open.id,
    seq: 2,
    serverseq: 1,
  });
  const marks: string[] = [];
  c.receive(frame(3), { audio: () => {}, mark: (name: string) => marks.push(name) } as Partial<Sink> as Sink);
  expect(c.mark('played', false)).toEqual([]); // there is more
  expect(marks).toEqual(['played']);
  expect(c.mark('played', false).map(json)).toMatchObject([{ type: 'playback_completed', position: 'PT0.020S' }]);
  read(c, '{"type":"pause","parameters":{}}');
  expect(c.audio(frame(4), 20)).toBeNull();
  read(c, '{"type":"resume","parameters":{}}');
  expect(c.audio(frame(4), 40)).toEqual(frame(4));
});

test.each([
  ['completed', 'hangUp'],
  ['unauthorized', 'fail'],
  ['error', 'fail'],
])('genesys: disconnect because of %s', (reason, what) => {
  const done = read(conversation('genesys'), JSON.stringify({ type: 'disconnect', parameters: { reason } }));
  expect(done.map(([name]) => name)).toEqual([what]);
});

test('jambonz: a clip replaces what is playing, and is reported when it was played', () => {
  const c = conversation('jambonz');
  const clip = { audioContentType: 'raw', sampleRate: 16000, audioContent: 'AQIDBA==', id: 'one' };
  const bytes = Buffer.from([1, 2, 3, 4]);
  expect(read(c, JSON.stringify({ type: 'playAudio', data: clip }))).toEqual([
    ['clear'],
    ['audioOf', { encoding: 'l16', sampleRateHz: 16000 }, bytes],
    ['mark', 'playAudio:one'],
  ]);
  const queued = read(c, JSON.stringify({ type: 'playAudio', data: { ...clip, queuePlay: true } }));
  expect(queued.map(([what]) => what)).toEqual(['audioOf', 'mark']);
  expect(c.mark('playAudio:one', false).map(json)).toEqual([{ type: 'playDone', data: { id: 'one' } }]);
  expect(c.mark('one', true).map(json)).toEqual([{ type: 'mark', data: { name: 'one', event: 'cleared' } }]);
  const wav = { type: 'playAudio', data: { ...clip, audioContentType: 'wav' } };
  expect(read(c, JSON.stringify(wav)).map(([what]) => what)).toEqual(['garbage']);
});

test.each(['busy', 'reject'])('sinch: %s makes another agent take over', (command) => {
  expect(read(conversation('sinch'), JSON.stringify({ command }))).toMatchObject([['fail', { retryable: true }]]);
});

test('sinch: only the last second before the answer is kept', () => {
  const c = conversation('sinch');
  c.start();
  for (let i = 0; i < 100; i++) expect(c.audio(frame(i), i * 20)).toBeNull();
  const kept = read(c, '{"command":"answer"}').map(([, bytes]) => (bytes as Uint8Array)[0]);
  expect(kept).toEqual(Array.from({ length: 51 }, (_, i) => 49 + i));
});

test('signalwire: a bearer token, and no signature of Twilio', () => {
  const { headers } = conversation('signalwire', { auth_token: 'secret', headers: { 'X-A': 'b' } }).upgrade();
  expect(headers).toEqual({ Authorization: 'Bearer secret', 'X-A': 'b' });
});

test('audiocodes: each stream of the bot has its own format', () => {
  const c = conversation('audiocodes');
  c.start();
  read(c, '{"type":"session.accepted","mediaFormat":"raw/lpcm16"}');
  const chunk = '{"type":"playStream.chunk","streamId":"a","audioChunk":"AQIDBA=="}';
  expect(read(c, chunk)).toEqual([['audio', Buffer.from([1, 2, 3, 4])]]);
  expect([...(c.readMedia?.(Buffer.from(chunk)) ?? [])]).toEqual([1, 2, 3, 4]); // not parsed any more
  read(c, '{"type":"playStream.start","streamId":"b","mediaFormat":"raw/lpcm16_24"}');
  expect(c.readMedia?.(Buffer.from(chunk))).toBeNull();
  expect(read(c, chunk)).toEqual([['audioOf', { encoding: 'l16', sampleRateHz: 24000 }, Buffer.from([1, 2, 3, 4])]]);
  expect(read(c, '{"type":"session.accepted","mediaFormat":"raw/mulaw"}')).toEqual([]); // once is enough
  expect(read(conversation('audiocodes'), '{"type":"session.accepted","mediaFormat":"raw/mulaw"}')).toMatchObject([
    ['fail', { reason: 'protocol' }],
  ]);
});
