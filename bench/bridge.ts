/**
 * What a bridge costs and adds: calls of two phones each, both on one media thread, or each on one of its own. Both ways of relaying, all cases
 * in turns. Every packet says its number, so what arrives is known to the sample. Run: `npm run build && node dist/bench/bridge.js`
 *
 * The phones are in this process, on its main thread; processor time is that of the media threads alone. The phones' own error is measured
 * against a socket that sends each packet back.
 */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { cpus } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startMediaEngine } from '../media/choose.js';
import type { BridgeOptions, MediaEngine, MediaSession } from '../media/engine.js';
import { looksLikeRtcp, rtpHeaderBytes, writeRtpHeader } from '../media/rtp/packet.js';
import { figuresOf, median, type ProcessFigures, spread } from './load/figures.js';
import { markdown, spreadText } from './load/table.js';

const { values } = parseArgs({
  options: {
    calls: { type: 'string', default: '40' },
    seconds: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '3' },
  },
});
const calls = Number(values.calls);
const seconds = Number(values.seconds);
const address = '127.0.0.1';
const [packetMs, packetSamples] = [20, 160];
const beatMs = 1;
const gapMs = 40;
const settleMs = 1000;
/** Sent times are remembered for so many packets, a power of two. */
const remembered = 256;
/** In the third byte: what the other phone said. */
const said = 0x2a;

class Phone {
  readonly sentMs = new Float64Array(remembered);
  number = 0;
  private readonly packet = new Uint8Array(rtpHeaderBytes + packetSamples);
  private to = 0;

  private constructor(
    private readonly socket: Socket,
    private readonly ssrc: number,
  ) {
    this.packet.fill(said, rtpHeaderBytes);
  }

  static async open(ssrc: number): Promise<Phone> {
    const socket = createSocket({ type: 'udp4', recvBufferSize: 262_144 });
    socket.bind(0, address);
    await once(socket, 'listening');
    return new Phone(socket, ssrc);
  }

  get offer(): string {
    const port = this.socket.address().port;
    const lines = [
      'v=0',
      'o=- 1 1 IN IP4 127.0.0.1',
      's=-',
      'c=IN IP4 127.0.0.1',
      't=0 0',
      `m=audio ${port} RTP/AVP 0`,
    ];
    return [...lines, ''].join('\r\n');
  }

  dial(port: number): void {
    this.to = port;
  }

  say(): void {
    const { packet, number } = this;
    writeRtpHeader(packet, 0, false, number & 0xffff, (number * packetSamples) >>> 0, this.ssrc);
    packet[rtpHeaderBytes] = number & 0xff;
    this.sentMs[number % remembered] = performance.now();
    this.number += 1;
    this.socket.send(packet, this.to, address);
  }

  /** Tells of each packet that `other` said: how long it was on its way, and since the last one. */
  listen(other: Phone, arrived: (wayMs: number, sinceMs: number) => void): void {
    let lastMs = Number.NaN;
    this.socket.on('message', (packet) => {
      if (packet.length !== rtpHeaderBytes + packetSamples || looksLikeRtcp(packet)) return;
      if (packet[rtpHeaderBytes + 2] !== said) return;
      const nowMs = performance.now();
      const number = packet[rtpHeaderBytes]!;
      arrived(nowMs - other.sentMs[number % remembered]!, nowMs - lastMs);
      lastMs = nowMs;
    });
  }

  close(): void {
    this.socket.close();
  }
}

interface Case {
  name: string;
  engine: MediaEngine | null;
  relay: BridgeOptions['relay'];
  across: boolean;
}

interface Turn {
  cpuPerCall: number;
  waysMs: number[];
  gaps: number;
  lost: number;
}

/** The media threads' part: that of all threads but the main one, which is the phones'. */
function threadsMs({ threadsMs }: ProcessFigures): number {
  let sum = 0;
  for (const [thread, ms] of threadsMs) if (thread !== String(process.pid)) sum += ms;
  return sum;
}

