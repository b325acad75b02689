import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Registry } from 'prom-client';
import { type ApiOptions, buildApi } from '../../src/api/server.js';
import type { CallCommand, CommandResult } from '../../src/call/core/command.js';
import type { Role, Tier } from '../../src/store/database/tables.js';
import { loadDriver } from '../../src/store/sqlite/driver.js';
import type { Store } from '../../src/store/store.js';
import type { Mode } from '../../src/store/tenants/scope.js';
import { ApiDescription } from './api-description.js';
import { FakeClock } from './fake-clock.js';
import { databaseOf, onPostgres, openStore } from './open-store.js';
import { query } from './postgres-server.js';

export interface Answer {
  status: number;
  headers: Record<string, string | string[] | number | undefined>;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of any shape
  body: any;
  text: string;
}

/** An API over a store of its own in a folder of its own; two organizations with one owner each. */
export interface TestApi {
  app: Awaited<ReturnType<typeof buildApi>>;
  store: Store;
  /** The database. */
  file: string;
  clock: FakeClock;
  /** The platform owner's organization, and another tenant's. */
  a: { organizationId: string; key: string; userId: string };
  b: { organizationId: string; key: string; userId: string };
  commands: { callId: string; command: CallCommand }[];
  /** What the running calls answer to commands. */
  answerCommands(how: (callId: string, command: CallCommand) => CommandResult): void;
  trunkChanges(): number;
  /** What lies in the database, seen from outside. */
  rows(sql: string): Promise<Record<string, unknown>[]>;
  /** A change behind the store's back. */
  write(sql: string): Promise<void>;
  /** What every answer to `request` is checked with. */
  description(): Promise<ApiDescription>;
  request(method: string, url: string, options?: RequestOptions): Promise<Answer>;
  addKey(of: { organizationId: string; role?: Role; mode?: Mode; limited?: boolean }): Promise<string>;
  close(): Promise<void>;
}

export interface RequestOptions {
  key?: string | null;
  body?: unknown;
  headers?: Record<string, string>;
  payload?: string;
  remoteAddress?: string;
}

let read: Promise<ApiDescription> | null = null;

export async function testApi(options: Partial<ApiOptions> & { tier?: Tier } = {}): Promise<TestApi> {
  const dir = mkdtempSync(path.join(tmpdir(), 'trunkline-api-'));
  const clock = new FakeClock(Date.UTC(2026, 0, 15, 12));
  const file = path.join(dir, 'trunkline.db');
  const store = await openStore({ file, clock });
  const tenant = async (name: string, platformOwner: boolean) => {
    const organization = await store.organizations.create({ name, tier: options.tier ?? 'enterprise' });
    const user = await store.organizations.createUser({ name: `Owner of ${name}`, platformOwner });
    await store.organizations.addMember(organization.id, user.id, 'owner');
    const { key } = await store.apiKeys.create({ userId: user.id, organizationId: null, mode: 'live', name: 'First' });
    return { organizationId: organization.id, key, userId: user.id };
  };
  const a = await tenant('A', true);
  const b = await tenant('B', false);
  const commands: TestApi['commands'] = [];
  let answer = (_callId: string, _command: CallCommand): CommandResult => ({ ok: true });
  let trunkChanges = 0;
  const app = await buildApi({
    store,
    now: () => clock.now(),
    liveCalls: {
      count: 0,
      async command(callId, command) {
        commands.push({ callId, command });
        return answer(callId, command);
      },
    },
    ready: async () => ({ ready: true, checks: { database: await store.writable() }, problems: [], degraded: [] }),
    metrics: new Registry(),
    allowPrivateTargets: false,
    recordingsFolder: path.join(dir, 'recordings'),
    onTrunksChanged: () => {
      trunkChanges += 1;
    },
    ...options,
  });
  const description = () => {
    read ??= Promise.resolve(app.inject('/openapi.json')).then(({ body }) => new ApiDescription(JSON.parse(body)));
    return read;
  };
  return {
    app,
    store,
    description,
    file,
    clock,
    a,
    b,
    commands,
    answerCommands: (how) => {
      answer = how;
    },
    trunkChanges: () => trunkChanges,
    async rows(sql) {
      if (onPostgres) return query(await databaseOf(file), sql);
      const database = new (loadDriver())(file, { readonly: true });
      try {
        return database.prepare(sql).all() as Record<string, unknown>[];
      } finally {
        database.close();
      }
    },
    async write(sql) {
      if (onPostgres) {
        await query(await databaseOf(file), sql);
        return;
      }
      const database = new (loadDriver())(file);
      database.exec(sql);
      database.close();
    },
    async request(method, url, { key = a.key, body, headers = {}, payload, remoteAddress } = {}) {
      const response = await app.inject({
        method: method as 'GET',
        url,
        remoteAddress,
        headers: {
          ...(key !== null && { authorization: `Bearer ${key}` }),
          ...(payload !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        payload: payload ?? (body as object | undefined),
      });
      const described = await description();
      const json = String(response.headers['content-type'] ?? '').startsWith('application/json');
      const answer = {
        status: response.statusCode,
        headers: response.headers,
        body: json && response.body !== '' ? JSON.parse(response.body) : undefined,
        text: response.body,
      };
      described.expectDescribed(method, url, answer);
      return answer;
    },
    async addKey({ organizationId, role = 'owner', mode = 'live', limited = false }) {
      const user = await store.organizations.createUser({ name: role });
      await store.organizations.addMember(organizationId, user.id, role);
      const limitedTo = limited ? organizationId : null;
      return (await store.apiKeys.create({ userId: user.id, organizationId: limitedTo, mode, name: role })).key;
    },
    async close() {
      await app.close();
      await store.close();
      rmSync(dir, { recursive: true });
    },
  };
}
