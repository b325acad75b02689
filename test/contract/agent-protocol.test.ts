import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { AgentEvent, AgentMessage, Sink } from '../../media/agents/agent.js';
import { agentProtocols } from '../../media/agents/providers/registry.js';
import { agentTarget } from '../support/agent-rig.js';
import { PROVIDER_MESSAGES, spoilt } from '../support/provider-messages.js';

/** What every REST service of a provider answers, in one. */
const PREPARED = JSON.stringify({
  signed_url: 'wss://agent.example.com/signed',
  joinUrl: 'wss://agent.example.com/join',
  transport: { websocketCallUrl: 'wss://agent.example.com/transport' },
});

/** What agents accept a stream with. */
const ACCEPTED: Readonly<Record<string, object[]>> = {
  sinch: [{ command: 'answer' }],
  genesys: [{ version: '2', type: 'opened', seq: 1, clientseq: 1, parameters: {} }],
  audiocodes: [{ type: 'session.accepted', mediaFormat: 'raw/lpcm16' }, { type: 'userStream.started' }],
};
/** They report marks that were played, and not those that were cleared. */
const PLAYED_ONLY = ['plivo', 'asterisk'];
/** All their messages are binary. */
const BINARY = ['audiosocket'];

describe.each([...agentProtocols.values()])('$provider', (protocol) => {
  const target = agentTarget({
    protocol: protocol.provider,
    url: `${protocol.schemes?.[0] ?? 'wss'}://agent.example.com:9092/call`,
  });
  /** Stream protocols describe the call and answer marks; named providers know a conversation only. */
  const isStream = protocol.selectedBy === 'protocol';
  const converse = () => {
    const c = protocol.converse(protocol.parseConfig(protocol.example), target);
    if (c.prepare?.() !== null) c.prepared?.(PREPARED);
    return c;
  };
  /** All that it sends until the agent has accepted the call. */
  const begin = (c: ReturnType<typeof converse>) => {
    const said = messages(c.start());
    const sink = { ...strictSink(() => {}), send: (message: AgentMessage) => said.push(...messages([message])) };
    for (const each of ACCEPTED[protocol.provider] ?? []) c.receive(JSON.stringify(each), sink);
    return said;
  };

  test('is registered under its own name', () => {
    expect(agentProtocols.get(protocol.provider)).toBe(protocol);
  });

  test('dials a URL of its schemes with string headers', () => {
    const { url, headers } = converse().upgrade();
    expect(protocol.schemes ?? ['ws', 'wss']).toContain(new URL(url).protocol.slice(0, -1));
    for (const value of Object.values(headers)) expect(value).toBeTypeOf('string');
  });

  test('is not told of the call before the caller answered', () => {
    const opening = converse().opening();
    expect(messages(opening).join()).not.toContain(target.call.callId);
    if (isStream && protocol.readyOn === 'connect') expect(opening).toEqual([]);
  });

  test('gets the facts of the call in start', () => {
    if (!isStream || BINARY.includes(protocol.provider)) return;
    const said = begin(converse()).join();
    expect(said.includes(target.call.callId) || said.includes(target.call.callId.replaceAll('-', ''))).toBe(true);
    expect(said).toContain('billing');
  });

  test('one frame is one message that holds its bytes', () => {
    const c = converse();
    begin(c);
    const frame = Uint8Array.from({ length: 160 }, (_, i) => (i * 7) & 0xff);
    const message = c.audio(frame, 0);
    const carried =
      typeof message === 'string'
        ? message.includes(Buffer.from(frame).toString('base64'))
        : Buffer.from(message ?? []).includes(Buffer.from(frame));
    expect(carried).toBe(true);
  });

  test('a mark is answered, whether played or cleared', () => {
    if (!isStream || protocol.capabilities.heard === undefined) return;
    for (const cleared of [false, true]) {
      const c = converse();
      c.start();
      const answer = messages(c.mark('first "name"\n', cleared)).map((each) => JSON.parse(each));
      if (!PLAYED_ONLY.includes(protocol.provider) || !cleared) expect(answer).not.toEqual([]);
    }
  });

  test('has last words', () => {
    const c = converse();
    c.start();
    if (BINARY.includes(protocol.provider)) {
      expect(c.closing('the caller hung up')).toEqual([Buffer.from([0, 0, 0])]);
      return;
    }
    for (const message of messages(c.closing('the caller hung up'))) expect(() => JSON.parse(message)).not.toThrow();
  });

  test('1000 is a hang-up; a broken socket and a server error are failures', () => {
    const c = converse();
    expect([1000, 1006, 1011].map((code) => c.closed(code, ''))).toEqual(['hangup', 'failed', 'failed']);
  });

  test('two calls share nothing', () => {
    const [one, two] = [converse(), converse()];
    one.start();
    for (let i = 0; i < 5; i++) one.audio(new Uint8Array(160), i * 20);
    const withoutIds = (m: AgentMessage) => String(m).replace(/(?:MZ)?[0-9a-f]{32}|[0-9a-f-]{36}/, '');
    two.start();
    const fresh = converse();
    fresh.start();
    expect(withoutIds(two.audio(new Uint8Array(160), 0))).toBe(withoutIds(fresh.audio(new Uint8Array(160), 0)));
  });

  test('bad config is a sentence about a field, never another error', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (config) => {
        try {
          protocol.parseConfig(config as never);
        } catch (error) {
          expect(error).toMatchObject({ name: 'AgentConfigError', field: expect.any(String) });
        }
      }),
    );
  });

  test('no message makes it throw, and what it passes on has the promised types', () => {
    const leaf = fc.oneof(fc.constant('AQID'), fc.jsonValue({ maxDepth: 2 }), fc.base64String(), fc.string());
    const wellFormed = fc.constant({ payload: 'AQID', name: 'x' });
    const inner = fc.oneof(
      { weight: 3, arbitrary: wellFormed },
      leaf,
      fc.dictionary(fc.constantFrom('payload', 'name', '__proto__'), leaf),
    );
    const nearly = fc.record(
      {
        event: fc.constantFrom(
          'media',
          'mark',
          'clear',
          'dtmf',
          'transfer',
          'transcript',
          'hangup',
          'start',
          'playAudio',
          'checkpoint',
          '__proto__',
        ),
        action: fc.constantFrom('clear', 'notify', 'x'),
        streamSid: fc.oneof({ weight: 4, arbitrary: fc.constant('THIS-STREAM') }, leaf),
        ...Object.fromEntries(
          ['media', 'mark', 'name', 'digits', 'to', 'speaker', 'text'].map((each) => [each, inner]),
        ),
      },
      { requiredKeys: ['event', 'streamSid'] },
    );
    const examples = PROVIDER_MESSAGES[protocol.provider];
    const known = fc.constantFrom(...(examples ?? [{ event: 'clear' }]));
    const weight = examples === undefined ? 0 : 4;
    const message = fc.oneof(
      { weight, arbitrary: known.map((each) => JSON.stringify(each)) },
      {
        weight,
        arbitrary: fc.tuple(known, fc.nat(), leaf).map((how) => JSON.stringify(spoilt(...how))),
      },
      nearly.map((each) => JSON.stringify(each)),
      fc.json(),
      fc.string({ unit: 'binary' }),
      fc.uint8Array(),
      {
        weight: BINARY.includes(protocol.provider) ? 4 : 0,
        arbitrary: fc
          .tuple(fc.constantFrom(0x00, 0x02, 0x10, 0x11, 0x12, 0x16, 0xff), fc.uint8Array())
          .map(([kind, payload]) => Uint8Array.of(kind, 0, payload.length, ...payload)),
      },
    );
    let understood = 0;
    fc.assert(
      fc.property(fc.array(message, { maxLength: 5 }), (received) => {
        const c = converse();
        const started = messages(c.start()).at(-1) ?? '{}';
        const streamSid = BINARY.includes(protocol.provider) ? '' : String(JSON.parse(started).streamSid);
        const sink = strictSink(() => {
          understood += 1;
        });
        for (const each of received) {
          c.receive(typeof each === 'string' ? each.replace('THIS-STREAM', streamSid) : each, sink);
        }
      }),
      { numRuns: 1000 },
    );
    expect(understood).toBeGreaterThan(20);
  });
});