async function measure({ engine, relay, across }: Case): Promise<Turn> {
  const pairs: { phones: [Phone, Phone]; close(): Promise<unknown> }[] = [];
  const turn: Turn = { cpuPerCall: 0, waysMs: [], gaps: 0, lost: 0 };
  let measuring = false;
  let heard = 0;
  const arrived = (wayMs: number, sinceMs: number) => {
    if (!measuring) return;
    heard += 1;
    turn.waysMs.push(wayMs);
    if (sinceMs > gapMs) turn.gaps += 1;
  };
  for (let i = 0; i < calls; i++) {
    const phones: [Phone, Phone] = [await Phone.open(2 * i + 1), await Phone.open(2 * i + 2)];
    pairs.push({ phones, close: engine === null ? await echo(phones) : await bridge(engine, phones, i) });
    phones[0].listen(engine === null ? phones[0] : phones[1], arrived);
    phones[1].listen(engine === null ? phones[1] : phones[0], arrived);
  }
  const all = pairs.flatMap(({ phones }) => phones);
  const startMs = performance.now();
  let next = 0;
  const timer = setInterval(() => {
    const due = ((performance.now() - startMs) / packetMs) * all.length;
    for (; next < due; next++) all[next % all.length]!.say();
  }, beatMs);
  await sleep(settleMs);
  const [from, sent] = [figuresOf(process.pid), next];
  measuring = true;
  await sleep(seconds * 1000);
  measuring = false;
  const to = figuresOf(process.pid);
  turn.lost = Math.max(0, next - sent - heard - all.length);
  clearInterval(timer);
  turn.cpuPerCall = ((threadsMs(to) - threadsMs(from)) / (to.atMs - from.atMs) / calls) * 100;
  for (const { phones, close } of pairs) {
    await close();
    for (const phone of phones) phone.close();
  }
  return turn;

  async function bridge(engine: MediaEngine, phones: [Phone, Phone], i: number): Promise<() => Promise<unknown>> {
    const sessions: MediaSession[] = [];
    for (const [side, phone] of phones.entries()) {
      // Sessions of one group share a thread; others go to the thread with the fewest.
      const group = across ? `${i} ${side}` : String(i);
      const policy = { codecs: ['PCMU' as const], firstRtpTimeoutMs: 0, rtpTimeoutMs: 0 };
      const session = await engine.open({ group, offer: phone.offer, localAddress: address, role: 'caller', policy });
      phone.dial(Number(/^m=audio (\d+)/m.exec(session.localSdp)?.[1]));
      sessions.push(session);
    }
    sessions[0]!.bridge(sessions[1]!, { relay, dtmf: 'pass' });
    return () => Promise.all(sessions.map((session) => session.close()));
  }
}

/** Each phone hears itself by a socket of this thread. */
async function echo(phones: readonly Phone[]): Promise<() => Promise<void>> {
  const socket = createSocket({ type: 'udp4', recvBufferSize: 262_144 });
  socket.on('message', (packet, { port }) => socket.send(packet, port, address));
  socket.bind(0, address);
  await once(socket, 'listening');
  for (const phone of phones) phone.dial(socket.address().port);
  return async () => void socket.close();
}

const [one, two] = await Promise.all([
  startMediaEngine({ threads: 1, rtpPorts: { from: 20_000, to: 20_399 }, quarantineMs: 0 }),
  startMediaEngine({ threads: 2, rtpPorts: { from: 20_400, to: 20_799 }, quarantineMs: 0 }),
]);
const cases: Case[] = [
  { name: "the phones' own error", engine: null, relay: 'packets', across: false },
  ...(['packets', 'frames'] as const).flatMap((relay) => [
    { name: `${relay}, one thread`, engine: one, relay, across: false },
    { name: `${relay}, two threads, both phones on one`, engine: two, relay, across: false },
    { name: `${relay}, two threads, a phone on each`, engine: two, relay, across: true },
  ]),
];
const turns = cases.map((): Turn[] => []);
try {
  for (let round = 0; round <= Number(values.rounds); round++)
    for (const [i, each] of cases.entries()) {
      const turn = await measure(each);
      if (round > 0) turns[i]!.push(turn); // the first round warms the code
    }
} finally {
  await one.close();
  await two.close();
}
console.log(
  `${calls} bridged calls of two phones, ${values.rounds} turns of ${seconds} s each; ${cpus().length} × ${cpus()[0]?.model.trim()}, node ${process.version}`,
);
const rows = cases.map(({ name }, i) => [
  name,
  median(turns[i]!.map(({ cpuPerCall }) => cpuPerCall)).toFixed(3),
  spreadText(spread(turns[i]!.flatMap(({ waysMs }) => waysMs))),
  turns[i]!.map(({ gaps }) => gaps).join(', '),
  turns[i]!.map(({ lost }) => lost).join(', '),
]);
const head = [
  '',
  'CPU % of a core per call',
  'from phone to phone p50 / p99 / p99.9 ms',
  'gaps > 40 ms',
  'not arrived',
];
console.log(markdown([head, ...rows]));
