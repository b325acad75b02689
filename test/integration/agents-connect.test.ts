import { getEventListeners } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { AgentFailure, type AgentProtocol, type Conversation } from '../../media/agents/agent.js';
import type { AgentSocket } from '../../media/agents/connection/agent-socket.js';
import { connectFailure } from '../../media/agents/connection/connect-failure.js';
import { openAgentSocket } from '../../media/agents/connection/socket.js';
import { raw } from '../../media/agents/providers/streams/raw.js';
import {
  agentTarget,
  ProviderState,
  startBot,
  tcpServer,
  upgradeByHand,
  watchResources,
} from '../support/agent-rig.js';

const never = new AbortController().signal;
let resources: ReturnType<typeof watchResources>;

beforeEach(() => {
  resources = watchResources();
});

afterEach(() => resources.expectNone());

async function failureOf(socket: AgentSocket): Promise<AgentFailure> {
  const failure = await socket.ready.then(
    () => expect.fail('it became ready'),
    (error: unknown) => error,
  );
  expect(failure).toBeInstanceOf(AgentFailure);
  expect(await socket.ended).toMatchObject({ by: 'failed', detail: (failure as AgentFailure).message });
  return failure as AgentFailure;
}

function open(change: Parameters<typeof agentTarget>[0], signal = never, hooks = new ProviderState()) {
  return openAgentSocket(agentTarget(change), hooks, signal);
}

