/**
 * A voice agent that echoes the caller, in both WebSocket protocols: `/raw` (binary audio) and `/twilio` (Twilio Media Streams).
 *
 * As a program: `node dist/examples/echo-agent/index.js --port 8090`. As a library: `startEchoAgent({ port: 0 })`.
 */
import type { RawData, WebSocket } from 'ws';
import { type AgentServer, parseMessage, runAsProgram, type ServeOptions, serveAgent } from '../serve.js';

/** Audio is dropped while a socket has more than this unsent. */
const MAX_UNSENT_BYTES = 64 * 1024;

export type EchoAgent = AgentServer;

/** Rejects when the port cannot be opened. */
export function startEchoAgent(options: ServeOptions): Promise<EchoAgent> {
  return serveAgent(options, (socket, protocol) => {
    const echo = protocol === 'raw' ? echoRaw : echoTwilio;
    socket.on('message', (data, isBinary) => echo(socket, data, isBinary));
  });
}

function echoRaw(socket: WebSocket, data: RawData, isBinary: boolean): void {
  if (!isBinary) {
    if (parseMessage(data.toString()).event === 'stop') socket.close(1000);
  } else if (socket.bufferedAmount < MAX_UNSENT_BYTES) {
    socket.send(data);
  }
}

/** The payload is sent back unchanged, without decoding. */
function echoTwilio(socket: WebSocket, data: RawData, isBinary: boolean): void {
  const { event, streamSid, media } = parseMessage(isBinary ? '' : data.toString());
  if (event === 'stop') {
    socket.close(1000);
  } else if (event === 'media' && socket.bufferedAmount < MAX_UNSENT_BYTES) {
    const { payload } = Object(media);
    socket.send(JSON.stringify({ event, streamSid, media: { payload } }));
  }
}

await runAsProgram(import.meta.url, 8090, startEchoAgent);
