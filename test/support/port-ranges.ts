import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const firstPort = 12_000;
const slices = 8;
const sliceLength = 2500;

/**
 * UDP ports of this process. Files run at the same time: a port that one of them counts, waits for or sends to must not be used by another.
 * A listening TCP socket on the first port of a slice claims it: the system releases it when the process ends, however it ends. All
 * lie below the ports that a system gives out by itself (32768 and up on Linux).
 */
async function claimSlice(): Promise<number> {
  const endMs = performance.now() + 30_000;
  for (;;) {
    for (let slice = 0; slice < slices; slice++) {
      const from = firstPort + slice * sliceLength;
      const lock = createServer().unref();
      const isMine = await new Promise<boolean>((resolve) => {
        lock.once('error', () => resolve(false));
        lock.listen({ port: from, host: '127.0.0.1', exclusive: true }, () => resolve(true));
      });
      if (isMine) return from + 2;
    }
    if (performance.now() > endMs) throw new Error('Other processes use all port ranges of the tests.');
    await sleep(50);
  }
}
const mine = await claimSlice();

export interface PortRange {
  from: number;
  to: number;
}

const slice = (from: number, count: number): PortRange => ({ from: mine + from, to: mine + from + count - 1 });

/** RTP of a gateway in the test's own process. */
export const gatewayPorts = slice(0, 1000);
/** RTP of a gateway in a process of its own. */
export const processPorts = slice(1000, 600);
const enginePorts = slice(1600, 600);
const otherPorts = slice(2200, 290);

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

/** An even port, the first of this many consecutive free ports (UDP and TCP), for a program that gets its ports as arguments. */
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
