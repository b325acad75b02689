import { randomBytes } from 'node:crypto';
import { uuidv7 } from 'uuidv7';
import type { Clock } from '../database/clock.js';
import type { Database, Reads, Transaction } from '../database/database.js';
import { StoreError } from '../database/errors.js';
import type { EndpointRow } from '../database/tables.js';
import type { Page, Scope, Slice } from '../tenants/scope.js';
import { keepSecrets, maskSecrets, type StoredProviderConfig } from '../tenants/secrets.js';
import type { Vault } from '../tenants/vault.js';
import type { RouteRule } from './route-rule.js';

/** A routing target. From every method but `getForCall` its secrets are masked. */
export interface Endpoint {
  id: string;
  organizationId: string;
  name: string;
  type: 'agent' | 'webhook';
  target: string;
  /** null for webhooks. */
  provider: string | null;
  providerConfig: StoredProviderConfig;
  record: boolean;
  status: 'active' | 'inactive';
  health: 'unknown' | 'healthy' | 'degraded' | 'down';
  fallbackEndpointId: string | null;
  /** When its receiver answered an event with 410; no events are sent until the endpoint is changed. */
  eventsDisabledAt: Date | null;
  createdAt: Date;
  updatedAt: Date;
}

/** With secrets in clear, for the call itself. */
export interface EndpointForCall extends Endpoint {
  webhookSecret: string | null;
  /** The signing secrets: the current one, and for a day after a rotation the previous one. Empty for agents. */
  signingSecrets: string[];
}

export interface NewEndpoint {
  name: string;
  type: 'agent' | 'webhook';
  target: string;
  provider: string | null;
  providerConfig: StoredProviderConfig;
  record?: boolean;
  status?: 'active' | 'inactive';
  fallbackEndpointId?: string | null;
}

export interface EndpointChange {
  name?: string;
  target?: string;
  /** The complete new configuration; a mask keeps the stored secret. */
  providerConfig?: StoredProviderConfig;
  record?: boolean;
  status?: 'active' | 'inactive';
  fallbackEndpointId?: string | null;
}

/** How long requests are also signed with the previous secret. */
const rotationMs = 86_400_000;

export class Endpoints {
  constructor(
    private readonly database: Database,
    private readonly clock: Clock,
    private readonly vault: Vault,
  ) {}

  async list(scope: Scope, filter: { type?: string; status?: string }, slice: Slice): Promise<Page<Endpoint>> {
    const filtered = this.within(scope)
      .$if(filter.type !== undefined, (query) => query.where('type', '=', filter.type as EndpointRow['type']))
      .$if(filter.status !== undefined, (query) => query.where('status', '=', filter.status as EndpointRow['status']));
    const rows = await this.database.all(
      filtered.selectAll().orderBy('created_at', 'desc').orderBy('id', 'desc').limit(slice.limit).offset(slice.offset),
    );
    const counted = await this.database.get(filtered.select((is) => is.fn.countAll<number>().as('total')));
    return { data: rows.map((row) => toEndpoint(this.vault.open('endpoints', row))), total: counted?.total ?? 0 };
  }

  async get(scope: Scope, id: string, reads: Reads = this.database): Promise<Endpoint | undefined> {
    const row = await this.row(scope, id, reads);
    return row && toEndpoint(row);
  }

  /** Finds by id without a scope, from memory, for a number or call whose scope was checked. Secrets are in clear. */
  getForCall(id: string): EndpointForCall | undefined {
    const [found] = this.database.remembered('endpoints', { id });
    if (found === undefined) return undefined;
    const row = this.vault.open('endpoints', found);
    const { webhook_secret: secret, previous_secret: previous, previous_secret_until: until } = row;
    const before = previous !== null && (until ?? 0) > this.clock.now() ? [previous] : [];
    const signingSecrets = secret === null ? [] : [secret, ...before];
    return { ...toEndpoint(row), providerConfig: parseConfig(row), webhookSecret: secret, signingSecrets };
  }

  /** Fills in, from configurations that the migration could not decrypt, which endpoints have an `events_url`. */
  async completeEventsUrls(): Promise<void> {
    const incomplete = (reads: Reads) =>
      reads.all(reads.sql.selectFrom('endpoints').selectAll().where('has_events_url', 'is', null));
    if ((await incomplete(this.database)).length === 0) return;
    await this.database.transaction(async (transaction) => {
      for (const row of await incomplete(transaction)) {
        const set = { has_events_url: hasEventsUrl(parseConfig(this.vault.open('endpoints', row))) };
        await transaction.run(transaction.sql.updateTable('endpoints').set(set).where('id', '=', row.id));
      }
    });
  }

