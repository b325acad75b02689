/** A trunk that names this host is trusted wherever SIP listens; the one that the first start makes by itself only while SIP is on loopback. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { loadSettings } from '../../config/load.js';
import { type App, start } from '../../src/main.js';
import { FarEnds } from '../support/far-ends.js';
import { demo } from '../support/fault-scene.js';
import { asSetting, gatewayPorts } from '../support/port-ranges.js';

const key = `trunkline_live_${'k'.repeat(32)}`;
let folder: string;
let app: App | null = null;
const lines: string[] = [];

beforeEach(async () => {
  lines.length = 0;
  folder = await mkdtemp(path.join(tmpdir(), 'trunkline-'));
});
afterEach(async () => {
  await app?.stop(0);
  await rm(folder, { recursive: true });
});

/** Another process with the same database. */
async function startOn(sipHost: string): Promise<void> {
  await app?.stop(0);
  const settings = loadSettings({
    env: {
      ...{ TRUNKLINE_HTTP_PORT: '0', TRUNKLINE_SIP_PORT: '0', TRUNKLINE_RTP_PORTS: asSetting(gatewayPorts) },
      ...{ TRUNKLINE_MEDIA_THREADS: '1', TRUNKLINE_TRUNK_PROBE_SEC: '0', TRUNKLINE_APOLOGY: 'off' },
      ...{ TRUNKLINE_BOOTSTRAP_KEY: key, TRUNKLINE_DATA_DIR: folder, TRUNKLINE_SIP_HOST: sipHost },
    },
  });
  const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) });
  const sipTimersMs = { t1: 50, t2: 200, t4: 100 };
  app = await start(settings, {
    rtpQuarantineMs: 0,
    log,
    sipTimersMs,
    sipLimits: { waitMs: 30_000, foreseenWaitMs: 30_000, mainWaitMs: 30_000, lagMs: 30_000 },
  });
}

async function api<T>(method: string, route: string, body?: unknown): Promise<T> {
  const response = await fetch(`${app?.httpUrl}${route}`, {
    method,
    headers: { authorization: `Bearer ${key}`, ...(body ? { 'content-type': 'application/json' } : {}) },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  if (response.status >= 400) throw new Error(await response.text());
  return (await response.json()) as T;
}

/** The final status of a call to the demo number from 127.0.0.1. */
async function callStatus(): Promise<number> {
  const ends = await FarEnds.open(app?.sip.addresses[0]?.port ?? 0);
  const call = ends.call(demo);
  const status = await call.final();
  if (status === 200) await call.bye();
  await ends.close();
  return status;
}

const trunks = async () =>
  (await api<{ data: { id: string; name: string; status: string }[] }>('GET', '/v1/trunks')).data;

it('with sip_host open to others nothing is trusted at first, and what the API takes is trusted', async () => {
  await startOn('0.0.0.0');
  expect(await trunks()).toEqual([]);
  expect(await callStatus()).toBe(403);
  await api('POST', '/v1/trunks', { name: 'SBC on this host', direction: 'inbound', addresses: ['127.0.0.1/32'] });
  expect((await trunks())[0]).toMatchObject({ status: 'active' });
  expect(await callStatus()).toBe(200);
});

it('the trunk of a first start on loopback is set inactive, in words, when sip_host opens; set active by hand it stays', async () => {
  await startOn('127.0.0.1');
  expect(await callStatus()).toBe(200);
  expect((await trunks()).map(({ name, status }) => [name, status])).toEqual([['Loopback', 'active']]);
  await startOn('0.0.0.0');
  expect(await callStatus()).toBe(403);
  const [made] = await trunks();
  expect(made).toMatchObject({ name: 'Loopback', status: 'inactive' });
  expect(lines.join()).toContain('was set inactive: sip_host is no loopback address');
  await api('PATCH', `/v1/trunks/${made?.id}`, { status: 'active' });
  expect(await callStatus()).toBe(200);
  await startOn('0.0.0.0');
  expect(await callStatus()).toBe(200);
});