describe('servers that refuse', () => {
  test.each([
    [401, 'unauthorized', false],
    [403, 'unauthorized', false],
    [404, 'refused', true],
    [429, 'refused', true],
    [503, 'refused', true],
    [200, 'refused', true],
    [302, 'refused', true],
  ])('status %i', async (status, reason, retryable) => {
    const paths: (string | undefined)[] = [];
    const answer = (url: string | undefined, response: ServerResponse) => {
      paths.push(url);
      response.writeHead(status, { Location: '/elsewhere' }).end('no');
    };
    const server = createServer((request, response) => answer(request.url, response));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const socket = open({ url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}/agent` });
    expect(await failureOf(socket)).toMatchObject({ reason, retryable });
    await new Promise((resolve) => server.close(resolve));
    expect(paths).toEqual(['/agent']);
  });

  test('nobody listens', async () => {
    const server = await tcpServer(() => {});
    await server.close();
    const { signal } = new AbortController();
    const socket = open({ url: `ws://127.0.0.1:${server.port}/` }, signal);
    expect(await failureOf(socket)).toMatchObject({ reason: 'refused', retryable: true });
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  test.each<[string, Parameters<typeof tcpServer>[0], string]>([
    ['resets at once', (s) => s.resetAndDestroy(), 'refused'],
    ['resets after the request', (s) => s.once('data', () => s.resetAndDestroy()), 'refused'],
    ['closes after the request', (s) => s.once('data', () => s.end()), 'refused'],
    ['speaks something else', (s) => s.end('220 mail ESMTP\r\n'), 'protocol'],
    [
      'accepts with a wrong key',
      (s) =>
        s.once('data', () =>
          s.write('HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: AAAA\r\n\r\n'),
        ),
      'protocol',
    ],
  ])('%s', async (_what, behave, reason) => {
    const server = await tcpServer(behave);
    const failure = await failureOf(open({ url: `ws://127.0.0.1:${server.port}/` }));
    expect(failure).toMatchObject({ reason, retryable: true });
    await server.idle();
    await server.close();
  });

  test('TLS with a server that has none', async () => {
    const server = await tcpServer((s) => s.once('data', () => s.end('HTTP/1.1 400 Bad Request\r\n\r\n')));
    const failure = await failureOf(open({ url: `wss://127.0.0.1:${server.port}/` }));
    expect(failure).toMatchObject({ reason: 'refused', message: expect.stringContaining('TLS') });
    await server.close();
  });

  test('a name that does not exist', async () => {
    const failure = await failureOf(open({ url: 'ws://agent.invalid/' }));
    expect(failure).toMatchObject({ reason: 'refused', message: expect.stringContaining('resolved') });
  });
});

describe('servers that are slow', () => {
  test.each<[string, Parameters<typeof tcpServer>[0]]>([
    ['never upgrades', () => {}],
    ['never finishes its answer', (s) => s.once('data', () => s.write('HTTP/1.1 101 Switching'))],
    ['never says a word of TLS', () => {}],
  ])('%s', async (what, behave) => {
    const server = await tcpServer(behave);
    const scheme = what.includes('TLS') ? 'wss' : 'ws';
    const socket = open({ url: `${scheme}://127.0.0.1:${server.port}/`, connectTimeoutMs: 50 });
    expect(await failureOf(socket)).toMatchObject({ reason: 'timeout', retryable: true });
    await server.idle();
    await server.close();
  });

  test('an upgrade after the limit finds nobody', async () => {
    let answer = () => {};
    const server = await tcpServer((s) => {
      s.once('data', (chunk) => {
        answer = () => {
          upgradeByHand(s);
          s.emit('data', chunk);
        };
      });
    });
    const socket = open({ url: `ws://127.0.0.1:${server.port}/`, connectTimeoutMs: 50 });
    expect(await failureOf(socket)).toMatchObject({ reason: 'timeout' });
    answer();
    await server.idle();
    await server.close();
  });
});

describe('giving up', () => {
  test('before: nothing is opened', () => {
    const open1 = () => open({}, AbortSignal.abort());
    expect(open1).toThrow(expect.objectContaining({ reason: 'aborted', retryable: false }));
  });

  test.each([
    ['at once', 'now'],
    ['when the server has the request', 'requested'],
  ])('%s', async (_what, when) => {
    const controller = new AbortController();
    const server = await tcpServer((s) => s.once('data', () => controller.abort()));
    const socket = open({ url: `ws://127.0.0.1:${server.port}/` }, controller.signal);
    if (when === 'now') controller.abort();
    await expect(socket.ready).rejects.toMatchObject({ reason: 'aborted' });
    expect(await socket.ended).toMatchObject({ by: 'local' });
    await server.idle();
    await server.close();
  });

  test('by close()', async () => {
    const server = await tcpServer(() => {});
    const socket = open({ url: `ws://127.0.0.1:${server.port}/` });
    await socket.close('caller hung up');
    await expect(socket.ready).rejects.toMatchObject({ reason: 'aborted' });
    expect(await socket.ended).toEqual({ by: 'local', detail: 'caller hung up' });
    await server.idle();
    await server.close();
  });

  test('while the name is being resolved', async () => {
    const controller = new AbortController();
    const socket = open({ url: 'ws://agent.invalid/' }, controller.signal);
    controller.abort();
    await expect(socket.ready).rejects.toMatchObject({ reason: 'aborted' });
    expect(await socket.ended).toMatchObject({ by: 'local' });
  });

  test('after ready the signal means nothing', async () => {
    const controller = new AbortController();
    const bot = await startBot();
    const socket = open({ url: bot.url }, controller.signal);
    await socket.ready;
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
    controller.abort();
    socket.start();
    await bot.until(() => bot.received.length === 1);
    await socket.close('done');
    expect(await socket.ended).toMatchObject({ detail: 'done' });
    await bot.close();
  });
});

describe('targets that are not dialled', () => {
  test.each([
    ['http://127.0.0.1/', 'protocol'],
    ['not a url', 'protocol'],
    ['ws://127.0.0.1/#part', 'protocol'],
  ])('%s', (url, reason) => {
    expect(() => open({ url })).toThrow(expect.objectContaining({ name: 'AgentFailure', reason, retryable: false }));
  });

  test.each(['ws://127.0.0.1:9/', 'ws://[::1]/', 'ws://0x7f.1/', 'wss://localhost./', 'ws://169.254.169.254/'])(
    '%s, when private addresses are not allowed',
    (url) => {
      const refused = () => open({ url, allowPrivateAddress: false });
      expect(refused).toThrow(expect.objectContaining({ reason: 'blocked_address', retryable: false }));
    },
  );

  test('an unknown protocol, and a config the protocol refuses', () => {
    expect(() => open({ protocol: 'morse' })).toThrow(expect.objectContaining({ reason: 'protocol' }));
    expect(() => open({ config: { sample_rate: 1 } })).toThrow(/sample_rate must be one of/);
  });
});

describe('an agent that is ready by a message', () => {
  const patient: AgentProtocol = {
    ...raw,
    provider: 'patient',
    readyOn: 'message',
    parseConfig: () => ({}),
    converse: (_config, target) =>
      changed(raw.converse(raw.parseConfig({}), target), {
        opening: () => ['{"event":"hello"}'],
        receive: (message, sink) => (message === '{"event":"welcome"}' ? sink.ready() : sink.garbage('odd', 'Odd.')),
      }),
  };
  const protocols = new Map([['patient', patient]]);
  const openPatient = (url: string, change = {}, signal = never) =>
    openAgentSocket(agentTarget({ protocol: 'patient', url, ...change }), new ProviderState(), signal, { protocols });

  test('is ready when it says so, and hears its opening first', async () => {
    const bot = await startBot((socket) => socket.once('message', () => socket.send('{"event":"welcome"}')));
    const socket = openPatient(bot.url);
    socket.start(); // Too early: means nothing.
    await socket.ready;
    expect(bot.received).toEqual([{ event: 'hello' }]);
    await socket.close('done');
    await bot.close();
  });

  test('fails when it never says so', async () => {
    const bot = await startBot((socket) => socket.send('hm'));
    const failure = await failureOf(openPatient(bot.url, { connectTimeoutMs: 50 }));
    expect(failure).toMatchObject({ reason: 'timeout' });
    await bot.until(() => bot.closes.length === 1);
    await bot.close();
  });

  test('fails when it closes instead', async () => {
    const bot = await startBot((socket) => socket.close(1008, 'bad key'));
    const failure = await failureOf(openPatient(bot.url));
    expect(failure).toMatchObject({ reason: 'refused', message: expect.stringContaining('1008: bad key') });
    await bot.close();
  });

  test('can be given up meanwhile', async () => {
    const controller = new AbortController();
    const bot = await startBot((socket) => socket.on('message', () => controller.abort()));
    const socket = openPatient(bot.url, {}, controller.signal);
    await expect(socket.ready).rejects.toMatchObject({ reason: 'aborted' });
    expect(await socket.ended).toMatchObject({ by: 'local', closeCode: 1000 });
    await bot.close();
  });
});

test.each([
  ['EBLOCKEDADDRESS', 'blocked_address', false],
  ['EAI_AGAIN', 'refused', true],
  ['EHOSTUNREACH', 'refused', true],
  ['ETIMEDOUT', 'timeout', true],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'refused', true],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'refused', true],
  ['CERT_HAS_EXPIRED', 'refused', true],
  ['', 'protocol', true],
])('connect error %s is %s', (code, reason, retryable) => {
  expect(connectFailure(Object.assign(new Error('x'), { code }))).toMatchObject({ reason, retryable });
});

/** `conversation` with some methods replaced. */
function changed(conversation: Conversation, change: Partial<Conversation>): Conversation {
  return new Proxy(conversation, {
    get(target, name) {
      const value: unknown = Reflect.get(change, name) ?? Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
