/**
 * A second organization beside whatever a test does to the first: with a number, an agent and a call of its own, which no one else may see, touch or
 * add to (I8).
 */
import { request } from 'node:http';
import { loadDriver } from '../../src/store/sqlite/driver.js';
import type { TestApp } from './app.js';

type Row = Record<string, unknown>;

/** Tables whose rows change by being asked. */
const byAsking: ReadonlySet<string> = new Set(['api_keys', 'request_days', 'idempotency_keys']);
let made = 0;

export class OtherTenant {
  /** Events that were delivered to the listeners of this organization. */
  private told = 0;
  private readonly stop: () => void;
  private readonly before: string;
  private readonly sinceMs = Date.now();

  private constructor(
    private readonly app: TestApp,
    private readonly organizationId: string,
    private readonly key: string,
  ) {
    const stops = (['live', 'test'] as const).map((mode) =>
      app.store.calls.feed.subscribe({ organizationId, mode }, () => this.told++),
    );
    this.stop = () => {
      for (const each of stops) each();
    };
    this.before = this.rows();
  }

  static async open(app: TestApp): Promise<OtherTenant> {
    const { store } = app;
    const { id: organizationId } = await store.organizations.create({ name: 'Other', tier: 'enterprise' });
    const userId = (await store.organizations.createUser({ name: 'Other' })).id;
    await store.organizations.addMember(organizationId, userId, 'owner');
    const scope = { organizationId, mode: 'live' as const };
    const agent = { type: 'agent' as const, target: 'ws://127.0.0.1:9', provider: 'custom', providerConfig: {} };
    const { record } = await store.endpoints.create(scope, { name: 'Other', ...agent });
    const number = `+1303555${String(made++).padStart(4, '0')}`;
    const { id: phoneNumberId } = await store.phoneNumbers.create(scope, { number, endpointId: record.id });
    const dayAgoMs = Date.now() - 86_400_000;
    const callId = store.calls.begin({
      ...{ ...scope, direction: 'inbound', fromNumber: '+13035559999', toNumber: number },
      ...{ phoneNumberId, endpointId: record.id, createdAt: new Date(dayAgoMs) },
    });
    store.calls.finish(callId, {
      ...{ status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 1 },
      completedAt: new Date(dayAgoMs + 1000),
    });
    await store.calls.flush();
    const { key } = await store.apiKeys.create({ userId, organizationId, mode: 'live', name: 'Other' });
    return new OtherTenant(app, organizationId, key);
  }

  /** What it saw of the others, or lost to them; each in one line. */
  async problems(): Promise<string[]> {
    this.stop();
    const broken: string[] = [];
    if (this.told > 0) broken.push(`I8 another organization was told ${this.told} events`);
    if (this.rows() !== this.before) broken.push('I8 rows of another organization have changed');
    const scope = { organizationId: this.app.first?.organizationId ?? '', mode: 'live' as const };
    const { data } = await this.app.store.records.list(scope, {}, { limit: 3, offset: 0 });
    for (const call of data.filter((each) => each.createdAt.getTime() >= this.sinceMs))
      for (const path of ['', '/quality', '/trace']) {
        const { status } = await this.get(`/v1/calls/${call.id}${path}`);
        if (status !== 404) broken.push(`I8 another organization gets ${status} for a call's ${path || 'record'}`);
      }
    const { body } = await this.get('/v1/calls?limit=100');
    const listed = (JSON.parse(body) as { data: unknown[] }).data?.length;
    if (listed !== 1) broken.push(`I8 another organization sees ${listed} calls instead of its own one`);
    return broken;
  }

  /** Every row that belongs to the organization, whatever the table. */
  private rows(): string {
    const Driver = loadDriver();
    const database = new Driver(this.app.databaseFile, { readonly: true, timeout: 5000 });
    try {
      const all = (sql: string, ...values: unknown[]) => database.prepare(sql).all(...values) as Row[];
      const found: Row[] = [];
      for (const { name } of all("select name from sqlite_master where type = 'table'") as { name: string }[]) {
        const columns = new Set(all(`pragma table_info(${name})`).map((column) => column.name));
        const own = columns.has('organization_id')
          ? 'organization_id = ?'
          : columns.has('call_id')
            ? 'call_id in (select id from calls where organization_id = ?)'
            : null;
        if (own === null || byAsking.has(name)) continue;
        found.push(...all(`select '${name}' as is_in, * from ${name} where ${own}`, this.organizationId));
      }
      return JSON.stringify(found.map((row) => JSON.stringify(row)).sort());
    } finally {
      database.close();
    }
  }

  private get(path: string): Promise<{ status: number; body: string }> {
    return new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${this.key}` };
      request(`${this.app.httpUrl}${path}`, { agent: false, headers }, (response) => {
        let body = '';
        response.on('data', (chunk: Buffer) => {
          body += chunk.toString();
        });
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body }));
      })
        .on('error', reject)
        .end();
    });
  }
}
