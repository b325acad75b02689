/**
 * How soon a text is heard: from the webhook's answer to the first sound on the phone, over real calls.
 *
 *     npm run build && node dist/bench/say.js [--calls 10]
 */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { loadSettings } from '../config/load.js';
import { start } from '../src/main.js';
import { openPhone } from '../src/simulator/phone/phone.js';
import { planDefaults } from '../src/simulator/place-call.js';

const { values } = parseArgs({ options: { calls: { type: 'string', default: '10' } } });
const callsEach = Number(values.calls);
const sentence = (call: number) =>
  `Thank you for calling desk ${call} of Example Airways, we are glad that you are here`;
/** Each begins with other words, so that no speech can come from a cache. */
const texts: { [name: string]: (call: number) => string } = {
  'five words': (call) => `Welcome to Example Airways ${call}`,
  'two sentences': (call) => `${sentence(100 + call)}. Please hold the line`,
  'no comma (175 letters)': (call) =>
    `Thank you for calling desk ${200 + call} of Example Airways and we are glad that you are here with us today although there may be a moment of waiting before somebody is free to talk to you`,
  'a page (20 sentences)': (call) =>
    Array.from({ length: 20 }, (_, i) => `${sentence(300 + 20 * call + i)}.`).join(' '),
};

const key = `trunkline_live_${'b'.repeat(32)}`;
const folder = await mkdtemp(path.join(tmpdir(), 'trunkline-say-'));
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
let text = '';
let answeredAtMs = 0;
const server = createServer((request, response) => {
  request.resume();
  const actions =
    request.url === '/say'
      ? [{ action: 'say', text }, { action: 'hangup' }]
      : [{ action: 'answer' }, { action: 'pause', seconds: 0.5 }, { action: 'redirect', url: '/say' }];
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ actions }));
  if (request.url === '/say') answeredAtMs = Date.now();
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');

async function api<T>(method: string, route: string, body?: object): Promise<T> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const response = await fetch(`${app.httpUrl}${route}`, {
    method,
    headers,
    ...(body && { body: JSON.stringify(body) }),
  });
  return (await response.json()) as T;
}

const number = '+12025550100';
const target = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
const { id } = await api<{ id: string }>('POST', '/v1/endpoints', { name: 'say', type: 'webhook', target });
await api('POST', '/v1/phone-numbers', { number, endpoint_id: id });

/** From the webhook's answer to the first sound. */
async function soundAfterMs(): Promise<number> {
  const { host, port } = app.sip.addresses[0] as { host: string; port: number };
  const phone = await openPhone({ host, port, transport: 'udp' });
  const speech = { kind: 'silence' as const };
  const stop = new AbortController();
  try {
    const plan = { ...planDefaults, to: number, durationMs: 2500, markers: false, speech };
    const report = (await phone.call(plan, stop.signal)).report();
    const { data } = await api<{ data: { answered_at: string }[] }>('GET', '/v1/calls?limit=1');
    return Date.parse(data[0]?.answered_at ?? '') + (report.answerToFirstSoundMs ?? Number.NaN) - answeredAtMs;
  } finally {
    await phone.close();
  }
}

text = 'The first call after a start loads the voice';
console.log(`the very first text     ${Math.round(await soundAfterMs())} ms`);
for (const [name, make] of Object.entries(texts)) {
  const first: number[] = [];
  const again: number[] = [];
  for (let call = 0; call < callsEach; call += 1) {
    text = make(call);
    first.push(await soundAfterMs());
    again.push(await soundAfterMs());
  }
  console.log(`${name.padEnd(22)}  new: ${figures(first)}   cached: ${figures(again)}`);
}
server.close();
await app.stop(0);
await rm(folder, { recursive: true, force: true });

function figures(ms: number[]): string {
  const sorted = ms.toSorted((a, b) => a - b);
  const at = (part: number) => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0);
  return `p50 ${at(0.5)} ms, worst ${at(1)} ms`;
}