  /** Whether any organization has a webhook endpoint. */
  async hasWebhooks(): Promise<boolean> {
    const one = this.database.sql.selectFrom('endpoints').select('id').where('type', '=', 'webhook').limit(1);
    return (await this.database.get(one)) !== undefined;
  }

  /** `webhookSecret` is shown here once. Throws `StoreError` `unknown_endpoint` for a foreign fallback. */
  create(
    scope: Scope,
    endpoint: NewEndpoint,
    within?: Transaction,
  ): Promise<{ record: Endpoint; webhookSecret: string | null }> {
    return this.database.transaction(async (transaction) => {
      await transaction.changedSettings();
      await this.requireOwn(scope, endpoint.fallbackEndpointId, 'fallback_endpoint_id', transaction);
      const now = this.clock.now();
      const row: EndpointRow = {
        id: uuidv7(),
        organization_id: scope.organizationId,
        mode: scope.mode,
        name: endpoint.name,
        type: endpoint.type,
        target: endpoint.target,
        provider: endpoint.provider,
        provider_config: JSON.stringify(endpoint.providerConfig),
        record: endpoint.record ? 1 : 0,
        status: endpoint.status ?? 'active',
        health: 'unknown',
        fallback_endpoint_id: endpoint.fallbackEndpointId ?? null,
        webhook_secret: endpoint.type === 'webhook' ? newSecret() : null,
        previous_secret: null,
        previous_secret_until: null,
        events_disabled_at: null,
        has_events_url: hasEventsUrl(endpoint.providerConfig),
        created_at: now,
        updated_at: now,
      };
      await transaction.run(transaction.sql.insertInto('endpoints').values(this.vault.seal('endpoints', row)));
      return { record: toEndpoint(row), webhookSecret: row.webhook_secret };
    }, within);
  }

  /** `asked`: the change, or what makes it of the endpoint; what that throws is thrown. */
  update(
    scope: Scope,
    id: string,
    asked: EndpointChange | ((current: Endpoint) => EndpointChange),
  ): Promise<Endpoint | undefined> {
    return this.database.transaction(async (transaction) => {
      await transaction.changedSettings();
      const row = await this.row(scope, id, transaction);
      if (!row) return undefined;
      const change = typeof asked === 'function' ? asked(toEndpoint(row)) : asked;
      await this.requireOwn(scope, change.fallbackEndpointId, 'fallback_endpoint_id', transaction);
      const config = change.providerConfig && keepSecrets(change.providerConfig, parseConfig(row));
      const set: Partial<EndpointRow> = {
        name: change.name,
        target: change.target,
        provider_config: config && JSON.stringify(config),
        has_events_url: config && hasEventsUrl(config),
        record: change.record === undefined ? undefined : change.record ? 1 : 0,
        status: change.status,
        fallback_endpoint_id: change.fallbackEndpointId,
        events_disabled_at: null,
        updated_at: this.clock.now(),
      };
      await transaction.run(
        transaction.sql.updateTable('endpoints').set(this.vault.seal('endpoints', set)).where('id', '=', id),
      );
      const changed = await this.row(scope, id, transaction);
      return changed && toEndpoint(changed);
    });
  }

  /** A new secret for a webhook; the old one signs beside it for a day. undefined: no such webhook endpoint. */
  rotateSecret(scope: Scope, id: string): Promise<{ record: Endpoint; webhookSecret: string } | undefined> {
    return this.database.transaction(async (transaction) => {
      await transaction.changedSettings();
      const row = await this.row(scope, id, transaction);
      if (row?.type !== 'webhook') return undefined;
      const now = this.clock.now();
      const webhookSecret = newSecret();
      const set = {
        webhook_secret: webhookSecret,
        previous_secret: row.webhook_secret,
        previous_secret_until: now + rotationMs,
        updated_at: now,
      };
      await transaction.run(
        transaction.sql.updateTable('endpoints').set(this.vault.seal('endpoints', set)).where('id', '=', id),
      );
      return { record: toEndpoint({ ...row, ...set }), webhookSecret };
    });
  }

