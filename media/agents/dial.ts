/** The upgrade request: where to, with which headers, and which addresses are out of bounds. */
import type { Duplex } from 'node:stream';
import { WebSocket } from 'ws';
import { refuseInternalLiteral, safeLookup } from '../../net/safe-lookup.js';
import { AgentConfigError } from './agent.js';

export interface DialOptions {
  allowPrivateAddress: boolean;
  /** A longer message closes with 1009. */
  maxMessageBytes: number;
  /** From our close frame until the socket is destroyed. */
  closeLimitMs: number;
}

/** Some 2000 of the smallest frames: 10 ms. */
const partBytes = 8192;

/** Throws `AgentConfigError` (not a ws or wss URL), `BlockedAddressError` (a literal address), or what `URL` and HTTP throw on bad text. */
export function dial(upgrade: { url: string; headers: Record<string, string> }, o: DialOptions): WebSocket {
  const url = new URL(upgrade.url);
  if (url.protocol !== 'ws:' && url.protocol !== 'wss:') {
    throw new AgentConfigError('target', 'The target must be a ws: or wss: URL.');
  }
  if (!o.allowPrivateAddress) refuseInternalLiteral(url);
  const options = {
    headers: { 'User-Agent': 'Trunkline', ...upgrade.headers },
    lookup: o.allowPrivateAddress ? undefined : safeLookup,
    perMessageDeflate: false,
    followRedirects: false,
    maxPayload: o.maxMessageBytes,
    closeTimeout: o.closeLimitMs,
    // Text that is not UTF-8 is garbage like any other: counted, and not the end of a call.
    skipUTF8Validation: true,
  };
  const ws = new WebSocket(url, options);
  ws.once('upgrade', ({ socket }) => ws.once('open', () => readInParts(ws, socket)));
  return ws;
}

/**
 * One read may hold 16,000 tiny frames, which ws takes in one go while other calls wait: what is larger than a part is handed over one part a
 * turn of the event loop.
 */
function readInParts(ws: WebSocket, socket: Duplex): void {
  const [read] = socket.listeners('data') as ((chunk: Buffer) => void)[];
  if (read === undefined) return;
  const resume = () => {
    if (!ws.isPaused) socket.resume();
  };
  socket.on('data', (chunk: Buffer) => {
    if (chunk.length <= partBytes) {
      read.call(socket, chunk);
      return;
    }
    socket.pause();
    socket.unshift(chunk.subarray(partBytes));
    read.call(socket, chunk.subarray(0, partBytes));
    setImmediate(resume);
  });
  socket.off('data', read);
}
