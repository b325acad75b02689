/** A simulated provider on this machine: its REST API, its WebSocket, and a simulated agent. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { WebSocketServer } from 'ws';
import { serveHttp2 } from './byte-streams/serve-http2.js';
import { serveTcp } from './byte-streams/serve-tcp.js';
import { jsonOf, type ProviderProtocol } from './provider-protocol.js';
import { type SimulatedCall, Simulation, type SimulatorOptions } from './simulation.js';

export type { SimulatedCall, SimulatorOptions } from './simulation.js';

export interface ProviderSimulator {
  port: number;
  /** The URL to use as the target of an endpoint. */
  url: string;
  /** All calls so far, oldest first. */
  calls: readonly SimulatedCall[];
  connections(): number;
  /** Forgets all sessions, as a restart would: none can be resumed. */
  forget(): void;
  close(): Promise<void>;
}

const closeLimitMs = 1000;
const mostBodyBytes = 1024 * 1024;

/** Rejects when the port cannot be opened. */
export async function simulateProvider(
  protocol: ProviderProtocol,
  options: SimulatorOptions,
): Promise<ProviderSimulator> {
  const simulation = new Simulation(protocol, options);
  const { byteStream } = protocol;
  if (byteStream !== undefined) {
    const serve = byteStream.over === 'tcp' ? serveTcp : serveHttp2;
    const server = await serve(simulation, byteStream, options);
    return { ...server, calls: simulation.calls, forget: () => simulation.state.clear() };
  }
  const { port, host = '127.0.0.1', tls } = options;
  const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: 16 * 1024 * 1024 });
  let socketBase = '';
  const answer = (request: IncomingMessage, response: ServerResponse) =>
    void answerRest(protocol, request, response, socketBase);
  const http = tls === undefined ? createServer(answer) : createTlsServer(tls, answer);
  http.on('upgrade', (request: IncomingMessage, socket: Socket, head) => {
    socket.on('error', () => socket.destroy());
    const url = new URL(request.url ?? '/', 'ws://simulator');
    const refused = protocol.refuse({ url, headers: request.headers });
    if (refused !== null) {
      socket.end(`HTTP/1.1 ${refused} Refused\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
      return;
    }
    sockets.handleUpgrade(request, socket, head, (ws) => {
      ws.on('error', () => ws.terminate());
      const served = simulation.begin(url, {
        sendText: (text) => ws.send(text),
        sendBinary: (bytes) => ws.send(bytes),
        stopReading: () => ws.pause(),
        close: (code, reason) => ws.close(code, reason),
        die: () => ws.terminate(),
        describe: (message) => (typeof message === 'string' ? jsonOf(message) : objectIn(message)),
      });
      ws.on('message', (data: Buffer, isBinary) => served.message(isBinary ? data : data.toString()));
      ws.on('close', (code) => served.ended(code));
    });
  });
  await new Promise<void>((resolve, reject) => {
    http.once('error', reject);
    http.listen(port, host, resolve);
  });
  const opened = (http.address() as AddressInfo).port;
  socketBase = `${tls === undefined ? 'ws' : 'wss'}://${host.includes(':') ? `[${host}]` : host}:${opened}`;
  return {
    port: opened,
    url: socketBase + protocol.path,
    calls: simulation.calls,
    connections: () => sockets.clients.size,
    forget: () => simulation.state.clear(),
    close: async () => {
      const closed = new Promise<void>((resolve) => http.close(() => resolve()));
      for (const ws of sockets.clients) ws.close(1001);
      const limit = setTimeout(() => {
        for (const ws of sockets.clients) ws.terminate();
        http.closeAllConnections();
      }, closeLimitMs);
      await closed;
      clearTimeout(limit);
    },
  };
}

async function answerRest(
  protocol: ProviderProtocol,
  request: IncomingMessage,
  response: ServerResponse,
  socketBase: string,
) {
  const parts: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const part of request) {
      bytes += (part as Buffer).length;
      if (bytes > mostBodyBytes) return void response.writeHead(413).end();
      parts.push(part as Buffer);
    }
  } catch {
    return; // the client disconnected
  }
  const answer = protocol.rest?.({
    method: request.method ?? 'GET',
    url: new URL(request.url ?? '/', 'http://simulator'),
    headers: request.headers,
    body: jsonOf(Buffer.concat(parts)) ?? {},
    socketBase,
  });
  const { status, body } = answer ?? { status: 404, body: { error: 'not found' } };
  response.writeHead(status, { 'content-type': 'application/json', connection: 'close' });
  response.end(JSON.stringify(body));
}

/** JSON in a binary message; null for audio. */
function objectIn(bytes: Uint8Array): Record<string, unknown> | null {
  return bytes[0] === 0x7b && bytes[1] === 0x22 ? jsonOf(Buffer.from(bytes)) : null;
}