  /** Stops events to a receiver that is permanently gone, until the endpoint is changed. */
  async disableEvents(id: string): Promise<void> {
    await this.set(id, { events_disabled_at: this.clock.now() });
  }

  /** Sets the health observed in calls; `updated_at` is not changed. */
  async setHealth(id: string, health: EndpointRow['health']): Promise<void> {
    await this.set(id, { health });
  }

  private async set(id: string, set: Partial<EndpointRow>): Promise<void> {
    await this.database.transaction(async (transaction) => {
      await transaction.changedSettings();
      await transaction.run(transaction.sql.updateTable('endpoints').set(set).where('id', '=', id));
    });
  }

  /** Detaches numbers and other endpoints in the same transaction; past calls keep the id. False if there is no such endpoint. */
  delete(scope: Scope, id: string): Promise<boolean> {
    const { sql } = this.database;
    return this.database.transaction(async (transaction) => {
      await transaction.changedSettings();
      if (!(await this.row(scope, id, transaction))) return false;
      const now = this.clock.now();
      const own = sql.updateTable('phone_numbers').where('organization_id', '=', scope.organizationId);
      await transaction.run(own.set({ endpoint_id: null, updated_at: now }).where('endpoint_id', '=', id));
      await transaction.run(
        own.set({ fallback_endpoint_id: null, updated_at: now }).where('fallback_endpoint_id', '=', id),
      );
      await transaction.run(
        sql
          .updateTable('endpoints')
          .set({ fallback_endpoint_id: null, updated_at: now })
          .where('fallback_endpoint_id', '=', id),
      );
      await this.clearRoutes(scope, id, now, transaction);
      await transaction.run(sql.deleteFrom('endpoints').where('id', '=', id));
      return true;
    });
  }

  /** Throws `StoreError` `unknown_endpoint` unless `id` is absent, null, or an endpoint of this scope. */
  async requireOwn(scope: Scope, id: string | null | undefined, field: string, reads: Reads): Promise<void> {
    if (id === null || id === undefined || (await this.row(scope, id, reads))) return;
    throw new StoreError('unknown_endpoint', `The endpoint ${id} does not exist`, { field });
  }

  private async clearRoutes(scope: Scope, id: string, now: number, transaction: Transaction): Promise<void> {
    const { sql } = transaction;
    const numbers = await transaction.all(
      sql
        .selectFrom('phone_numbers')
        .select(['id', 'routes'])
        .where('organization_id', '=', scope.organizationId)
        .where('routes', 'like', `%${id}%`),
    );
    for (const number of numbers) {
      const kept = (JSON.parse(number.routes) as RouteRule[]).filter((rule) => rule.endpoint_id !== id);
      await transaction.run(
        sql
          .updateTable('phone_numbers')
          .set({ routes: JSON.stringify(kept), updated_at: now })
          .where('id', '=', number.id),
      );
    }
  }

  private within(scope: Scope) {
    return this.database.sql
      .selectFrom('endpoints')
      .where('organization_id', '=', scope.organizationId)
      .where('mode', '=', scope.mode);
  }

  private async row(scope: Scope, id: string, reads: Reads = this.database): Promise<EndpointRow | undefined> {
    const row = await reads.get(this.within(scope).selectAll().where('id', '=', id));
    return row && this.vault.open('endpoints', row);
  }
}

function newSecret(): string {
  return `whsec_${randomBytes(24).toString('base64')}`;
}

function hasEventsUrl(config: StoredProviderConfig): 0 | 1 {
  return typeof config.events_url === 'string' ? 1 : 0;
}

function parseConfig(row: EndpointRow): StoredProviderConfig {
  return JSON.parse(row.provider_config) as StoredProviderConfig;
}

function toEndpoint(row: EndpointRow): Endpoint {
  return {
    id: row.id,
    organizationId: row.organization_id,
    name: row.name,
    type: row.type,
    target: row.target,
    provider: row.provider,
    providerConfig: maskSecrets(parseConfig(row)),
    record: row.record === 1,
    status: row.status,
    health: row.health,
    fallbackEndpointId: row.fallback_endpoint_id,
    eventsDisabledAt: row.events_disabled_at === null ? null : new Date(row.events_disabled_at),
    createdAt: new Date(row.created_at),
    updatedAt: new Date(row.updated_at),
  };
}
