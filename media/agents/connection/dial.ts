/** The upgrade request: where to, with which headers, and which addresses are out of bounds; and how the socket is read. */
import net from 'node:net';
import tls from 'node:tls';
import { type ClientOptions, WebSocket } from 'ws';
import { refuseInternalLiteral, safeLookup } from '../../../net/safe-lookup.js';
import { AgentConfigError } from '../agent.js';
import { WebSocketFrameReader } from './frame-reader.js';

export interface DialOptions {
  allowPrivateAddress: boolean;
  /** A longer message closes with 1009. */
  maxMessageBytes: number;
  /** From our close frame until the socket is destroyed. */
  closeLimitMs: number;
}

/**
 * All sockets of the thread are read into this, one after the other: what a read brings is handled before the next one, and nothing is
 * allocated for it. Some 2000 of the smallest frames, 10 ms: what is more waits for the next turn of the event loop, and other calls go first.
 */
const readInto = Buffer.allocUnsafeSlow(8192);

type Connect = NonNullable<ClientOptions['createConnection']>;

/** Throws `AgentConfigError` (not a ws or wss URL), `BlockedAddressError` (a literal address), or what `URL` and HTTP throw on bad text. */
export function dial(upgrade: { url: string; headers: Record<string, string> }, o: DialOptions): WebSocket {
  const url = new URL(upgrade.url);
  const secure = url.protocol === 'wss:';
  if (!secure && url.protocol !== 'ws:') {
    throw new AgentConfigError('target', 'The target must be a ws: or wss: URL.');
  }
  if (!o.allowPrivateAddress) refuseInternalLiteral(url);
  let socket: net.Socket;
  /** How the bytes of a read are taken: by HTTP first, later as frames. */
  let take = (bytes: Buffer): void => {
    socket.push(Buffer.from(bytes));
  };
  const resume = () => {
    if (!ws.isPaused) socket.resume();
  };
  const onread = {
    buffer: readInto,
    callback: (count: number): boolean => {
      take(readInto.subarray(0, count));
      if (count < readInto.length) return true;
      setImmediate(resume);
      return false;
    },
  };
  const connect = (options: net.TcpNetConnectOpts & tls.ConnectionOptions): net.Socket => {
    const { host = '', port, lookup } = options;
    if (!secure) return net.connect({ host, port, ...(lookup && { lookup }), onread });
    // A name is told to the server, an address is not (RFC 6066 section 3).
    const servername = net.isIP(host) ? '' : host;
    return tls.connect({ host, port, ...(lookup && { lookup }), servername, onread } as tls.ConnectionOptions);
  };
  const options = {
    headers: { 'User-Agent': 'Trunkline', ...upgrade.headers },
    ...(!o.allowPrivateAddress && { lookup: safeLookup }),
    perMessageDeflate: false,
    followRedirects: false,
    maxPayload: o.maxMessageBytes,
    closeTimeout: o.closeLimitMs,
    // Text that is not UTF-8 is garbage like any other: counted, and not the end of a call.
    skipUTF8Validation: true,
    createConnection: ((options: net.TcpNetConnectOpts) => {
      socket = connect(options);
      return socket;
    }) as Connect,
  };
  const ws = new WebSocket(url, options);
  ws.once('open', () => {
    const [read] = socket.listeners('data') as ((chunk: Buffer) => void)[];
    if (read === undefined) return;
    const frames = new WebSocketFrameReader(
      {
        message: (data, isBinary) => ws.emit('message', data, isBinary),
        pass: (bytes) => read.call(socket, bytes),
      },
      o.maxMessageBytes,
    );
    // What came with the upgrade is still in the stream, and goes first.
    socket.on('data', (chunk: Buffer) => frames.take(chunk));
    socket.off('data', read);
    take = (bytes) => {
      if (socket.readableLength > 0) socket.push(Buffer.from(bytes));
      else frames.take(bytes);
    };
  });
  return ws;
}
