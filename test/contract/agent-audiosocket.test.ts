/** AudioSocket over real TCP connections: what the server is sent, and servers that misbehave. */
import type { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { AgentFailure, AgentTarget } from '../../media/agents/agent.js';
import type { AgentSocket, AgentSocketLimits } from '../../media/agents/connection/agent-socket.js';
import { openAgentSocket } from '../../media/agents/connection/socket.js';
import { agentTarget, CALL, ProviderState, type TcpServer, tcpServer, watchResources } from '../support/agent-rig.js';

const HANGUP = frame(0x00);
const UUID = frame(0x01, Buffer.from(CALL.callId.replaceAll('-', ''), 'hex'));
const PCM = Buffer.from([1, 2, 3, 4]);

let resources: ReturnType<typeof watchResources>;
let hooks: ProviderState;
let server: TcpServer;
let far: Socket;
let received: Buffer;
let socket: AgentSocket;

function frame(kind: number, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  return Buffer.concat([Buffer.from([kind, payload.length >> 8, payload.length & 0xff]), payload]);
}

beforeEach(async () => {
  resources = watchResources();
  hooks = new ProviderState();
  received = Buffer.alloc(0);
  server = await tcpServer((connection) => {
    far = connection;
    connection.on('data', (bytes: Buffer) => {
      received = Buffer.concat([received, bytes]);
    });
  });
});

afterEach(async () => {
  await socket?.close('test over');
  await server.close();
  await resources.expectNone();
});

function open(change: Partial<AgentTarget> = {}, limits: Partial<AgentSocketLimits> = {}): AgentSocket {
  const target = agentTarget({ protocol: 'audiosocket', url: `tcp://127.0.0.1:${server.port}`, ...change });
  socket = openAgentSocket(target, hooks, new AbortController().signal, { limits: { closeLimitMs: 100, ...limits } });
  return socket;
}

/** Connected, and the server has the UUID. */
async function started(
  change: Partial<AgentTarget> = {},
  limits: Partial<AgentSocketLimits> = {},
): Promise<AgentSocket> {
  open(change, limits);
  await socket.ready;
  socket.start();
  await until(() => received.length >= UUID.length, 'the UUID arrives');
  return socket;
}

async function until(condition: () => boolean, what: string): Promise<void> {
  const limitAt = performance.now() + 5000;
  while (!condition()) {
    if (performance.now() > limitAt) throw new Error(`Waited 5 s until ${what}.`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

async function refusal(change: Partial<AgentTarget> = {}): Promise<AgentFailure> {
  return open(change).ready.then(
    () => expect.fail('it became ready'),
    (error: AgentFailure) => error,
  );
}

const warnings = () => hooks.events.flatMap((event) => (event.type === 'warning' ? [event.code] : []));
const runs = async () => expect(await Promise.race([socket.ended, Promise.resolve('runs')])).toBe('runs');

test('the server gets nothing before the answer; then the id of the call, audio, keys, and a hang-up', async () => {
  open();
  await socket.ready;
  socket.audio(PCM, 0);
  await until(() => server.sockets.size === 1, 'it is connected');
  expect(received).toHaveLength(0);
  socket.start();
  socket.audio(PCM, 0);
  socket.command({ kind: 'dtmf', digits: '5#' });
  socket.command({ kind: 'hold', on: true });
  socket.audio(PCM, 20);
  await socket.close('the caller hung up');
  await server.idle();
  const keys = [frame(0x03, Buffer.from('5')), frame(0x03, Buffer.from('#'))];
  expect(received).toEqual(Buffer.concat([UUID, frame(0x10, PCM), ...keys, frame(0x10, Buffer.alloc(4)), HANGUP]));
  expect(await socket.ended).toMatchObject({ by: 'local', detail: 'the caller hung up' });
});

test.each([
  [8000, 0x10],
  [16000, 0x12],
  [24000, 0x13],
  [48000, 0x16],
])('audio at %i Hz has its kind, and is heard as it is', async (sampleRate, kind) => {
  await started({ config: { sample_rate: sampleRate } });
  expect(socket.format).toEqual({ encoding: 'l16', sampleRateHz: sampleRate });
  socket.audio(PCM, 0);
  await until(() => received.length > UUID.length, 'audio arrives');
  expect(received.subarray(UUID.length)).toEqual(frame(kind, PCM));
  far.write(frame(kind, PCM));
  await hooks.until(() => hooks.audioBytes.length > 0);
  expect(hooks.heard()).toEqual(PCM);
});

describe('the server sends', () => {
  test('bytes one by one: each message is read once it is whole', async () => {
    await started();
    far.setNoDelay(true);
    for (const byte of Buffer.concat([frame(0x10, PCM), frame(0x02), frame(0x10, PCM)])) {
      far.write(Buffer.of(byte));
      await new Promise((resolve) => setImmediate(resolve));
    }
    await hooks.until(() => hooks.heard().length === 8);
    expect(warnings()).toEqual([]);
  });

  test('half a sample: it waits for its other half', async () => {
    await started();
    far.write(Buffer.concat([frame(0x10, PCM.subarray(0, 3)), frame(0x10), frame(0x10, PCM.subarray(3))]));
    await hooks.until(() => hooks.heard().length === 4);
    expect(hooks.heard()).toEqual(PCM);
  });

  test('audio of another rate: it is converted; of one that no phone has: one warning', async () => {
    await started();
    far.write(frame(0x12, Buffer.alloc(640, 1)));
    await hooks.until(() => hooks.heard().length > 0);
    expect(hooks.heard().length).toBeLessThanOrEqual(320);
    far.write(Buffer.concat([frame(0x11, PCM), frame(0x18, PCM)]));
    await hooks.until(() => socket.counters().garbage === 2);
    expect(warnings()).toEqual(['unsupported_rate']);
    await runs();
  });

  test('unknown kinds: one warning, and the call goes on', async () => {
    await started();
    far.write(Buffer.concat([frame(0x42, PCM), frame(0x01, Buffer.alloc(16)), frame(0x10, PCM)]));
    await hooks.until(() => hooks.heard().length === 4);
    expect(warnings()).toEqual(['unknown_kind']);
    await runs();
  });

  test('an endless stream of garbage: it failed', async () => {
    await started();
    far.write(Buffer.concat(Array.from({ length: 200 }, () => frame(0x42))));
    expect(await socket.ended).toMatchObject({ by: 'failed', detail: expect.stringContaining('understood') });
  });

  test('a message beyond the limit: it failed', async () => {
    await started({}, { maxMessageBytes: 1024 });
    far.write(frame(0x10, Buffer.alloc(2000)));
    expect(await socket.ended).toMatchObject({ by: 'failed', detail: 'The agent sent a message that is too long.' });
    expect(socket.counters().bytesReceived).toBe(0);
  });

  test('20,000 tiny messages at once: it is slowed down, and loses nothing', async () => {
    await started({}, { messagesPerWindow: 2500, windowMs: 10 });
    const tiny = frame(0x10, PCM);
    far.write(Buffer.concat(Array.from({ length: 20_000 }, () => tiny)));
    await until(() => hooks.heard().length === 80_000, 'all of it is there');
    await runs();
  });

  test('a hang-up, and leaves the connection open: the call is hung up when everything was heard', async () => {
    await started();
    far.write(Buffer.concat([frame(0x10, PCM), HANGUP]));
    await hooks.until(() => hooks.marks.length > 0);
    expect(hooks.events.map(({ type }) => type)).not.toContain('hangup');
    socket.markReached(hooks.marks[0]!, false);
    expect(hooks.events.map(({ type }) => type)).toContain('hangup');
  });

  test('a hang-up, and closes', async () => {
    await started();
    far.end(Buffer.concat([frame(0x10, PCM), HANGUP]));
    expect(await socket.ended).toMatchObject({ by: 'hangup', closeCode: 1000 });
    expect(hooks.heard()).toEqual(PCM);
  });

  test('an error: it failed', async () => {
    await started();
    far.write(frame(0xff, Buffer.of(4)));
    expect(await socket.ended).toMatchObject({ by: 'failed', detail: 'The agent reported an error with code 4.' });
  });

  test.each([
    ['header', Buffer.from([0x10, 0x01])],
    ['payload', frame(0x10, Buffer.alloc(320)).subarray(0, 100)],
    ['payload of 65535 bytes', Buffer.from([0x10, 0xff, 0xff, 1, 2])],
  ])('a part of a %s, and closes: it failed', async (_what, bytes) => {
    await started();
    far.end(bytes);
    const detail = 'The agent closed the connection in the middle of a message.';
    expect(await socket.ended).toMatchObject({ by: 'failed', detail });
  });
});

describe('the server', () => {
  test('closes without a word: it hung up', async () => {
    await started();
    far.end();
    expect(await socket.ended).toMatchObject({ by: 'hangup', closeCode: 1000 });
  });

  test('resets the connection: it failed', async () => {
    await started();
    far.resetAndDestroy();
    expect(await socket.ended).toMatchObject({ by: 'failed', detail: expect.stringContaining('ECONNRESET') });
  });

  test('is silent: that is no reason to end', async () => {
    await started({ firstAudioTimeoutMs: 0 }, { pingIntervalMs: 5, silenceLimitMs: 20 });
    await new Promise((resolve) => setTimeout(resolve, 100));
    await runs();
  });

  test('reads nothing any more: frames are dropped, and after the limit it is lost', async () => {
    await started({ config: { sample_rate: 48000 } }, { pingIntervalMs: 10, silenceLimitMs: 300 });
    far.pause();
    const loud = new Uint8Array(1920).fill(1);
    for (let at = 0; socket.counters().framesDropped === 0 && at < 100_000; at++) {
      socket.audio(loud, at * 20);
      if (at % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    expect(socket.counters().framesDropped).toBeGreaterThan(0);
    expect(await socket.ended).toMatchObject({ by: 'failed', detail: 'The agent does not answer any more.' });
  });

  test('does not answer our end: it is destroyed after the limit', async () => {
    const deaf = await tcpServer((connection) => {
      connection.allowHalfOpen = true;
    });
    open({ url: `tcp://127.0.0.1:${deaf.port}` });
    await socket.ready;
    await socket.close('the caller hung up');
    expect(await socket.ended).toMatchObject({ by: 'local' });
    await deaf.close();
  });

  test('refuses connections', async () => {
    const { port } = server;
    await server.close();
    expect(await refusal({ url: `tcp://127.0.0.1:${port}` })).toMatchObject({ reason: 'refused', retryable: true });
  });

  test('is inside our network, which is not allowed', () => {
    for (const host of ['127.0.0.1', '2130706433', '[::1]', 'LOCALHOST', '0x7f.1'])
      expect(() => open({ url: `tcp://${host}:${server.port}`, allowPrivateAddress: false })).toThrow('private');
  });

  test.each([
    ['tcp://127.0.0.1', 'port'],
    ['ws://127.0.0.1:9092/', 'tcp:'],
  ])('has the address %s, which cannot be used', (url, word) => {
    expect(() => open({ url })).toThrow(word);
  });
});
