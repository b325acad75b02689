import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { startEchoAgent } from '../../examples/echo-agent/index.js';
import type { ToneEvent } from '../../examples/tone-agent/call.js';
import { startToneAgent, type ToneAgentOptions } from '../../examples/tone-agent/index.js';
import * as sound from '../../examples/tone-agent/sound.js';
import { openAgentSocket } from '../../media/agents/connection/socket.js';
import { agentTarget, ProviderState, watchResources } from '../support/agent-rig.js';

let resources: ReturnType<typeof watchResources>;

beforeEach(() => {
  resources = watchResources();
});

afterEach(() => resources.expectNone());

const PROTOCOLS = ['raw', 'twilio'] as const;

async function connect(protocol: 'raw' | 'twilio', url: string, config = {}) {
  const hooks = new ProviderState();
  const target = agentTarget({ protocol, url, config });
  const socket = openAgentSocket(target, hooks, new AbortController().signal);
  await socket.ready;
  socket.start();
  return { hooks, socket };
}

describe('echo agent', () => {
  test.each(PROTOCOLS)('says back what it hears (%s)', async (protocol) => {
    const agent = await startEchoAgent({ port: 0 });
    const { hooks, socket } = await connect(protocol, agent.urls[protocol]);
    const said = Buffer.from(Array.from({ length: 1600 }, (_, i) => (i * 31) & 0xff));
    for (let i = 0; i < 10; i++) socket.audio(said.subarray(i * 160, i * 160 + 160), i * 20);
    await hooks.until(() => hooks.heard().length === 1600);
    expect(hooks.heard()).toEqual(said);
    expect(socket.counters()).toMatchObject({ framesSent: 10, garbage: 0 });
    await socket.close('over');
    await agent.close();
    await agent.close();
    expect(agent.connections()).toBe(0);
  });

  test('its own close is a hang-up', async () => {
    const agent = await startEchoAgent({ port: 0 });
    const { socket } = await connect('raw', agent.urls.raw);
    await agent.close();
    expect(await socket.ended).toMatchObject({ by: 'hangup', closeCode: 1001 });
  });

  test('any other path speaks the default protocol', async () => {
    const agent = await startEchoAgent({ port: 0, protocol: 'raw' });
    const { hooks, socket } = await connect('raw', agent.urls.raw.replace('/raw', '/any?x=1'));
    socket.audio(new Uint8Array(2), 0);
    await hooks.until(() => hooks.audioBytes.length === 1);
    await socket.close('over');
    await agent.close();
  });

  test('survives garbage', async () => {
    const agent = await startEchoAgent({ port: 0 });
    for (const url of Object.values(agent.urls)) {
      const socket = new WebSocket(url);
      await once(socket, 'open');
      for (const text of ['', 'null', '[]', '{', '{"event":"media"}', '{"event":"media","media":null}'])
        socket.send(text);
      socket.send('{"event":"stop"}');
      expect((await once(socket, 'close'))[0]).toBe(1000);
    }
    await agent.close();
  });

  test('a port in use is an error', async () => {
    const agent = await startEchoAgent({ port: 0 });
    await expect(startEchoAgent({ port: agent.port })).rejects.toThrow('EADDRINUSE');
    await agent.close();
  });

  test('runs as a program until it is stopped', async () => {
    const program = fileURLToPath(new URL('../../dist/examples/echo-agent/index.js', import.meta.url));
    const child = spawn(process.execPath, [program, '--port', '0']);
    const [line] = await once(child.stdout, 'data');
    const url = /ws:\S+\/raw/.exec(String(line))?.[0];
    const { hooks, socket } = await connect('raw', String(url));
    socket.audio(new Uint8Array([1, 2]), 0);
    await hooks.until(() => hooks.audioBytes.length === 1);
    child.kill('SIGTERM');
    expect(await socket.ended).toMatchObject({ by: 'hangup' });
    expect((await once(child, 'exit'))[0]).toBe(0);
  });
});

