import { createServer, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { type RawData, type WebSocket, WebSocketServer } from 'ws';

export interface ScriptedAgent {
  /** Target of an endpoint. */
  url: string;
  /** Upgrade requests seen, also refused ones. */
  attempts: number;
  /** Text messages of all connections, parsed. */
  messages: Record<string, unknown>[];
  connections(): number;
  close(): Promise<void>;
}

export interface AgentScript {
  /** `refuse`: 503 at the upgrade. `stall`: the upgrade is never answered. */
  upgrade?: 'accept' | 'refuse' | 'stall';
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
    messages: [],
    connections: () => sockets.clients.size,
    close: async () => {
      for (const socket of raw) socket.destroy();
      await new Promise((resolve) => http.close(resolve));
    },
  };
  http.on('upgrade', (request, socket: Socket, head) => {
    agent.attempts += 1;
    raw.add(socket);
    socket.once('close', () => raw.delete(socket));
    socket.on('error', () => {});
    if (script.upgrade === 'stall') return;
    if (script.upgrade === 'refuse')
      return void socket.end('HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n');
    sockets.handleUpgrade(request, socket, head, (ws) => {
      script.onConnect?.(ws);
      ws.on('error', () => {});
      ws.on('message', (data: RawData, isBinary: boolean) => {
        if (isBinary) return script.onBinary?.(data as Buffer, ws);
        const message = JSON.parse(data.toString()) as Record<string, unknown>;
        agent.messages.push(message);
        script.onText?.(message, ws);
      });
    });
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  agent.url = `ws://127.0.0.1:${(http.address() as AddressInfo).port}/agent`;
  return agent;
}