function messages(outgoing: AgentMessage[]): string[] {
  return outgoing.filter((each) => each !== null).map((each) => Buffer.from(each).toString());
}

/** Refuses whatever the words of the seam do not allow. */
function strictSink(onUnderstood: () => void): Sink {
  return {
    send: (message) =>
      expect(message === null || typeof message === 'string' || message instanceof Uint8Array).toBe(true),
    audio: (bytes) => {
      expect(bytes).toBeInstanceOf(Uint8Array);
      expect(bytes.length).toBeGreaterThan(0);
      onUnderstood();
    },
    audioOf: (format, bytes) => {
      expect(format.sampleRateHz).toBeTypeOf('number');
      expect(bytes.length).toBeGreaterThan(0);
      onUnderstood();
    },
    clear: () => {},
    mark: (name) => {
      expect(name).toBeTypeOf('string');
      onUnderstood();
    },
    event: (event: AgentEvent) => {
      for (const [name, value] of Object.entries(event))
        expect(value).toBeTypeOf(name === 'beganMs' ? 'number' : 'string');
    },
    ready: () => {},
    said: (text) => expect(text).toBeTypeOf('string'),
    saidAll: () => {},
    hangUp: () => onUnderstood(),
    fail: (failure) => expect(failure.message).toMatch(/^[A-Z].*\.$/),
    renew: () => {},
    warn: (code, message) => {
      expect(code).toMatch(/^[a-z0-9_]+$/);
      expect(message).toMatch(/^[A-Z].*\.$/);
    },
    garbage: (code, message) => {
      expect(code).toMatch(/^[a-z0-9_]+$/);
      expect(message).toMatch(/^[A-Z].*\.$/);
    },
  };
}
