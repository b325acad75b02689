/** Serves a simulated provider on HTTP/2 requests whose body and response are streams; without TLS as well. */
import { createSecureServer, createServer, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { MessageSplitter } from '../../../../media/agents/connection/transport/message-splitter.js';
import type { ByteStream } from '../provider-protocol.js';
import type { Simulation, SimulatorOptions } from '../simulation.js';
import type { ByteStreamServer } from './serve-tcp.js';

const maxMessageBytes = 1024 * 1024;
const closeLimitMs = 1000;

/** Rejects when the port cannot be opened. */
export async function serveHttp2(
  simulation: Simulation,
  byteStream: ByteStream,
  { port, host = '127.0.0.1', tls }: SimulatorOptions,
): Promise<ByteStreamServer> {
  const sessions = new Set<ServerHttp2Session>();
  const streams = new Set<ServerHttp2Stream>();
  const server = tls === undefined ? createServer() : createSecureServer(tls);
  server.on('session', (session: ServerHttp2Session) => {
    sessions.add(session);
    session.on('error', () => session.destroy());
    session.on('close', () => sessions.delete(session));
  });
  server.on('stream', (stream: ServerHttp2Stream, headers) => {
    stream.on('error', () => stream.destroy());
    const url = new URL(headers[':path'] ?? '/', 'http://simulator');
    const refused = simulation.protocol.refuse({ url, headers });
    if (refused !== null) {
      stream.respond({ ':status': refused, 'content-type': 'application/json' });
      stream.end('{"message":"refused"}');
      return;
    }
    streams.add(stream);
    stream.respond({ ':status': 200, 'content-type': 'application/vnd.amazon.eventstream' });
    const codec = byteStream.codec();
    const splitter = new MessageSplitter(codec, maxMessageBytes);
    let closedWith = 1000;
    const write = (message: string | Uint8Array) => {
      if (stream.writable) stream.write(codec.encode(message));
    };
    const served = simulation.begin(url, {
      sendText: write,
      sendBinary: write,
      stopReading: () => stream.pause(),
      close: (code, reason) => {
        closedWith = code;
        if (code !== 1000 && stream.writable) stream.write(codec.encodeError(reason ?? ''));
        stream.end();
      },
      die: () => stream.session?.destroy(),
      describe: (message) => codec.describe(message),
    });
    stream.on('data', (bytes: Buffer) => {
      const fault = splitter.take(bytes, (message) => {
        const decoded = codec.decode(message);
        if (decoded !== null) served.message(decoded);
        return true;
      });
      if (fault !== null) stream.close();
    });
    stream.on('end', () => stream.end());
    stream.on('close', () => {
      streams.delete(stream);
      served.ended(closedWith);
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  const opened = (server.address() as AddressInfo).port;
  const origin = `${tls === undefined ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${opened}`;
  return {
    port: opened,
    url: origin,
    connections: () => streams.size,
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const stream of streams) stream.end();
      for (const session of sessions) session.close();
      const limit = setTimeout(() => {
        for (const session of sessions) session.destroy();
      }, closeLimitMs);
      await closed;
      clearTimeout(limit);
    },
  };
}
