import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';

/**
 * UDP ports of this worker of the test run. Files run at the same time: a port that one of them counts, waits for or
 * sends to must be nobody else's. All lie below those that a system gives out by itself (32768 and up on Linux).
 */
const mine = 12_000 + 5000 * (Number(process.env.VITEST_POOL_ID ?? 1) % 4);

export interface PortRange {
  from: number;
  to: number;
}

const slice = (from: number, count: number): PortRange => ({ from: mine + from, to: mine + from + count - 1 });

/** RTP of a gateway in the test's own process. */
export const gatewayPorts = slice(0, 2000);
/** RTP of a gateway in a process of its own. */
export const processPorts = slice(2000, 1500);
const enginePorts = slice(3500, 700);
const otherPorts = slice(4200, 800);

/** As a setting. */
export const asSetting = ({ from, to }: PortRange): string => `${from}-${to}`;

const walk = (range: PortRange) => {
  let next = range.from;
  return (count: number): PortRange => {
    if (next + count - 1 > range.to) next = range.from;
    next += count;
    return { from: next - count, to: next - 1 };
  };
};

const takeEngine = walk(enginePorts);
const takeOther = walk(otherPorts);

/** A few port pairs that no other engine of this file had. */
export const portPairs = (pairs: number): PortRange => takeEngine(2 * pairs);

/** An even one, the first of so many ports in a row, UDP and TCP, for a program that is told its port before it takes it. */
export async function freePort(count = 1): Promise<number> {
  for (;;) {
    const { from, to } = takeOther(count + (count % 2));
    let free = true;
    for (let port = from; free && port <= to; port++) free = (await isFreeUdp(port)) && (await isFreeTcp(port));
    if (free) return from;
  }
}

/** sipp takes a port for audio and the one two above for video, and ends when either is taken. */
export const freeMediaPort = (): Promise<number> => freePort(4);

function isFreeUdp(port: number): Promise<boolean> {
  const socket = createSocket('udp4');
  return new Promise((resolve) => {
    socket.once('error', () => resolve(false));
    socket.bind(port, '127.0.0.1', () => socket.close(() => resolve(true)));
  });
}

function isFreeTcp(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
