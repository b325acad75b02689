import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { loadSettings } from '../../config/load.js';
import { type App, type StartOptions, start } from '../../src/main.js';
import { expectDescribedEvents } from './event-data.js';
import { expectNothingLeft } from './leftovers.js';
import { asSetting, gatewayPorts } from './port-ranges.js';
import { lingerMs } from './sip-server.js';
import { beforeFurtherTries, isFurtherTry, triedSinceMs } from './tries.js';

/** A whole Trunkline in this process, on ephemeral ports and a database of its own. */
export interface TestApp extends App {
  key: string;
  /** The database, for a connection of the test's own. */
  databaseFile: string;
  /** An API request as a client makes it; throws on a status of 400 and above unless `status` says which is expected. */
  api<T = unknown>(method: string, path: string, body?: unknown, status?: number): Promise<T>;
  /** Creates an endpoint with a WebSocket target and a number for it; answers the ids. */
  connectNumber(
    number: string,
    target: string,
    config?: Record<string, unknown>,
  ): Promise<{ endpointId: string; numberId: string }>;
  /** Deletes the number, if there is one. */
  releaseNumber(number: string): Promise<void>;
  /** The one finished call with this called number, once its record is terminal; without those of an earlier try of the test. */
  finishedCall(number: string, limitMs?: number): Promise<CallRecord>;
  /** Asserts that nothing of any call is left and that all events are as described, then stops everything and removes the files. */
  end(): Promise<void>;
}

export interface CallRecord {
  id: string;
  status: string;
  duration: number;
  cost: number;
  latency_ms: number;
  hangup_cause: string | null;
  hangup_source: string | null;
  answered_at: string | null;
  completed_at: string | null;
  quality_metrics: Record<string, unknown> & { mos?: number; packet_loss?: number; jitter_ms?: number };
  events: { event_type: string; sequence: number; event_data: Record<string, unknown> }[];
  transcript: string | null;
}

export async function startTestApp(
  environment: Record<string, string> = {},
  sipTimersMs?: StartOptions['sipTimersMs'],
  more: Pick<StartOptions, 'sipLimits' | 'sipTrusted' | 'log' | 'rtpQuarantineMs' | 'rtpTakenPortRetryMs'> = {},
): Promise<TestApp> {
  const folder = await mkdtemp(path.join(tmpdir(), 'trunkline-'));
  const bootstrapKey = `trunkline_live_${'k'.repeat(32)}`;
  const settings = loadSettings({
    env: {
      TRUNKLINE_HTTP_PORT: '0',
      TRUNKLINE_SIP_PORT: '0',
      TRUNKLINE_RTP_PORTS: asSetting(gatewayPorts),
      TRUNKLINE_MEDIA_THREADS: '1',
      TRUNKLINE_TRUNK_PROBE_SEC: '0',
      TRUNKLINE_LOG_LEVEL: 'error',
      TRUNKLINE_APOLOGY: 'off',
      TRUNKLINE_BOOTSTRAP_KEY: bootstrapKey,
      TRUNKLINE_DATA_DIR: folder,
      ...environment,
    },
  });
  const app = await start(settings, {
    rtpQuarantineMs: 0,
    // a machine that runs other tests too is not overload
    ...more,
    sipLimits: { waitMs: 30_000, foreseenWaitMs: 30_000, mainWaitMs: 30_000, lagMs: 30_000, ...more.sipLimits },
    ...(sipTimersMs === undefined ? {} : { sipTimersMs: { lingerMs, ...sipTimersMs } }),
  });
  const key = app.first?.apiKey ?? bootstrapKey; // an empty TRUNKLINE_BOOTSTRAP_KEY has one made
  const api = async <T>(method: string, route: string, body?: unknown, status?: number): Promise<T> => {
    // an earlier try of the test took it
    if (method === 'POST' && route === '/v1/phone-numbers' && isFurtherTry())
      await releaseNumber((body as { number: string }).number);
    const response = await fetch(`${app.httpUrl}${route}`, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        connection: 'close', // a connection kept alive would count as left over
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (status === undefined ? !response.ok : response.status !== status)
      throw new Error(`${method} ${route} answered ${response.status}: ${text}`);
    return (text === '' ? null : JSON.parse(text)) as T;
  };
  const releaseNumber = async (number: string): Promise<void> => {
    const { data } = await api<{ data: { id: string; number: string }[] }>('GET', '/v1/phone-numbers?limit=100');
    for (const each of data) if (each.number === number) await api('DELETE', `/v1/phone-numbers/${each.id}`);
  };
  const clearAway = async (sinceMs: number): Promise<void> => {
    const { data } = await api<{ data: { id: string }[] }>('GET', '/v1/calls?status=in_progress&limit=100');
    for (const { id } of data) await api('POST', `/v1/calls/${id}/hangup`).catch(() => undefined); // it may be over
    for (const route of ['/v1/phone-numbers', '/v1/trunks']) {
      const { data: made } = await api<{ data: { id: string; created_at: string }[] }>('GET', `${route}?limit=100`);
      for (const { id, created_at: at } of made) if (Date.parse(at) >= sinceMs) await api('DELETE', `${route}/${id}`);
    }
  };
  beforeFurtherTries.add(clearAway);
  return {
    ...app,
    key,
    releaseNumber,
    databaseFile: settings.databaseUrl.kind === 'sqlite' ? settings.databaseUrl.file : '',
    api,
    async connectNumber(number, target, config = {}) {
      const endpoint = await api<{ id: string }>('POST', '/v1/endpoints', {
        name: `agent of ${number}`,
        type: 'agent',
        target,
        provider_config: config,
      });
      const created = await api<{ id: string }>('POST', '/v1/phone-numbers', { number, endpoint_id: endpoint.id });
      return { endpointId: endpoint.id, numberId: created.id };
    },
    async finishedCall(number, limitMs = 10_000) {
      const deadline = Date.now() + limitMs;
      const sinceMs = triedSinceMs();
      for (;;) {
        const { data } = await api<{ data: { id: string; to_number: string; status: string; created_at: string }[] }>(
          'GET',
          '/v1/calls?limit=100',
        );
        const found = data.filter((call) => call.to_number === number && Date.parse(call.created_at) >= sinceMs);
        if (found.length === 1 && found[0]?.status !== 'in_progress')
          return api<CallRecord>('GET', `/v1/calls/${found[0]?.id}`);
        if (Date.now() > deadline) throw new Error(`No single finished call to ${number}: ${JSON.stringify(found)}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    async end() {
      beforeFurtherTries.delete(clearAway);
      try {
        await expectNothingLeft(app, { limitMs: 10_000, transactionsLimitMs: 15_000 });
        await app.stop(0);
        if (settings.databaseUrl.kind === 'sqlite') expectDescribedEvents(settings.databaseUrl.file);
      } finally {
        await app.stop(0);
        await rm(folder, { recursive: true, force: true });
      }
    },
  };
}
