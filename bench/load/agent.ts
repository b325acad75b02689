/**
 * The agent of the bench: says back what it hears, over ws and wss, and notes when each pulse of a caller reached it. A server whose protocol
 * does not say who calls can say it in the address, as `?from=`.
 */
import { once } from 'node:events';
import { createServer as createHttpServer, type Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';
import { machineMs } from './clock.js';
import { topInLinear, topInUlaw } from './pulse.js';

export type AgentOrder = { kind: 'listen'; key: string; cert: string; wsPort: number } | { kind: 'collect' };
export type AgentAnswer =
  | { kind: 'listening'; wsPort: number; wssPort: number }
  /** Pulses since the last report, by call: its id as the protocol writes it, or the caller's number. */
  | { kind: 'collected'; pulses: { call: string; atMs: Float64Array }[]; stalls: Stall[] };

/** This process was late by so much, until then (`Date.now()`). */
export interface Stall {
  untilMs: number;
  ms: number;
}

const stalls: Stall[] = [];
const stallMs = 8;
const beatMs = 5;
const mostStalls = 100_000;

const heard: { call: string; atMs: number[] }[] = [];
/** A pulse that spans two messages counts once. */
const oncePerMs = 30;

function take(socket: WebSocket, address: URL): void {
  const calls = { call: address.searchParams.get('from') ?? '', atMs: [] as number[] };
  heard.push(calls);
  let sampleRateHz = 8000;
  let linear = false;
  let lastMs = Number.NEGATIVE_INFINITY;
  const note = (audio: Uint8Array) => {
    const top = linear ? topInLinear(audio, sampleRateHz) : topInUlaw(audio, 0, audio.length);
    const nowMs = machineMs();
    if (top === null || nowMs - lastMs < oncePerMs) return;
    lastMs = nowMs;
    calls.atMs.push(nowMs);
  };
  socket.on('error', () => socket.terminate());
  socket.on('close', () => heard.splice(heard.indexOf(calls), 1));
  if (address.pathname.startsWith('/twilio')) {
    socket.on('message', (data) => {
      const text = data.toString();
      const start = text.indexOf('"payload":"');
      if (start >= 0) {
        const payload = text.slice(start + 11, text.indexOf('"', start + 11));
        note(Buffer.from(payload, 'base64'));
        socket.send(`{"event":"media","streamSid":"${streamSid}","media":{"payload":"${payload}"}}`);
        return;
      }
      const message = JSON.parse(text);
      if (message.event === 'start') {
        streamSid = message.start.streamSid;
        calls.call = message.start.callSid;
      } else if (message.event === 'stop') socket.close(1000);
    });
    let streamSid = '';
    return;
  }
  socket.on('message', (data, isBinary) => {
    if (isBinary) {
      note(data as Buffer);
      socket.send(data);
      return;
    }
    const message = JSON.parse(data.toString());
    if (message.event === 'start') {
      calls.call = message.from;
      linear = message.format.encoding === 'l16';
      sampleRateHz = message.format.sample_rate;
    } else if (message.event === 'stop') socket.close(1000);
  });
}

async function listen(server: Server, port: number): Promise<number> {
  const sockets = new WebSocketServer({ server, maxPayload: 1024 * 1024, perMessageDeflate: false });
  sockets.on('connection', (socket, request) => take(socket, new URL(request.url ?? '', 'ws://127.0.0.1')));
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

process.on('message', async (order: AgentOrder) => {
  let answer: AgentAnswer;
  if (order.kind === 'listen') {
    const wsPort = await listen(createHttpServer(), order.wsPort);
    answer = { kind: 'listening', wsPort, wssPort: await listen(createHttpsServer(order), 0) };
  } else {
    answer = {
      kind: 'collected',
      pulses: heard.map(({ call, atMs }) => ({ call, atMs: Float64Array.from(atMs) })),
      stalls: stalls.splice(0),
    };
    for (const each of heard) each.atMs.length = 0;
  }
  process.send?.(answer);
});
let beatAtMs = performance.now();
setInterval(() => {
  const nowMs = performance.now();
  const lateMs = nowMs - beatAtMs - beatMs;
  beatAtMs = nowMs;
  if (lateMs > stallMs && stalls.length < mostStalls) stalls.push({ untilMs: Date.now(), ms: lateMs });
}, beatMs);

process.on('disconnect', () => process.exit());
