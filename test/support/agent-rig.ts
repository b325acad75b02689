/** What tests of agents need: a target, hooks that remember what happened, and servers that misbehave on purpose. */
import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { expect } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import type { AgentEvent, AgentTarget } from '../../media/agents/agent.js';
import type { AgentSocketHooks } from '../../media/agents/connection/agent-socket.js';

export const CALL = {
  callId: '0192f000-1111-7000-8000-000000000001',
  organizationId: '0192f000-2222-7000-8000-000000000002',
  from: '+4930123456',
  to: '+15005550006',
  direction: 'inbound' as const,
  custom: { topic: 'billing' },
};

export function agentTarget(change: Partial<AgentTarget> = {}): AgentTarget {
  return {
    protocol: 'raw',
    url: 'ws://127.0.0.1:1/',
    config: {},
    call: CALL,
    connectTimeoutMs: 5000,
    firstAudioTimeoutMs: 0,
    allowPrivateAddress: true,
    ...change,
  };
}

/** Hooks that remember; `until` waits for something remembered. */
export class ProviderState implements AgentSocketHooks {
  readonly audioBytes: Uint8Array[] = [];
  readonly marks: string[] = [];
  readonly events: AgentEvent[] = [];
  readonly faults: unknown[] = [];
  cleared = 0;
  onClear: () => void = () => {};
  #waiting: { condition: () => boolean; resolve: () => void }[] = [];

  audio(bytes: Uint8Array): void {
    this.audioBytes.push(Uint8Array.from(bytes));
  }

  clear() {
    this.cleared += 1;
    this.onClear();
    return { heardMs: 0, droppedMs: 0 };
  }

  silence() {
    return { droppedMs: 0 };
  }

  mark(name: string): void {
    this.marks.push(name);
  }

  event(event: AgentEvent): void {
    this.events.push(event);
  }

  guard(fn: () => void): void {
    try {
      fn();
    } catch (error) {
      this.faults.push(error);
    }
    this.#waiting = this.#waiting.filter(({ condition, resolve }) => {
      if (!condition()) return true;
      resolve();
      return false;
    });
  }

  until(condition: () => boolean): Promise<void> {
    if (condition()) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ condition, resolve }));
  }

  /** All audio so far, in one piece. */
  heard(): Buffer {
    return Buffer.concat(this.audioBytes);
  }
}

export interface TcpServer {
  port: number;
  sockets: Set<Socket>;
  /** Resolves when no connection is open. */
  idle(): Promise<void>;
  close(): Promise<void>;
}

/** A TCP server of which each connection is handed to `onSocket`. */
export async function tcpServer(onSocket: (socket: Socket) => void): Promise<TcpServer> {
  const sockets = new Set<Socket>();
  const idleWaiters: (() => void)[] = [];
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => {
      sockets.delete(socket);
      if (sockets.size === 0) for (const resolve of idleWaiters.splice(0)) resolve();
    });
    onSocket(socket);
    socket.resume(); // Unread, it would never notice the end.
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    sockets,
    idle: () => (sockets.size === 0 ? Promise.resolve() : new Promise((resolve) => idleWaiters.push(resolve))),
    close: () => {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

/**
 * Watches the sockets of this process and the timers that are set from now on. `expectNone` gives the far ends a moment to go away too, but
 * less than any timer under test takes to run out.
 */
export function watchResources(): { timers: ReadonlySet<NodeJS.Timeout>; expectNone(): Promise<void> } {
  const socketsBefore = openSockets();
  const timers = new Set<NodeJS.Timeout>();
  const { setTimeout: set, clearTimeout: clear } = globalThis;
  const watchedSet = <T extends unknown[]>(fn: (...values: T) => void, ms?: number, ...values: T) => {
    const timer = set(() => {
      timers.delete(timer);
      fn(...values);
    }, ms);
    timers.add(timer);
    return timer;
  };
  globalThis.setTimeout = Object.assign(watchedSet, { __promisify__: set.__promisify__ }) as typeof setTimeout;
  globalThis.clearTimeout = (timer) => {
    timers.delete(timer as NodeJS.Timeout);
    clear(timer);
  };
  const expectNone = async () => {
    const limitAt = performance.now() + 1000;
    while ((timers.size > 0 || openSockets() > socketsBefore) && performance.now() < limitAt)
      await new Promise((resolve) => set(resolve, 2));
    globalThis.setTimeout = set;
    globalThis.clearTimeout = clear;
    expect(timers.size, 'timers left').toBe(0);
    expect(openSockets() - socketsBefore, 'sockets left').toBeLessThanOrEqual(0);
  };
  return { timers, expectNone };
}

function openSockets(): number {
  return process.getActiveResourcesInfo().filter((each) => /TCP|TLS/.test(each)).length;
}

/** Answers the upgrade by hand and then does nothing more: the far side is there, and dead. */
export function upgradeByHand(socket: Socket, then: () => void = () => {}): void {
  let request = '';
  const onData = (chunk: Buffer) => {
    request += chunk.toString('latin1');
    const key = /^sec-websocket-key: (.*)\r$/im.exec(request)?.[1];
    if (key === undefined || !request.includes('\r\n\r\n')) return;
    socket.off('data', onData);
    const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    then();
  };
  socket.on('data', onData);
}

export interface Bot {
  url: string;
  /** Of each upgrade request. */
  requests: IncomingMessage[];
  /** Text messages parsed, binary ones as they came. */
  received: unknown[];
  /** Close codes of ended connections. */
  closes: number[];
  sockets: Set<WebSocket>;
  until(condition: () => boolean): Promise<void>;
  close(): Promise<void>;
}

/** A WebSocket server that remembers what it got. */
export async function startBot(onConnection: (socket: WebSocket) => void = () => {}): Promise<Bot> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await new Promise((resolve) => server.once('listening', resolve));
  let waiting: { condition: () => boolean; resolve: () => void }[] = [];
  const changed = () => {
    waiting = waiting.filter(({ condition, resolve }) => {
      if (!condition()) return true;
      resolve();
      return false;
    });
  };
  const bot: Bot = {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}/agent`,
    requests: [],
    received: [],
    closes: [],
    sockets: server.clients,
    until: (condition) =>
      condition() ? Promise.resolve() : new Promise((resolve) => waiting.push({ condition, resolve })),
    close: () => {
      for (const socket of server.clients) socket.terminate();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
  server.on('connection', (socket, request) => {
    bot.requests.push(request);
    socket.on('error', () => {});
    socket.on('message', (data, isBinary) => {
      bot.received.push(isBinary ? data : JSON.parse(data.toString()));
      changed();
    });
    socket.on('close', (code) => {
      bot.closes.push(code);
      changed();
    });
    onConnection(socket);
    changed();
  });
  return bot;
}
