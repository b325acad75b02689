/** The load generator: a process of its own that places calls by SIP and speaks on all of them. Takes orders from its parent. */

import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { SdpNegotiation } from '../../media/sdp.js';
import { withDeadline } from '../../net/deadline.js';
import { openSipGateway } from '../../sip/gateway.js';
import type { CallLeg, SipGateway } from '../../sip/leg.js';
import { TrunkTable } from '../../sip/trunk/trunk-table.js';
import { type Spread, spread } from './figures.js';
import type { Gap, Stream, StreamFigures } from './streams.js';
import { Streams } from './streams.js';

export type CallerOrder =
  /** `places`: how many calls there will be at most; phases are spread over them. */
  | { kind: 'dial'; uri: string; to: string; calls: number; callsPerSecond: number; places: number }
  /** Without SIP: a call to each of these ports. */
  | { kind: 'echo'; ports: number[] }
  /** Short calls one after the other, to each number in turn, until the time is over and all have ended. */
  | { kind: 'churn'; uri: string; to: ChurnNumber[]; callsPerSecond: number; talkMs: number; seconds: number }
  | { kind: 'measure'; seconds: number }
  | { kind: 'hangUp' };

export type CallerAnswer =
  | { kind: 'dialled'; answered: number; failures: string[] }
  | { kind: 'measured'; figures: StreamFigures; pulses: { from: string; atMs: Float64Array }[] }
  | ({ kind: 'churned' } & Churned)
  | { kind: 'hungUp' };

export interface ChurnNumber {
  number: string;
  /** It says back what it hears. */
  echoed: boolean;
}

export interface Churned {
  answered: number;
  failed: number;
  failures: string[];
  /** Calls in which no pulse came back, by the number that was called. */
  silent: Record<string, number>;
  gaps: (Gap & { from: string; to: string })[];
  minutes: { wire: Spread | null; pace: Spread | null; lost: number; received: number }[];
}

const address = '127.0.0.1';
/** Number of the caller of call `index`. */
const fromOf = (index: number) => `+1999557${String(index).padStart(4, '0')}`;
const silentLog = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

let opening: Promise<SipGateway> | null = null;
let streams = new Streams(1);
interface Call {
  leg: CallLeg | null;
  socket: Socket;
  stream: Stream;
  from: string;
}
const calls: Call[] = [];

async function bound(): Promise<Socket> {
  const socket = createSocket({
    type: 'udp4',
    recvBufferSize: 262_144,
    lookup: (name, _options, done) => done(null, name, 4),
  });
  socket.on('error', () => undefined);
  const listening = once(socket, 'listening');
  socket.bind(0, address);
  await listening;
  return socket;
}

async function dialOne(order: { uri: string; to: string; echoed?: boolean }, index: number): Promise<Call> {
  const socket = await bound();
  const sdp = new SdpNegotiation({ address, rtpPort: socket.address().port, codecs: ['PCMU'] }, String(1000 + index));
  const from = fromOf(index);
  try {
    opening ??= openSipGateway({
      server: { kind: 'embedded', listen: [{ transport: 'udp', host: address, port: 0 }], product: 'trunkline-bench' },
      trunks: new TrunkTable(),
      log: silentLog,
    });
    const gateway = await opening;
    const leg = await withDeadline(30_000, 'the answer to the call', null, (signal) =>
      gateway.dial(
        {
          to: order.to,
          from,
          gateways: [{ uri: order.uri }],
          ringTimeoutMs: 20_000,
          offerFor: async () => sdp.offer(),
        },
        signal,
      ),
    );
    gateway.forgetTrace(leg.sipCallId);
    sdp.accept(leg.remoteSdp, false);
    if (!sdp.agreed) throw new Error('no media was agreed');
    const stream = streams.add(socket, sdp.agreed.port, sdp.agreed.address, index, order.echoed);
    const call = { leg, socket, stream, from };
    calls.push(call);
    return call;
  } catch (error) {
    socket.close();
    throw error;
  }
}

