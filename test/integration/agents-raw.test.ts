import { describe, expect, test } from 'vitest';
import { AgentConfigError, type Sink } from '../../media/agents/agent.js';
import { raw } from '../../media/agents/providers/streams/raw.js';
import { agentTarget } from '../support/agent-rig.js';

function conversation(config = {}) {
  return raw.converse(raw.parseConfig(config), agentTarget());
}

function does(message: string | Uint8Array): unknown[] {
  const done: unknown[] = [];
  const sink: Sink = {
    send: (m) => done.push(['send', m]),
    audio: (bytes) => done.push(['audio', [...bytes]]),
    audioOf: () => done.push(['audioOf']),
    clear: () => done.push(['clear']),
    mark: (name) => done.push(['mark', name]),
    event: (event) => done.push(['event', event]),
    ready: () => done.push(['ready']),
    warn: (code) => done.push(['warn', code]),
    garbage: (code) => done.push(['garbage', code]),
    said: () => {},
    saidAll: () => {},
    hangUp: () => {},
    fail: () => {},
    renew: () => {},
  };
  conversation().receive(message, sink);
  return done;
}

const parsed = (messages: unknown[]) => messages.map((each) => JSON.parse(each as string));

describe('what we send', () => {
  test('start, when the caller answered', () => {
    const c = conversation({ sample_rate: 16000, headers: { Authorization: 'Bearer x' } });
    expect(c.upgrade()).toEqual({ url: 'ws://127.0.0.1:1/', headers: { Authorization: 'Bearer x' } });
    expect(c.opening()).toEqual([]);
    expect(parsed(c.start())).toEqual([
      {
        event: 'start',
        call_id: '0192f000-1111-7000-8000-000000000001',
        from: '+4930123456',
        to: '+15005550006',
        direction: 'inbound',
        format: { encoding: 'l16', sample_rate: 16000, channels: 1 },
        custom: { topic: 'billing' },
      },
    ]);
  });

  test('audio as it is, and the events of the call', () => {
    const c = conversation();
    const frame = new Uint8Array(320);
    expect(c.audio(frame, 0)).toBe(frame);
    expect(parsed(c.mark('m', false))).toEqual([{ event: 'mark', name: 'm' }]);
    expect(parsed(c.mark('m', true))).toEqual([{ event: 'mark', name: 'm', cleared: true }]);
    expect(parsed(c.dtmf('#'))).toEqual([{ event: 'dtmf', digits: '#' }]);
    expect(parsed(c.closing('caller hung up'))).toEqual([{ event: 'stop', reason: 'caller hung up' }]);
    expect(c.interrupted({ heardMs: 0, droppedMs: 0 })).toEqual([]);
  });
});

describe('what we understand', () => {
  test.each<[string | Uint8Array, unknown[]]>([
    [new Uint8Array([1, 2, 3]), [['audio', [1, 2, 3]]]],
    [new Uint8Array(0), []],
    ['{"event":"clear"}', [['clear']]],
    ['{"event":"mark","name":"x"}', [['mark', 'x']]],
    ['{"event":"dtmf","digits":"12#w*D"}', [['event', { type: 'dtmf', digits: '12#w*D' }]]],
    ['{"event":"transfer","to":"+4930"}', [['event', { type: 'transfer', to: '+4930' }]]],
    ['{"event":"transfer","to":"sip:a@b"}', [['event', { type: 'transfer', to: 'sip:a@b' }]]],
    ['{"event":"hangup"}', [['event', { type: 'hangup' }]]],
    [
      '{"event":"transcript","speaker":"caller","text":"hi"}',
      [['event', { type: 'transcript', speaker: 'caller', text: 'hi' }]],
    ],
    ['not json', [['garbage', 'bad_json']]],
    ['7', [['garbage', 'bad_json']]],
    ['{}', [['garbage', 'unknown_event']]],
    ['{"event":"constructor"}', [['garbage', 'unknown_event']]],
    ['{"event":"mark"}', [['garbage', 'bad_field']]],
    ['{"event":"mark","__proto__":{"name":"x"}}', [['garbage', 'bad_field']]],
    ['{"event":"dtmf","digits":"12;rm"}', [['garbage', 'bad_field']]],
    ['{"event":"dtmf","digits":""}', [['garbage', 'bad_field']]],
    ['{"event":"dtmf","digits":12}', [['garbage', 'bad_field']]],
    ['{"event":"transfer","to":"sip:a@b\\r\\nX: y"}', [['garbage', 'bad_field']]],
    ['{"event":"transfer"}', [['garbage', 'bad_field']]],
    ['{"event":"transcript","speaker":"eve","text":"hi"}', [['garbage', 'bad_field']]],
    ['{"event":"transcript","speaker":"agent"}', [['garbage', 'bad_field']]],
  ])('%j', (message, expected) => {
    expect(does(message)).toEqual(expected);
  });
});

test.each([
  [{}, 'l16', 8000],
  [{ sample_rate: 24000 }, 'l16', 24000],
  [{ sample_rate: 16000, encoding: 'l16' }, 'l16', 16000],
  [{ encoding: 'ulaw' }, 'ulaw', 8000],
  [{ encoding: null, sample_rate: null }, 'l16', 8000],
])('config %j is %s at %i Hz', (config, encoding, sampleRateHz) => {
  expect(conversation(config).format).toEqual({ encoding, sampleRateHz });
  expect(conversation(config).replyFormat).toEqual({ encoding, sampleRateHz });
});

test.each([
  ['sample_rate', { sample_rate: 44100 }],
  ['sample_rate', { sample_rate: '8000' }],
  ['sample_rate', { encoding: 'ulaw', sample_rate: 16000 }],
  ['encoding', { encoding: 'mp3' }],
])('refuses %s in %j', (field, config) => {
  expect(() => raw.parseConfig(config)).toThrow(AgentConfigError);
  expect(() => raw.parseConfig(config)).toThrow(expect.objectContaining({ field }));
});
