import type { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { WebSocket } from 'ws';
import type { AgentTarget } from '../../media/agents/agent.js';
import type { AgentSocket, AgentSocketLimits } from '../../media/agents/connection/agent-socket.js';
import { openAgentSocket } from '../../media/agents/connection/socket.js';
import {
  agentTarget,
  type Bot,
  ProviderState,
  startBot,
  tcpServer,
  upgradeByHand,
  watchResources,
} from '../support/agent-rig.js';

const FRAME = new Uint8Array(320).fill(1);
let resources: ReturnType<typeof watchResources>;
let hooks: ProviderState;

beforeEach(() => {
  resources = watchResources();
  hooks = new ProviderState();
});

afterEach(() => resources.expectNone());

interface Call {
  bot: Bot;
  socket: AgentSocket;
  /** The bot's end of the connection. */
  far: WebSocket;
  done(): Promise<void>;
}

/** A started call with a bot. */
async function call(change: Partial<AgentTarget> = {}, limits: Partial<AgentSocketLimits> = {}): Promise<Call> {
  const bot = await startBot();
  const socket = connect({ url: bot.url, ...change }, limits);
  await socket.ready;
  socket.start();
  await bot.until(() => bot.received.length > 0);
  const [far] = bot.sockets;
  const done = async () => {
    await socket.close('test over');
    await bot.close();
  };
  return { bot, socket, far: far!, done };
}

function connect(change: Partial<AgentTarget>, limits: Partial<AgentSocketLimits> = {}): AgentSocket {
  return openAgentSocket(agentTarget(change), hooks, new AbortController().signal, { limits });
}

describe('a call', () => {
  test('the upgrade request names us, offers no compression and carries the headers of the endpoint', async () => {
    const { bot, done } = await call({ config: { headers: { Authorization: 'Bearer x' } } });
    expect(bot.requests[0]?.headers).toMatchObject({ 'user-agent': 'Trunkline', authorization: 'Bearer x' });
    expect(bot.requests[0]?.headers['sec-websocket-extensions']).toBeUndefined();
    expect(bot.requests[0]?.url).toBe('/agent');
    await done();
  });

  test('the agent hears nothing before start, and gets start once', async () => {
    const bot = await startBot();
    const socket = connect({ url: bot.url });
    socket.start();
    await socket.ready;
    socket.audio(FRAME, 0);
    socket.command({ kind: 'dtmf', digits: '1' });
    socket.start();
    socket.start();
    socket.audio(FRAME, 20);
    await bot.until(() => bot.received.length === 2);
    expect(bot.received).toEqual([expect.objectContaining({ event: 'start' }), Buffer.from(FRAME)]);
    await socket.close('caller hung up');
    await bot.until(() => bot.closes.length === 1);
    expect(bot.received[2]).toEqual({ event: 'stop', reason: 'caller hung up' });
    expect(bot.received).toHaveLength(3);
    expect(bot.closes).toEqual([1000]);
    expect(await socket.ended).toEqual({ by: 'local', detail: 'caller hung up', closeCode: 1000 });
    expect(socket.counters()).toEqual({ framesSent: 1, framesDropped: 0, bytesReceived: 0, garbage: 0 });
    await bot.close();
  });

  test('the frame may be reused after the call', async () => {
    const { bot, socket, done } = await call();
    const reused = new Uint8Array([1, 2, 3, 4]);
    socket.audio(reused, 0);
    reused.fill(9);
    await bot.until(() => bot.received.length === 2);
    expect(bot.received[1]).toEqual(Buffer.from([1, 2, 3, 4]));
    await done();
  });

  test('audio of any length arrives whole, with half samples joined', async () => {
    const { socket, far, done } = await call();
    const sent = Buffer.from(Array.from({ length: 1001 }, (_, i) => i & 0xff));
    const cuts = [0, 1, 2, 5, 5, 700, 1001];
    for (const [i, from] of cuts.entries()) far.send(sent.subarray(from, cuts[i + 1] ?? 1001));
    await hooks.until(() => hooks.heard().length === 1000);
    expect(hooks.heard()).toEqual(sent.subarray(0, 1000));
    expect(hooks.audioBytes.every((each) => each.length % 2 === 0)).toBe(true);
    expect(socket.counters().bytesReceived).toBe(1001);
    expect(hooks.events).toEqual([{ type: 'audioStarted' }]);
    await done();
  });

  test('a clear drops the half sample with the queue', async () => {
    const { far, done } = await call();
    far.send(Buffer.from([1, 2, 3]));
    far.send('{"event":"clear"}');
    far.send(Buffer.from([4, 5]));
    await hooks.until(() => hooks.heard().length === 4);
    expect([...hooks.heard()]).toEqual([1, 2, 4, 5]);
    expect(hooks.cleared).toBe(1);
    await done();
  });

  test('marks come back when the playout says so', async () => {
    const { bot, socket, far, done } = await call();
    hooks.onClear = () => socket.markReached('b', true);
    far.send('{"event":"mark","name":"a"}');
    far.send('{"event":"mark","name":"b"}');
    await hooks.until(() => hooks.marks.length === 2);
    socket.markReached('a', false);
    far.send('{"event":"clear"}');
    await bot.until(() => bot.received.length === 3);
    expect(bot.received.slice(1)).toEqual([
      { event: 'mark', name: 'a' },
      { event: 'mark', name: 'b', cleared: true },
    ]);
    await done();
  });

  test('digits go out one by one', async () => {
    const { bot, socket, done } = await call();
    socket.command({ kind: 'dtmf', digits: '1#' });
    await bot.until(() => bot.received.length === 3);
    expect(bot.received.slice(1)).toEqual([
      { event: 'dtmf', digits: '1' },
      { event: 'dtmf', digits: '#' },
    ]);
    await done();
  });

  test.each([
    ['l16', 0],
    ['ulaw', 0xff],
  ])('on hold the agent hears %s silence', async (encoding, silence) => {
    const { bot, socket, done } = await call({ config: { encoding } });
    socket.command({ kind: 'hold', on: true });
    socket.audio(FRAME, 0);
    socket.command({ kind: 'hold', on: false });
    socket.audio(FRAME, 20);
    await bot.until(() => bot.received.length === 3);
    expect(bot.received.slice(1)).toEqual([Buffer.alloc(320, silence), Buffer.from(FRAME)]);
    await done();
  });
});

describe('how a call ends', () => {
  test.each<[string, (far: WebSocket) => void, object]>([
    [
      'close 1000',
      (far) => far.close(1000, 'bye'),
      { by: 'hangup', closeCode: 1000, detail: expect.stringContaining('1000: bye') },
    ],
    ['close without a code', (far) => far.close(), { by: 'hangup', closeCode: 1005 }],
    [
      'close 1011',
      (far) => far.close(1011, 'oops\u0007'),
      { by: 'failed', closeCode: 1011, detail: expect.stringMatching(/1011: oops\.$/) },
    ],
    [
      'a broken connection',
      (far) => far.terminate(),
      { by: 'failed', detail: expect.stringContaining('without a close frame') },
    ],
  ])('%s', async (_what, behave, expected) => {
    const { bot, socket, far } = await call();
    behave(far);
    expect(await socket.ended).toMatchObject(expected);
    await socket.close('too late');
    expect(await socket.ended).toMatchObject(expected);
    socket.audio(FRAME, 0);
    socket.markReached('x', false);
    expect(socket.counters().framesSent).toBe(0);
    await bot.close();
  });

  test('RST', async () => {
    const server = await tcpServer((s) => upgradeByHand(s, () => setImmediate(() => s.resetAndDestroy())));
    const socket = connect({ url: `ws://127.0.0.1:${server.port}/` });
    const end = await socket.ended;
    expect(end).toMatchObject({ by: 'failed' });
    expect(end.closeCode).toBeUndefined();
    await server.close();
  });

  test('the agent that closed first hung up, even when we close meanwhile', async () => {
    const audioThenClose = Buffer.from([0x82, 2, 7, 7, 0x88, 2, 0x03, 0xe8]);
    const server = await tcpServer((s) => upgradeByHand(s, () => s.write(audioThenClose)));
    const socket = connect({ url: `ws://127.0.0.1:${server.port}/` }, { closeLimitMs: 30 });
    await hooks.until(() => hooks.audioBytes.length === 1); // The close frame came in the same packet.
    await socket.close('also');
    expect(await socket.ended).toMatchObject({ by: 'hangup', closeCode: 1000 });
    await server.close();
  });

  test('an agent that ignores our close is dropped at the limit', async () => {
    const server = await tcpServer((s) => upgradeByHand(s));
    const socket = connect({ url: `ws://127.0.0.1:${server.port}/` }, { closeLimitMs: 30 });
    await socket.ready;
    await Promise.all([socket.close('one'), socket.close('two')]);
    expect(await socket.ended).toEqual({ by: 'local', detail: 'one' });
    await server.idle();
    await server.close();
  });

  test('a half-open connection is found', async () => {
    const server = await tcpServer((s) => upgradeByHand(s));
    const socket = connect({ url: `ws://127.0.0.1:${server.port}/` }, { pingIntervalMs: 10, silenceLimitMs: 30 });
    await socket.ready;
    expect(await socket.ended).toEqual({ by: 'failed', detail: 'The agent does not answer any more.' });
    await server.idle();
    await server.close();
  });

  test('an agent that answers pings may be silent as long as it likes', async () => {
    const { far, socket, done } = await call({}, { pingIntervalMs: 10, silenceLimitMs: 200 });
    let pings = 0;
    await new Promise<void>((resolve) =>
      far.on('ping', () => {
        pings += 1;
        if (pings === 30) resolve();
      }),
    );
    await socket.close('done');
    expect(await socket.ended).toMatchObject({ by: 'local' });
    await done();
  });

  test('an agent that must speak and does not', async () => {
    const { bot, socket } = await call({ firstAudioTimeoutMs: 30 });
    expect(await socket.ended).toMatchObject({ by: 'failed', detail: expect.stringContaining('said nothing') });
    await bot.close();
  });

  test('an agent that reacted in time', async () => {
    const { far, socket, done } = await call({ firstAudioTimeoutMs: 10_000 });
    const waiting = resources.timers.size;
    far.send('{"event":"transcript","speaker":"agent","text":"hi"}');
    await hooks.until(() => hooks.events.length === 1);
    expect(resources.timers.size).toBe(waiting - 1);
    await socket.close('done');
    await done();
  });
});

describe('agents that misbehave', () => {
  test('a message over the limit', async () => {
    const { bot, socket, far } = await call({}, { maxMessageBytes: 1000 });
    far.send(Buffer.alloc(1001));
    expect(await socket.ended).toMatchObject({ by: 'failed', detail: 'The agent sent a message that is too long.' });
    await bot.until(() => bot.closes.length === 1);
    expect(bot.closes).toEqual([1009]);
    expect(hooks.audioBytes).toEqual([]);
    await bot.close();
  });

  test('frames that are not WebSocket', async () => {
    const server = await tcpServer((s) => upgradeByHand(s, () => s.write(Buffer.from([0xff, 0xff, 0xff]))));
    const socket = connect({ url: `ws://127.0.0.1:${server.port}/` }, { closeLimitMs: 30 });
    expect(await socket.ended).toMatchObject({ by: 'failed', detail: expect.stringContaining('WS_ERR_') });
    await server.close();
  });

  test('some garbage is counted, told of once per kind, and forgiven', async () => {
    const { socket, far, done } = await call();
    for (const text of ['x', '{', '{"event":"dance"}', '{"event":"mark"}', Buffer.from([0xff, 0xfe])]) {
      far.send(text, { binary: false });
    }
    far.send(Buffer.from([1, 2]));
    await hooks.until(() => hooks.audioBytes.length === 1);
    expect(socket.counters().garbage).toBe(5);
    const codes = hooks.events.map((each) => (each.type === 'warning' ? each.code : each.type));
    expect(codes).toEqual(['bad_json', 'unknown_event', 'bad_field', 'audioStarted']);
    await done();
  });

  test('a flood of garbage ends it', async () => {
    const { bot, socket, far } = await call({}, { garbagePerSec: 20 });
    for (let i = 0; i < 1000; i++) far.send('garbage');
    expect(await socket.ended).toMatchObject({ by: 'failed', closeCode: 1008 });
    expect(socket.counters().garbage).toBe(21);
    expect(hooks.events).toHaveLength(1);
    await bot.close();
  });

  test('a flood of audio is slowed down and loses nothing', async () => {
    const { far, done } = await call({}, { windowMs: 5, messagesPerWindow: 100 });
    for (let i = 0; i < 5000; i++) far.send(Buffer.from([i & 0xff, i >> 8]));
    await hooks.until(() => hooks.audioBytes.length === 5000);
    expect(hooks.audioBytes.every((each, i) => each[0] === (i & 0xff) && each[1] === i >> 8)).toBe(true);
    await done();
  });

  test('tiny frames that come in one read are taken in parts, so that other calls have their turns', async () => {
    const { far, done } = await call({ config: { encoding: 'ulaw' } }, { messagesPerWindow: 1e6 });
    let inThisTurn = 0;
    let mostInATurn = 0;
    let turns: NodeJS.Immediate;
    const turn = () => {
      mostInATurn = Math.max(mostInATurn, inThisTurn);
      inThisTurn = 0;
      turns = setImmediate(turn);
    };
    turn();
    const take = hooks.audio.bind(hooks);
    hooks.audio = (bytes) => {
      inThisTurn += 1;
      take(bytes);
    };
    const crumbs = Buffer.alloc(4 * 50_000);
    for (let n = 0; n < 50_000; n++) crumbs.set([0x82, 2, n & 0xff, n >> 8], 4 * n);
    // Past its WebSocket: whole frames in as few packets as the network makes of them.
    (far as unknown as { _socket: Socket })._socket.write(crumbs);
    await hooks.until(() => hooks.audioBytes.length === 50_000);
    clearImmediate(turns!);
    expect(hooks.heard().equals(Buffer.from(crumbs.filter((_, i) => i % 4 >= 2)))).toBe(true);
    expect(mostInATurn).toBeGreaterThan(1);
    expect(mostInATurn).toBeLessThanOrEqual(6200);
    await done();
  });

  test('hanging up in the middle of a flood', async () => {
    const { bot, far, socket } = await call({}, { windowMs: 60_000, messagesPerWindow: 1 });
    for (let i = 0; i < 3; i++) far.send(Buffer.from([1, 2]));
    await hooks.until(() => hooks.audioBytes.length > 1); // From here on the socket is paused.
    await socket.close('caller hung up');
    expect(await socket.ended).toEqual({ by: 'local', detail: 'caller hung up', closeCode: 1000 });
    await bot.close();
  });

  test('marks without end', async () => {
    const { socket, far, done } = await call({}, { pendingMarks: 3 });
    for (let i = 0; i < 5; i++) far.send(`{"event":"mark","name":"${i}"}`);
    far.send(Buffer.from([1, 2]));
    await hooks.until(() => hooks.audioBytes.length === 1);
    expect(hooks.marks).toEqual(['0', '1', '2']);
    expect(socket.counters().garbage).toBe(2);
    socket.markReached('0', false);
    far.send('{"event":"mark","name":"5"}');
    await hooks.until(() => hooks.marks.length === 4);
    await done();
  });

  test('an agent that stops reading loses frames, and nothing piles up here', async () => {
    const { bot, far, socket } = await call();
    far.pause();
    const second = new Uint8Array(16_000); // One second: twice what may wait.
    let sent = 0;
    while (socket.counters().framesDropped < 5 && sent < 5000) {
      socket.audio(second, sent * 1000);
      sent += 1;
      if (sent % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    expect(socket.counters().framesDropped).toBe(5);
    far.resume();
    await bot.until(() => bot.received.length === 1 + sent - 5);
    socket.audio(second, 0);
    await bot.until(() => bot.received.length === 2 + sent - 5);
    await socket.close('done');
    await bot.close();
  });

  test('audio does not pile up in the network either, before an agent that talks and does not read', async () => {
    const { far, socket, done } = await call({}, { pingIntervalMs: 10, unreadLimitMs: 30 });
    const sendUntil = async (condition: () => boolean) => {
      for (let i = 0; i < 2000 && !condition(); i++) {
        socket.audio(FRAME, i * 20);
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    };
    await new Promise((resolve) => far.once('ping', resolve));
    far.pause();
    far.send(Buffer.from([1, 2]));
    await sendUntil(() => socket.counters().framesDropped > 0);
    const { framesSent, framesDropped } = socket.counters();
    expect(framesDropped).toBe(1);
    far.resume();
    await sendUntil(() => socket.counters().framesSent > framesSent);
    expect(socket.counters().framesSent).toBe(framesSent + 1);
    await done();
  });

  test('an agent that asks and never reads the answers is dropped', async () => {
    const { bot, far, socket } = await call({}, { sendQueueBytes: 10_000 });
    far.pause();
    const long = 'x'.repeat(1000);
    let ended = false;
    socket.ended.then(() => {
      ended = true;
    });
    for (let i = 0; i < 50_000 && !ended; i++) {
      socket.markReached(long, false);
      if (i % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await socket.ended).toMatchObject({ by: 'failed', detail: expect.stringContaining('does not read') });
    await bot.close();
  });

  test('hanging up on an agent that does not read is still our hang-up', async () => {
    const { bot, far, socket } = await call({}, { sendQueueBytes: 10_000, closeLimitMs: 50 });
    far.pause();
    const second = new Uint8Array(16_000);
    for (let i = 0; socket.counters().framesDropped === 0 && i < 5000; i++) socket.audio(second, i * 1000);
    expect(socket.counters().framesDropped).toBe(1);
    await socket.close('caller hung up');
    expect(await socket.ended).toEqual({ by: 'local', detail: 'caller hung up' });
    await bot.close();
  });

  test('an exception in the playout stays within the call', async () => {
    const { far, socket, done } = await call();
    hooks.mark = () => {
      throw new Error('playout');
    };
    far.send('{"event":"mark","name":"x"}');
    await hooks.until(() => hooks.faults.length === 1);
    far.send(Buffer.from([1, 2]));
    await hooks.until(() => hooks.audioBytes.length === 1);
    expect(socket.counters().bytesReceived).toBe(2);
    await done();
  });
});
