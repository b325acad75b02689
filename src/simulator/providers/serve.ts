/** A simulated provider on this machine: its REST API, its WebSocket, and a simulated agent. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { WebSocketServer } from 'ws';
import { type AgentBehaviour, behaviour, SimulatedAgent, type SimulatedAgentEvent } from './agent.js';
import { jsonOf, type ProviderProtocol, type ProviderState, type Wire } from './provider-protocol.js';

export interface SimulatorOptions extends Partial<AgentBehaviour> {
  /** 0: any free port. */
  port: number;
  host?: string;
  /** `wss:` instead of `ws:`; both PEM. */
  tls?: { key: string; cert: string };
  onEvent?: (event: SimulatedAgentEvent | { type: 'connected' } | { type: 'closed'; code: number }) => void;
}

/** One connection to the simulated provider. */
export interface SimulatedCall {
  /** Messages of the client, parsed; of a long call only the first ones. */
  received: Record<string, unknown>[];
  /** The messages sent to the client. */
  sent: Record<string, unknown>[];
  events: SimulatedAgentEvent[];
  agent: SimulatedAgent;
  wire: Wire;
  url: URL;
}

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
const mostKept = 10_000;

/** Rejects when the port cannot be opened. */
export async function simulateProvider(
  protocol: ProviderProtocol,
  options: SimulatorOptions,
): Promise<ProviderSimulator> {
  const { port, host = '127.0.0.1', tls, onEvent = () => {}, ...changes } = options;
  const how: AgentBehaviour = { ...behaviour, ...changes };
  const calls: SimulatedCall[] = [];
  const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: 16 * 1024 * 1024 });
  let socketBase = '';
  const state: ProviderState = new Map();
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
      const keep = (list: Record<string, unknown>[], message: Record<string, unknown> | null) => {
        if (message !== null && list.length < mostKept) list.push(message);
      };
      let closing: NodeJS.Timeout | undefined;
      const wire: Wire = {
        send(message) {
          keep(call.sent, message);
          ws.send(JSON.stringify(message));
        },
        sendBinary(bytes) {
          keep(call.sent, objectIn(bytes));
          ws.send(bytes);
        },
        sendText: (text) => ws.send(text),
        stopReading: () => ws.pause(),
        close: (code, reason) => ws.close(code, reason),
        closeAfter(ms, code, reason) {
          closing ??= setTimeout(() => ws.close(code, reason), ms);
        },
        die: () => ws.terminate(),
      };
      const call: SimulatedCall = {
        received: [],
        sent: [],
        events: [],
        wire,
        url,
        agent: new SimulatedAgent(how, protocol.late, (event) => {
          call.events.push(event);
          onEvent(event);
        }),
      };
      calls.push(call);
      onEvent({ type: 'connected' });
      const encoder = protocol.open(wire, call.agent, url, state);
      call.agent.encodeWith(encoder);
      ws.on('message', (data: Buffer, isBinary) => {
        keep(call.received, isBinary ? objectIn(data) : jsonOf(data));
        encoder.message(isBinary ? data : data.toString());
      });
      ws.on('close', (code) => {
        clearTimeout(closing);
        call.agent.end();
        onEvent({ type: 'closed', code });
      });
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
    calls,
    connections: () => sockets.clients.size,
    forget: () => state.clear(),
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
