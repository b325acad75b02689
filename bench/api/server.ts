/** What is measured, in a process of its own: `ours` is the API over the filled database, `bare` a Fastify route that answers the same call. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import { Registry } from 'prom-client';
import { buildApi } from '../../src/api/server.js';
import { Store } from '../../src/store/store.js';
import { benchKey } from './fill.js';

/** To the parent: where it listens; then, for each `watch` and `tell`, how far the loop was late meanwhile and what processor time was used, in ms. */
export type FromServer = { port: number; organizationId: string } | { worstMs: number; p99Ms: number; cpuMs: number };
export type ToServer = { kind: 'watch' } | { kind: 'tell' } | { kind: 'end' };

const [, , kind = '', database = '', callId = '', key = ''] = process.argv;

async function listen(): Promise<{ port: number; organizationId: string; close(): Promise<void> }> {
  const store = await Store.open(database.startsWith('postgres') ? { url: database } : { file: database });
  const metrics = new Registry();
  const api = await buildApi({
    store,
    liveCalls: { count: 0, command: async () => ({ ok: false, code: 'not_running', message: '' }) },
    ready: () => ({ ready: true, checks: {}, problems: [], degraded: [] }),
    metrics,
    allowPrivateTargets: false,
    recordingsFolder: '/nonexistent',
    onTrunksChanged: () => {},
    trustedProxies: ['127.0.0.1'],
  });
  if (kind === 'ours') {
    await api.listen({ host: '127.0.0.1', port: 0 });
    const { organization } = (await api.inject({ url: '/v1/me', headers: { 'x-api-key': benchKey } })).json();
    return {
      organizationId: organization.id,
      port: (api.server.address() as AddressInfo).port,
      close: async () => {
        await api.close();
        await store.close();
      },
    };
  }
  const { bareApp } = await import('./bare.js');
  const answer = await api.inject({ url: `/v1/calls/${callId}`, headers: { 'x-api-key': key } });
  const document = (await api.inject('/openapi.json')).json();
  await api.close();
  await store.close();
  const bare = await bareApp(answer.json(), document);
  return { port: bare.port, organizationId: '', close: bare.close };
}

const server = await listen();
let delay: IntervalHistogram | null = null;
let used = process.cpuUsage();
process.on('message', async (message: ToServer) => {
  if (message.kind === 'watch') {
    delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    used = process.cpuUsage();
  } else if (message.kind === 'tell') {
    delay?.disable();
    // Less the millisecond of the timer.
    const ms = (ns: number) => Math.max(0, ns / 1e6 - 1);
    const { user, system } = process.cpuUsage(used);
    const cpuMs = (user + system) / 1000;
    process.send?.({ worstMs: ms(delay?.max ?? 0), p99Ms: ms(delay?.percentile(99) ?? 0), cpuMs } satisfies FromServer);
  } else {
    await server.close();
    process.disconnect();
  }
});
process.send?.({ port: server.port, organizationId: server.organizationId } satisfies FromServer);
await once(process, 'disconnect');
// The servers end with the bench.
process.exit();
