import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { type RawData, type WebSocket, WebSocketServer } from 'ws';

export interface ScriptedAgent {
  /** Target of an endpoint. */
  url: string;
  /** Upgrade requests seen, also refused ones. */
  attempts: number;
  /** The headers of each. */
  headers: IncomingHttpHeaders[];
  /** Text messages of all connections, parsed. */
  messages: Record<string, unknown>[];
  connections(): number;
  close(): Promise<void>;
}

export interface AgentScript {
  /** `refuse`: 503 at the upgrade, or a status of its own. `stall`: the upgrade is never answered. `reset`: RST. */
  upgrade?: 'accept' | 'refuse' | 'stall' | 'reset' | number;
  /** The upgrade is accepted so much later. */
  lateMs?: number;
  onConnect?(socket: WebSocket): void;
  /** Each text message, parsed. */
  onText?(message: Record<string, unknown>, socket: WebSocket): void;
  onBinary?(bytes: Buffer, socket: WebSocket): void;
}

/** A WebSocket agent that does what a test says. */
export async function startScriptedAgent(script: AgentScript = {}): Promise<ScriptedAgent> {
  const http: Server = createServer();
  const sockets = new WebSocketServer({ noServer: true });
  const raw = new Set<Socket>();
  const agent: ScriptedAgent = {
    url: '',
    attempts: 0,
    headers: [],
    messages: [],
    connections: () => sockets.clients.size,
    close: async () => {
      for (const socket of raw) socket.destroy();
      await new Promise((resolve) => http.close(resolve));
    },
  };
  const greet = (ws: WebSocket) => {
    script.onConnect?.(ws);
    ws.on('error', () => {});
    ws.on('message', (data: RawData, isBinary: boolean) => {
      if (isBinary) return script.onBinary?.(data as Buffer, ws);
      const message = JSON.parse(data.toString()) as Record<string, unknown>;
      agent.messages.push(message);
      script.onText?.(message, ws);
    });
  };
  http.on('upgrade', (request, socket: Socket, head) => {
    agent.attempts += 1;
    agent.headers.push(request.headers);
    raw.add(socket);
    socket.once('close', () => raw.delete(socket));
    socket.on('error', () => {});
    if (script.upgrade === 'stall') return void socket.once('end', () => socket.end()).resume(); // unread, it never ends
    if (script.upgrade === 'reset') return void socket.resetAndDestroy();
    if (script.upgrade === 'refuse' || typeof script.upgrade === 'number') {
      const status = script.upgrade === 'refuse' ? 503 : script.upgrade;
      return void socket.end(`HTTP/1.1 ${status} Refused\r\nContent-Length: 0\r\n\r\n`);
    }
    setTimeout(() => socket.destroyed || sockets.handleUpgrade(request, socket, head, greet), script.lateMs ?? 0);
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  agent.url = `ws://127.0.0.1:${(http.address() as AddressInfo).port}/agent`;
  return agent;
}
