/**
 * What an attacker may try who has time: to learn keys from how long answers take (Welch's t-test over 2 × 10,000 answers), and to hold 10,000
 * connections open, silent or sending a byte a second. Says what happened, and exits with 1 when a bound is passed. Takes a minute; needs
 * `ulimit -n 12000`.
 * Run: `npm run build && node dist/bench/api/attacks.js`
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeApiKey } from '../../src/store/tenants/api-keys.js';
import { figuresOf } from '../load/figures.js';
import { benchKey, createTenant } from './fill.js';
import { Line } from './load.js';
import type { FromServer, ToServer } from './server.js';

const samples = 10_000;
const warmSamples = 2_000;
/** A difference counts above this value, as in leakage tests of cryptography. */
const mostT = 4.5;
const idle = 10_000;
const mostConnections = 2_000;
const mostMb = 100;
/** 10 s for headers, looked at every 5 s, and time to close. */
const goneWithinMs = 25_000;

let failed = false;
function verdict(what: string, isGood: boolean): void {
  console.log(`${isGood ? 'ok  ' : 'FAIL'} ${what}`);
  if (!isGood) failed = true;
}

/** Keys that differ from a valid one only in the last characters, and entirely different ones, in random order. */
async function timing(port: number): Promise<void> {
  const line = await Line.open(port);
  // Prepared in advance: work just before a request would show in its time.
  const keys = Array.from({ length: 2 * (samples + warmSamples) }, (): [which: 0 | 1, key: string] => {
    const other = makeApiKey('live');
    return Math.random() < 0.5 ? [0, benchKey.slice(0, -3) + other.slice(-3)] : [1, other];
  });
  const requests = keys.map(([, key], n) => {
    // An address of its own for each, through a trusted proxy: one address gets 20 answers a second.
    const address = `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`;
    return Buffer.from(
      `GET /v1/me HTTP/1.1\r\nHost: bench\r\nX-Forwarded-For: ${address}\r\nX-Api-Key: ${key}\r\n\r\n`,
    );
  });
  const took: [near: number[], far: number[]] = [[], []];
  for (const [n, request] of requests.entries()) {
    const startNs = process.hrtime.bigint();
    const status = await line.ask(request);
    const ns = Number(process.hrtime.bigint() - startNs);
    if (status !== 401) throw new Error(`a wrong key was answered ${status}`);
    if (n >= 2 * warmSamples) took[keys[n]?.[0] ?? 0].push(ns);
  }
  line.close();
  // The slowest answers show other programs, not the server.
  const all = [...took[0], ...took[1]].sort((a, b) => a - b);
  const limitNs = all[Math.floor(all.length * 0.9)] ?? 0;
  const [a, b] = took.map((list) => moments(list.filter((ns) => ns <= limitNs))) as [Moments, Moments];
  const t = (a.mean - b.mean) / Math.sqrt(a.variance / a.count + b.variance / b.count);
  const us = (ns: number) => (ns / 1000).toFixed(1);
  verdict(
    `a key that is nearly right is refused in ${us(a.mean)} µs, any other in ${us(b.mean)} µs: t = ${t.toFixed(2)} (|t| < ${mostT})`,
    Math.abs(t) < mostT,
  );
}

interface Moments {
  count: number;
  mean: number;
  variance: number;
}
function moments(values: readonly number[]): Moments {
  const count = values.length;
  const mean = values.reduce((sum, value) => sum + value, 0) / count;
  return { count, mean, variance: values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (count - 1) };
}

/** Half say nothing, half send a head that never ends; none reads an answer or closes. */
async function idleConnections(port: number, pid: number): Promise<void> {
  const before = figuresOf(pid);
  const known = await Line.open(port); // opened before the flood, and still served
  const health = Buffer.from('GET /healthz HTTP/1.1\r\nHost: bench\r\n\r\n');
  const sockets = new Set<Socket>();
  const opened: Promise<unknown>[] = [];
  for (let n = 0; n < idle; n += 1) {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => {});
    socket.once('close', () => sockets.delete(socket));
    sockets.add(socket);
    opened.push(new Promise((resolve) => socket.once('connect', resolve).once('close', resolve)));
    if (n % 2) socket.once('connect', () => socket.write('GET /v1/me HTTP/1.1\r\nX-Drip: '));
    if (n % 200 === 199) await Promise.all(opened);
  }
  await sleep(500); // the excess connections are closed by now
  const during = figuresOf(pid);
  let worstMs = 0;
  const startedMs = performance.now();
  // Counted on the server: a client that does not read does not notice that its connection is closed.
  const left = () => figuresOf(pid).descriptors - before.descriptors;
  while (performance.now() - startedMs < goneWithinMs && left() > 5) {
    for (const socket of sockets) if (socket.bytesWritten > 0 && socket.writable) socket.write('a');
    const startMs = performance.now();
    await known.ask(health);
    worstMs = Math.max(worstMs, performance.now() - startMs);
    await sleep(1_000);
  }
  const held = during.descriptors - before.descriptors;
  verdict(`of ${idle} connections ${held} were held (at most ${mostConnections})`, held <= mostConnections + 5);
  const grownMb = during.memoryMb - before.memoryMb;
  verdict(`they took ${grownMb.toFixed(0)} MB (at most ${mostMb})`, grownMb <= mostMb);
  const tookSec = ((performance.now() - startedMs) / 1000).toFixed(0);
  verdict(`${left()} are left after ${tookSec} s (at most 5 after ${goneWithinMs / 1000} s)`, left() <= 5);
  verdict(`who was connected was answered within ${worstMs.toFixed(0)} ms`, worstMs < 1_000);
  const late = await Line.open(port);
  verdict('who comes afterwards is answered', (await late.ask(health)) === 200);
  late.close();
  known.close();
  for (const socket of sockets) socket.destroy();
}

const folder = mkdtempSync(path.join(tmpdir(), 'trunkline-attacks-'));
let child: ChildProcess | null = null;
try {
  const file = path.join(folder, 'trunkline.db');
  await createTenant(file);
  child = fork(new URL('./server.js', import.meta.url), ['ours', file]);
  const [{ port }] = (await once(child, 'message')) as [Extract<FromServer, { port: number }>];
  await timing(port);
  await idleConnections(port, child.pid ?? 0);
} finally {
  child?.send({ kind: 'end' } satisfies ToServer);
  if (child) await once(child, 'exit');
  rmSync(folder, { recursive: true });
}
process.exitCode = failed ? 1 : 0;
