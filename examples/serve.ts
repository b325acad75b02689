/** Shared by the example agents: a WebSocket server for `/raw` and `/twilio`, and a runner for programs. */
import { realpathSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type WebSocket, WebSocketServer } from 'ws';

export type AgentProtocolName = 'raw' | 'twilio';

export interface ServeOptions {
  /** 0 takes a free port. */
  port: number;
  /** Default 127.0.0.1. */
  host?: string;
  /** Protocol of every path other than `/raw` and `/twilio`. Default `twilio`. */
  protocol?: AgentProtocolName;
}

export interface AgentServer {
  port: number;
  /** WebSocket URLs for an endpoint's `target`. */
  urls: Record<AgentProtocolName, string>;
  /** Calls connected at the moment. */
  connections(): number;
  /** Closes all connections (code 1001) and the port. Idempotent. */
  close(): Promise<void>;
}

const CLOSE_LIMIT_MS = 1000;

/** Rejects when the port cannot be opened. */
export async function serveAgent(
  { port, host = '127.0.0.1', protocol = 'twilio' }: ServeOptions,
  onCall: (socket: WebSocket, protocol: AgentProtocolName) => void,
): Promise<AgentServer> {
  const server = new WebSocketServer({ port, host, maxPayload: 1024 * 1024, perMessageDeflate: false });
  server.on('connection', (socket, request) => {
    socket.on('error', () => socket.terminate());
    const path = (request.url ?? '').replace(/\?.*/, '');
    onCall(socket, path === '/raw' ? 'raw' : path === '/twilio' ? 'twilio' : protocol);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('listening', resolve);
    server.once('error', reject);
  });
  const opened = (server.address() as AddressInfo).port;
  const base = `ws://${host.includes(':') ? `[${host}]` : host}:${opened}`;
  let closed: Promise<void> | undefined;
  return {
    port: opened,
    urls: { raw: `${base}/raw`, twilio: `${base}/twilio` },
    connections: () => server.clients.size,
    close: () => {
      closed ??= closeServer(server);
      return closed;
    },
  };
}

/** The object in a text message, or an empty one. */
export function parseMessage(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}

/** Runs `start` with `--port` and `--host` when `importMetaUrl` is the program that node was started with. */
export async function runAsProgram(
  importMetaUrl: string,
  defaultPort: number,
  start: (options: ServeOptions) => Promise<AgentServer>,
): Promise<void> {
  if (!isProgram(importMetaUrl)) return;
  try {
    const { values } = parseArgs({ options: { port: { type: 'string' }, host: { type: 'string' } } });
    const agent = await start({ port: Number(values.port ?? defaultPort), host: values.host });
    process.stdout.write(`Listening on ${agent.urls.twilio} and ${agent.urls.raw}\n`);
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => agent.close());
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
    process.exitCode = 1;
  }
}

function isProgram(importMetaUrl: string): boolean {
  try {
    return realpathSync(process.argv[1] ?? '') === fileURLToPath(importMetaUrl);
  } catch {
    return false; // node was started without a file, as with `--eval`
  }
}

async function closeServer(server: WebSocketServer): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  for (const socket of server.clients) socket.close(1001);
  const limit = setTimeout(() => {
    for (const socket of server.clients) socket.terminate();
  }, CLOSE_LIMIT_MS);
  await closed;
  clearTimeout(limit);
}