async function dial(order: Extract<CallerOrder, { kind: 'dial' }>): Promise<CallerAnswer> {
  if (calls.length === 0) streams = new Streams(order.places);
  const startMs = performance.now();
  const before = calls.length;
  // Phases are not given in order: the first calls alone would lie close together.
  const stride = coprime(order.places);
  const running: Promise<Call>[] = [];
  for (let i = 0; i < order.calls; i++) {
    const waitMs = startMs + (i * 1000) / order.callsPerSecond - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    const call = dialOne(order, ((before + i) * stride) % order.places);
    call.catch(() => undefined); // It may fail while later calls are still to be dialled.
    running.push(call);
  }
  const ends = await Promise.allSettled(running);
  const failures = ends.flatMap((end) => (end.status === 'rejected' ? [String(end.reason)] : []));
  return { kind: 'dialled', answered: order.calls - failures.length, failures: failures.slice(0, 3) };
}

function coprime(places: number): number {
  const divides = (a: number, b: number): number => (b === 0 ? a : divides(b, a % b));
  for (let stride = Math.floor(places * 0.618); stride > 1; stride--) if (divides(places, stride) === 1) return stride;
  return 1;
}

async function echo({ ports }: Extract<CallerOrder, { kind: 'echo' }>): Promise<CallerAnswer> {
  streams = new Streams(ports.length);
  for (const [index, port] of ports.entries()) {
    const socket = await bound();
    calls.push({ leg: null, socket, stream: streams.add(socket, port, address, index), from: String(index) });
  }
  return { kind: 'dialled', answered: ports.length, failures: [] };
}

async function churn(order: Extract<CallerOrder, { kind: 'churn' }>): Promise<CallerAnswer> {
  const atOnce = Math.ceil((order.callsPerSecond * order.talkMs) / 1000) * 2;
  streams = new Streams(atOnce);
  const [failures, running]: [string[], Set<Promise<void>>] = [[], new Set()];
  let answered = 0;
  const silent: Record<string, number> = {};
  const [called, gaps, minutes]: [string[], Churned['gaps'], Churned['minutes']] = [[], [], []];
  streams.gap = (gap) => gaps.push({ ...gap, from: fromOf(gap.index), to: called[gap.index] ?? '' });
  const minute = () => {
    const { wireMs, paceMs, lost, received } = streams.end();
    minutes.push({ wire: spread(wireMs), pace: spread(paceMs), lost, received });
    streams.begin();
  };
  streams.begin();
  const everyMinute = setInterval(minute, 60_000);
  const startMs = performance.now();
  const one = async (place: number) => {
    try {
      const { number: to, echoed } = order.to[place % order.to.length]!;
      called[place % atOnce] = to;
      const call = await dialOne({ uri: order.uri, to, echoed }, place % atOnce);
      answered += 1;
      await sleep(order.talkMs);
      calls.splice(calls.indexOf(call), 1);
      streams.remove(call.stream);
      if (!call.stream.heard) silent[to] = (silent[to] ?? 0) + 1;
      await call.leg?.hangup();
      call.socket.close();
    } catch (error) {
      failures.push(String(error));
    }
  };
  for (let place = 0; performance.now() - startMs < order.seconds * 1000; place++) {
    const waitMs = startMs + (place * 1000) / order.callsPerSecond - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    const call: Promise<void> = one(place).finally(() => running.delete(call));
    running.add(call);
  }
  await Promise.all(running);
  clearInterval(everyMinute);
  minute();
  streams.end();
  const some = [...new Set(failures)].slice(0, 5);
  return { kind: 'churned', answered, failed: failures.length, failures: some, silent, gaps, minutes };
}

async function measure(seconds: number): Promise<CallerAnswer> {
  streams.begin();
  await sleep(seconds * 1000);
  const figures = streams.end();
  const pulses = calls.map(({ from, stream }) => ({ from, atMs: Float64Array.from(stream.pulsesMs) }));
  return { kind: 'measured', figures, pulses };
}

async function hangUp(): Promise<CallerAnswer> {
  await Promise.all(calls.map(({ leg }) => leg?.hangup()));
  streams.stop();
  for (const { socket } of calls) socket.close();
  calls.length = 0;
  return { kind: 'hungUp' };
}

async function obey(order: CallerOrder): Promise<CallerAnswer> {
  if (order.kind === 'dial') return dial(order);
  if (order.kind === 'echo') return echo(order);
  if (order.kind === 'churn') return churn(order);
  return order.kind === 'measure' ? measure(order.seconds) : hangUp();
}

process.on('message', (order: CallerOrder) => {
  obey(order).then(
    (answer) => process.send?.(answer),
    (error: unknown) => {
      process.stderr.write(`load generator: ${error}\n`);
      process.exit(1);
    },
  );
});
process.on('disconnect', () => process.exit());
