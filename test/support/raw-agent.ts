/** A voice agent of the raw protocol that does what a test says, and remembers what it heard. */
import type { AddressInfo } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';

export class RawAgent {
  readonly heard: Uint8Array[] = [];
  readonly texts: Record<string, unknown>[] = [];
  socket: WebSocket | null = null;
  onAudio: (bytes: Uint8Array) => void = () => {};

  private constructor(private readonly server: WebSocketServer) {
    server.on('connection', (socket) => {
      this.socket = socket;
      socket.on('message', (data: Buffer, isBinary) => {
        if (isBinary) {
          const bytes = Uint8Array.from(data);
          this.heard.push(bytes);
          this.onAudio(bytes);
        } else this.texts.push(JSON.parse(data.toString()));
      });
    });
  }

  static open(): Promise<RawAgent> {
    return new Promise((resolve, reject) => {
      const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false });
      server.once('error', reject);
      server.once('listening', () => resolve(new RawAgent(server)));
    });
  }

  get url(): string {
    return `ws://127.0.0.1:${(this.server.address() as AddressInfo).port}/`;
  }

  get connections(): number {
    return this.server.clients.size;
  }

  say(audio: Uint8Array): void {
    this.socket?.send(audio);
  }

  tell(event: Record<string, unknown>): void {
    this.socket?.send(JSON.stringify(event));
  }

  close(): Promise<void> {
    for (const client of this.server.clients) client.terminate();
    return new Promise((resolve) => this.server.close(() => resolve()));
  }
}
