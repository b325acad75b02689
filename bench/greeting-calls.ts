/**
 * How long callers wait for their first word when each hears a greeting of its own, over real calls to a gateway in a process of its own.
 *
 *     npm run build && node dist/bench/greeting-calls.js [--calls 200] [--rate 40] [--warm-up 50]
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { loadSettings } from '../config/load.js';
import { start } from '../src/main.js';
import { openPhone } from '../src/simulator/phone/phone.js';
import { planDefaults } from '../src/simulator/place-call.js';

const { values } = parseArgs({
  options: {
    calls: { type: 'string', default: '200' },
    rate: { type: 'string', default: '40' },
    'warm-up': { type: 'string', default: '50' },
    gateway: { type: 'boolean', default: false },
  },
});
const key = `trunkline_live_${'b'.repeat(32)}`;

if (values.gateway) {
  const folder = await mkdtemp(path.join(tmpdir(), 'trunkline-greetings-'));
  const app = await start(
    loadSettings({
      env: {
        TRUNKLINE_HTTP_PORT: '0',
        TRUNKLINE_SIP_PORT: '0',
        TRUNKLINE_LOG_LEVEL: 'error',
        TRUNKLINE_BOOTSTRAP_KEY: key,
        TRUNKLINE_DATA_DIR: folder,
      },
    }),
  );
  console.log(JSON.stringify({ httpUrl: app.httpUrl, sip: app.sip.addresses[0] }));
  process.stdin.resume();
  await once(process.stdin, 'end');
  await app.stop(0);
  await rm(folder, { recursive: true, force: true });
  process.exit(0);
}

const gateway = spawn(process.execPath, [process.argv[1] as string, '--gateway'], {
  stdio: ['pipe', 'pipe', 'inherit'],
});
const [line] = (await once(createInterface(gateway.stdout), 'line')) as [string];
const { httpUrl, sip } = JSON.parse(line) as { httpUrl: string; sip: { host: string; port: number } };

let greeting = 0;
const webhook = createServer((request, response) => {
  request.resume();
  greeting += 1;
  const text = `Good morning, number ${greeting}, and thank you for calling Example Airways. How may we help you today?`;
  const actions = [{ action: 'answer' }, { action: 'say', text }, { action: 'hangup' }];
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ actions }));
});
webhook.listen(0, '127.0.0.1');
await once(webhook, 'listening');

async function api<T>(method: string, route: string, body?: object): Promise<T> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const response = await fetch(`${httpUrl}${route}`, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  if (!response.ok) throw new Error(`${route} was answered ${response.status}: ${await response.text()}`);
  return (await response.json()) as T;
}
const number = '+12025550100';
const target = `http://127.0.0.1:${(webhook.address() as AddressInfo).port}/`;
const { id } = await api<{ id: string }>('POST', '/v1/endpoints', { name: 'greet', type: 'webhook', target });
await api('POST', '/v1/phone-numbers', { number, endpoint_id: id });

const phone = await openPhone({ ...sip, transport: 'udp' });
const plan = { ...planDefaults, to: number, durationMs: 5000, markers: false, speech: { kind: 'silence' as const } };

/** From the 200 to the first sound; null when the call stayed silent. */
async function firstWordMs(): Promise<number | null> {
  return (await phone.call(plan, new AbortController().signal)).report().answerToFirstSoundMs;
}

/** Calls at a steady rate. */
const callers = (calls: number, perSec: number) =>
  Promise.allSettled(
    Array.from({ length: calls }, async (_, n) => {
      await sleep((n * 1000) / perSec);
      return firstWordMs();
    }),
  );

await callers(Number(values['warm-up']), 10);
const calls = Number(values.calls);
const load = loadavg()[0]?.toFixed(1);
const heard = await callers(calls, Number(values.rate));
const ms = heard.flatMap((call) => (call.status === 'fulfilled' && call.value !== null ? [call.value] : []));
ms.sort((a, b) => a - b);
const at = (share: number) => Math.round(ms[Math.min(ms.length - 1, Math.floor(share * ms.length))] ?? 0);
console.log(`${calls} calls at ${values.rate}/s, each with a greeting of its own; load before ${load}`);
console.log(`failed or silent ${calls - ms.length}`);
console.log(`200 to first sound p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, worst ${at(1)} ms`);
for (const call of heard) if (call.status === 'rejected') console.log(String(call.reason));
await phone.close();
webhook.close();
gateway.stdin.end();
await once(gateway, 'exit');
