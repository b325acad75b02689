/**
 * A voice agent that says back what it hears, in both WebSocket protocols: `/raw` (binary audio) and `/twilio` (Twilio Media Streams).
 * As a program: `node dist/examples/echo-agent/index.js --port 8090`. As a library: `startEchoAgent({ port: 0 })`.
 */
import { realpathSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type RawData, type WebSocket, WebSocketServer } from 'ws';

export interface EchoAgentOptions {
  /** 0 takes a free port. */
  port: number;
  /** Default 127.0.0.1. */
  host?: string;
  /** What every path other than `/raw` and `/twilio` speaks. Default `twilio`. */
  protocol?: 'raw' | 'twilio';
}

export interface EchoAgent {
  port: number;
  /** WebSocket URLs to put into an endpoint. */
  urls: { raw: string; twilio: string };
  /** Calls connected at the moment. */
  connections(): number;
  /** Closes all connections (code 1001) and the port. Idempotent. */
  close(): Promise<void>;
}

/** A caller's socket that stopped reading hears nothing until it reads again. */
const MAX_UNSENT_BYTES = 64 * 1024;
const CLOSE_LIMIT_MS = 1000;

/** Rejects when the port cannot be opened. */
export async function startEchoAgent(options: EchoAgentOptions): Promise<EchoAgent> {
  const host = options.host ?? '127.0.0.1';
  const server = new WebSocketServer({ port: options.port, host, maxPayload: 1024 * 1024, perMessageDeflate: false });
  server.on('connection', (socket, request) => {
    const path = new URL(request.url ?? '/', 'ws://agent').pathname;
    const protocol = path === '/raw' ? 'raw' : path === '/twilio' ? 'twilio' : (options.protocol ?? 'twilio');
    socket.on('error', () => socket.terminate());
    socket.on('message', (data, isBinary) => {
      if (protocol === 'raw') echoRaw(socket, data, isBinary);
      else echoTwilio(socket, data, isBinary);
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('listening', resolve);
    server.once('error', reject);
  });
  const { port } = server.address() as AddressInfo;
  const base = `ws://${host.includes(':') ? `[${host}]` : host}:${port}`;
  let closed: Promise<void> | undefined;
  return {
    port,
    urls: { raw: `${base}/raw`, twilio: `${base}/twilio` },
    connections: () => server.clients.size,
    close: () => {
      closed ??= closeServer(server);
      return closed;
    },
  };
}

function echoRaw(socket: WebSocket, data: RawData, isBinary: boolean): void {
  if (!isBinary) {
    if (eventOf(data)?.event === 'stop') socket.close(1000);
  } else if (socket.bufferedAmount < MAX_UNSENT_BYTES) {
    socket.send(data, { binary: true });
  }
}

/** The payload goes back as it came: nothing needs decoding. */
function echoTwilio(socket: WebSocket, data: RawData, isBinary: boolean): void {
  const message = isBinary ? null : eventOf(data);
  if (message?.event === 'stop') {
    socket.close(1000);
  } else if (message?.event === 'media' && socket.bufferedAmount < MAX_UNSENT_BYTES) {
    const { streamSid, media } = message;
    socket.send(JSON.stringify({ event: 'media', streamSid, media: { payload: media?.payload } }));
  }
}

interface Message {
  event?: unknown;
  streamSid?: unknown;
  media?: { payload?: unknown } | null;
}

function eventOf(data: RawData): Message | null {
  try {
    return JSON.parse(data.toString());
  } catch {
    return null;
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

async function runProgram(): Promise<void> {
  const { values } = parseArgs({ options: { port: { type: 'string', default: '8090' }, host: { type: 'string' } } });
  const agent = await startEchoAgent({ port: Number(values.port), host: values.host });
  process.stdout.write(`Echo agent at ${agent.urls.twilio} and ${agent.urls.raw}\n`);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => agent.close());
}

const isProgram = process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url);
if (isProgram) {
  runProgram().catch((error: Error) => {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  });
}
