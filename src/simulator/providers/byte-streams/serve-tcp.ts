/** Serves a simulated provider on plain TCP connections. */
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { MessageSplitter } from '../../../../media/agents/connection/transport/message-splitter.js';
import type { ByteStream } from '../provider-protocol.js';
import type { Simulation, SimulatorOptions } from '../simulation.js';

export interface ByteStreamServer {
  port: number;
  /** The URL to use as the target of an endpoint. */
  url: string;
  connections(): number;
  close(): Promise<void>;
}

const maxMessageBytes = 1024 * 1024;
const closeLimitMs = 1000;
/** How much a server that was late sends at once. */
const lateMs = 100;

/** Does things in order, each when the audio before it is over. */
class Pace {
  #waiting: { ms: number; act: () => void }[] = [];
  #timer: NodeJS.Timeout | undefined;
  #dueMs = 0;

  run(ms: number, act: () => void): void {
    if (this.#waiting.length === 0) this.#dueMs = Math.max(this.#dueMs, performance.now());
    this.#waiting.push({ ms, act });
    if (this.#timer === undefined) this.#next();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#waiting = [];
  }

  #next(): void {
    this.#timer = undefined;
    const nowMs = performance.now();
    this.#dueMs = Math.max(this.#dueMs, nowMs - lateMs);
    while (this.#waiting.length > 0 && this.#dueMs <= nowMs) {
      const { ms, act } = this.#waiting.shift()!;
      act();
      this.#dueMs += ms;
    }
    if (this.#waiting.length > 0) this.#timer = setTimeout(() => this.#next(), this.#dueMs - nowMs);
  }
}

/** Rejects when the port cannot be opened. */
export async function serveTcp(
  simulation: Simulation,
  stream: ByteStream,
  { port, host = '127.0.0.1' }: SimulatorOptions,
): Promise<ByteStreamServer> {
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    const codec = stream.codec();
    const splitter = new MessageSplitter(codec, maxMessageBytes);
    const pace = new Pace();
    const served = simulation.begin(new URL(`tcp://${host}/`), {
      sendText: (text) => void socket.write(text),
      sendBinary: (bytes) =>
        pace.run(codec.durationMs?.(bytes) ?? 0, () => void (socket.writable && socket.write(codec.encode(bytes)))),
      dropUnsent: () => pace.stop(),
      stopReading: () => socket.pause(),
      close: () => socket.end(),
      die: () => socket.resetAndDestroy(),
      describe: (message) => codec.describe(message),
    });
    socket.on('data', (bytes: Buffer) => {
      const fault = splitter.take(bytes, (message) => {
        const decoded = codec.decode(message);
        if (decoded !== null) served.message(decoded);
        return true;
      });
      if (fault !== null) socket.destroy();
    });
    socket.on('error', () => socket.destroy());
    socket.on('close', (hadError) => {
      sockets.delete(socket);
      pace.stop();
      served.ended(hadError ? 1006 : 1000);
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  const opened = (server.address() as AddressInfo).port;
  return {
    port: opened,
    url: `tcp://${host.includes(':') ? `[${host}]` : host}:${opened}`,
    connections: () => sockets.size,
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) socket.end();
      const limit = setTimeout(() => {
        for (const socket of sockets) socket.destroy();
      }, closeLimitMs);
      await closed;
      clearTimeout(limit);
    },
  };
}