describe('tone agent', () => {
  async function start(options: Partial<ToneAgentOptions>) {
    const events: ToneEvent[] = [];
    const waiting: { type: string; resolve: () => void }[] = [];
    const onEvent = (event: ToneEvent) => {
      events.push(event);
      const at = waiting.findIndex((each) => each.type === event.type);
      if (at !== -1) waiting.splice(at, 1)[0]?.resolve();
    };
    const agent = await startToneAgent({ port: 0, answerDelayMs: 0, onEvent, ...options });
    const next = (type: ToneEvent['type']) => new Promise<void>((resolve) => waiting.push({ type, resolve }));
    return { agent, events, next };
  }

  const WIRES = [
    ['twilio', {}, 8000],
    ['raw', { encoding: 'ulaw' }, 8000],
    ['raw', {}, 8000],
    ['raw', { sample_rate: 16000 }, 16000],
    ['raw', { sample_rate: 24000 }, 24000],
  ] as const;

  test.each(WIRES)('greets, hears and answers in %s %j', async (protocol, config, rateHz) => {
    const { agent, next } = await start({});
    const { hooks, socket } = await connect(protocol, agent.urls[protocol], config);
    const { encoding } = socket.format;
    const decode = (bytes: Buffer) => (encoding === 'ulaw' ? sound.decodeUlaw(bytes) : sound.decodeL16(bytes));
    const encode = encoding === 'ulaw' ? sound.encodeUlaw : sound.encodeL16;
    await hooks.until(() => hooks.marks.length === 1);
    const greeting = decode(hooks.heard());
    expect(greeting.length).toBe(rateHz / 2);
    expect(Math.abs(sound.strongestHz(greeting, rateHz) - 440)).toBeLessThanOrEqual(1);
    socket.markReached('greeting', false);

    const heard = next('utterance');
    const silence = new Int16Array(rateHz / 10);
    for (const samples of [silence, sound.tone(1234, 300, rateHz), ...Array(5).fill(silence)]) {
      const bytes = encode(samples);
      for (let at = 0; at < bytes.length; at += 160) socket.audio(bytes.subarray(at, at + 160), 0);
    }
    await heard;
    const [utterance] = agent.calls[0]!.utterances;
    expect(Math.abs(utterance!.frequencyHz - 1234)).toBeLessThanOrEqual(2);
    expect(utterance).toMatchObject({ startMs: 100, endMs: 400 });

    await hooks.until(() => hooks.marks.length === 2);
    expect(hooks.marks).toEqual(['greeting', 'answer-1']);
    const answer = decode(hooks.heard()).slice(greeting.length);
    expect(Math.abs(sound.strongestHz(answer, rateHz) - 880)).toBeLessThanOrEqual(1);
    expect(agent.calls[0]).toMatchObject({ bargeIns: 0, marks: ['greeting'] });
    await socket.close('over');
    await agent.close();
  });

  test.each(PROTOCOLS)('falls silent when interrupted, and hears keys (%s)', async (protocol) => {
    const { agent, events, next } = await start({ answerDelayMs: 60_000 });
    const { hooks, socket } = await connect(protocol, agent.urls[protocol], { encoding: 'ulaw' });
    hooks.onClear = () => socket.markReached('greeting', true);
    await hooks.until(() => hooks.marks.length === 1);
    const [marked, keyed, answered] = [next('mark'), next('dtmf'), next('utterance')];
    socket.audio(sound.encodeUlaw(sound.tone(600, 100, 8000)), 0);
    await hooks.until(() => hooks.cleared === 1);
    await marked;
    socket.command({ kind: 'dtmf', digits: '5' });
    await keyed;
    socket.audio(sound.encodeUlaw(new Int16Array(8000)), 100);
    await answered;
    expect(agent.calls[0]).toMatchObject({ bargeIns: 1, digits: '5', marks: ['greeting'] });
    expect(events.map((each) => each.type)).toEqual(['started', 'speech', 'bargeIn', 'mark', 'dtmf', 'utterance']);
    await socket.close('over');
    await agent.close(); // The answer that was still to come leaves no timer behind.
  });

  test('hangs up', async () => {
    const { agent, next } = await start({ greetingMs: 0 });
    const started = next('started');
    const { socket } = await connect('twilio', agent.urls.twilio);
    await started;
    expect(agent.calls[0]?.start).toMatchObject({ event: 'start', start: { customParameters: { topic: 'billing' } } });
    agent.calls[0]?.hangUp();
    expect(await socket.ended).toMatchObject({ by: 'hangup', closeCode: 1000 });
    await agent.close();
  });
});
