/** Opens the WebSocket: target address, headers, refused addresses, and the reading and writing of frames. */
import net from 'node:net';
import tls from 'node:tls';
import { type ClientOptions, WebSocket } from 'ws';
import { refuseInternalLiteral, safeLookup } from '../../../net/safe-lookup.js';
import { AgentConfigError, type Upgrade } from '../agent.js';
import { type FrameHooks, WebSocketFrameReader } from './frame-reader.js';
import { WebSocketFrameWriter } from './frame-writer.js';

export interface DialOptions {
  allowPrivateAddress: boolean;
  /** A longer message closes with 1009. */
  maxMessageBytes: number;
  /** Time limit from our close frame until the socket is destroyed. */
  closeLimitMs: number;
}

/**
 * Read buffer of all sockets of the thread: each read is handled before the next one, without an allocation. It holds some 2000 of the
 * smallest frames, 10 ms of work; further data waits for the next turn of the event loop, so that other calls are served first.
 */
const readInto = Buffer.allocUnsafeSlow(8192);
/** The bytes of the last read: most reads are one message of the same length, and need no new view. */
let read = readInto;

export interface DialledAgent {
  ws: WebSocket;
  /** What sends messages in place of `ws`, once it is open. */
  frames(): WebSocketFrameWriter;
}

type Connect = NonNullable<ClientOptions['createConnection']>;

/**
 * `hooks` get each message. Throws `AgentConfigError` (not a ws or wss URL), `BlockedAddressError` (a literal address), or the
 * errors of `URL` and HTTP for bad text.
 */
export function dial(upgrade: Upgrade, o: DialOptions, hooks: FrameHooks): DialledAgent {
  const url = new URL(upgrade.url);
  const secure = url.protocol === 'wss:';
  if (!secure && url.protocol !== 'ws:') {
    throw new AgentConfigError('target', 'The target must be a ws: or wss: URL.');
  }
  if (!o.allowPrivateAddress) refuseInternalLiteral(url);
  let socket: net.Socket;
  /** null before the socket is open: HTTP is read by its stream. */
  let frames: WebSocketFrameReader | null = null;
  /** Data that arrived with the upgrade has left the stream, which gets no more. */
  let isStreamEmpty = false;
  const resume = () => {
    if (!ws.isPaused) socket.resume();
  };
  const onread = {
    buffer: readInto,
    callback: (count: number): boolean => {
      if (read.length !== count) read = readInto.subarray(0, count);
      isStreamEmpty ||= frames !== null && socket.readableLength === 0;
      if (frames !== null && isStreamEmpty) frames.take(read);
      else socket.push(Buffer.from(read));
      if (count < readInto.length) return true;
      setImmediate(resume);
      return false;
    },
  };
  const connect = (options: net.TcpNetConnectOpts & tls.ConnectionOptions): net.Socket => {
    const { host = '', port, lookup } = options;
    if (!secure) return net.connect({ host, port, ...(lookup && { lookup }), onread });
    // SNI carries names but no addresses (RFC 6066 section 3).
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
    // Invalid UTF-8 is garbage like any other: it is counted, and does not end the call.
    skipUTF8Validation: true,
    createConnection: ((options: net.TcpNetConnectOpts) => {
      socket = connect(options);
      return socket;
    }) as Connect,
  };
  const { subprotocol } = upgrade;
  const ws = new WebSocket(url, subprotocol === undefined ? [] : [subprotocol], options);
  // Messages that `ws` puts together. It gives a Buffer unless binaryType is set.
  ws.on('message', (data, isBinary) => hooks.message(data as Buffer, isBinary));
  // A server may choose none of the offered subprotocols (RFC 6455 section 4.2.2); ws alone would refuse that.
  ws.once('upgrade', ({ headers }) => {
    headers['sec-websocket-protocol'] ??= subprotocol;
  });
  ws.once('open', () => {
    const [readByWs] = socket.listeners('data') as ((chunk: Buffer) => void)[];
    if (readByWs === undefined) return;
    const reader = new WebSocketFrameReader(hooks, (bytes) => readByWs.call(socket, bytes), o.maxMessageBytes);
    frames = reader;
    // Data that arrived with the upgrade is still in the stream and goes first.
    socket.on('data', (chunk: Buffer) => reader.take(chunk));
    socket.off('data', readByWs);
  });
  return {
    ws,
    frames: () => new WebSocketFrameWriter(socket),
  };
}
