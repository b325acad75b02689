/** A second organization of an installation of several nodes, which no one else may see, touch or add to (I8), whatever happens to the nodes. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Store } from '../../src/store/store.js';
import { query } from '../support/postgres-server.js';
import type { Installation, Node } from './installation.js';

/** Tables whose rows change by being asked. */
const byAsking: ReadonlySet<string> = new Set(['api_keys', 'request_days', 'idempotency_keys']);

export class OtherOrganization {
  /** Events that its listener got. */
  private told = 0;
  private before = '';
  private readonly listening = new AbortController();

  private constructor(
    private readonly installation: Installation,
    private readonly organizationId: string,
    private readonly key: string,
  ) {}

  /** With a number, an endpoint and a call of its own, and a listener for its events at one node after the other. */
  static async open(installation: Installation): Promise<OtherOrganization> {
    const store = await Store.open({ url: installation.databaseUrl, nodeName: 'other-organization' });
    try {
      const { id: organizationId } = await store.organizations.create({ name: 'Other', tier: 'enterprise' });
      const userId = (await store.organizations.createUser({ name: 'Other' })).id;
      await store.organizations.addMember(organizationId, userId, 'owner');
      const scope = { organizationId, mode: 'live' as const };
      const agent = { type: 'agent' as const, target: 'ws://127.0.0.1:9', provider: 'custom', providerConfig: {} };
      const { record } = await store.endpoints.create(scope, { name: 'Other', ...agent });
      const number = '+13035550000';
      const { id: phoneNumberId } = await store.phoneNumbers.create(scope, { number, endpointId: record.id });
      const callId = store.calls.begin({
        ...{ ...scope, direction: 'inbound', fromNumber: '+13035559999', toNumber: number },
        ...{ phoneNumberId, endpointId: record.id, createdAt: new Date() },
      });
      store.calls.finish(callId, {
        ...{ status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 0 },
        completedAt: new Date(),
      });
      await store.calls.flush();
      const { key } = await store.apiKeys.create({ userId, organizationId, mode: 'live', name: 'Other' });
      const made = new OtherOrganization(installation, organizationId, key);
      made.before = await made.rows();
      void made.listen();
      return made;
    } finally {
      await store.close();
    }
  }

  /** What it saw of the others, or lost to them; each in one line. `callIds`: of the others. */
  async problems(callIds: readonly string[]): Promise<string[]> {
    this.listening.abort();
    const broken: string[] = [];
    if (this.told > 0) broken.push(`I8 another organization was told ${this.told} events`);
    if ((await this.rows()) !== this.before) broken.push('I8 rows of another organization have changed');
    const { installation, key } = this;
    for (const node of installation.nodes) {
      for (const id of callIds)
        for (const [method, path] of [
          ...(['', '/quality', '/trace'].map((each) => ['GET', each]) as [string, string][]),
          ['POST', '/hangup'] as const,
        ]) {
          const { status } = await installation.api(node, method, `/v1/calls/${id}${path}`, undefined, key);
          if (status !== 404)
            broken.push(`I8 another organization gets ${status} for ${method} of a call's ${path || 'record'}`);
        }
      const { body } = await installation.api(node, 'GET', '/v1/calls?limit=100', undefined, key);
      const listed = (body.data as unknown[] | undefined)?.length;
      if (listed !== 1) broken.push(`I8 another organization sees ${listed} calls instead of its own one`);
    }
    return broken;
  }

  /** Follows its events through one node after the other, until `problems` is asked for. */
  private async listen(): Promise<void> {
    const { signal } = this.listening;
    for (let turn = 0; !signal.aborted; turn++) {
      const { url } = this.installation.nodes[turn % this.installation.nodes.length] as Node;
      try {
        const headers = { authorization: `Bearer ${this.key}` };
        const { body } = await fetch(`${url}/v1/events`, { headers, signal });
        const decoder = new TextDecoder();
        for await (const bytes of body ?? [])
          this.told += [...decoder.decode(bytes as Uint8Array).matchAll(/^data:/gm)].length;
      } catch {
        // the node died, or the test is over
      }
      await sleep(200, undefined, { signal }).catch(() => {}); // real time: the node may be gone
    }
  }

  /** Every row that belongs to the organization, whatever the table. */
  private async rows(): Promise<string> {
    const { databaseUrl } = this.installation;
    const columns = await query(
      databaseUrl,
      `select table_name as name, array_agg(column_name::text) as columns from information_schema.columns
       where table_schema = 'public' and table_name not similar to '%\\_(\\d{4}\\_\\d{2}|other|before)' group by table_name`,
    );
    const found: string[] = [];
    for (const { name, columns: has } of columns as { name: string; columns: string[] }[]) {
      const own = has.includes('organization_id')
        ? `organization_id = '${this.organizationId}'`
        : has.includes('call_id')
          ? `call_id in (select id from calls where organization_id = '${this.organizationId}')`
          : null;
      if (own === null || byAsking.has(name)) continue;
      for (const row of await query(databaseUrl, `select * from ${name} where ${own}`))
        found.push(`${name} ${JSON.stringify(row)}`);
    }
    return found.sort().join('\n');
  }
}
