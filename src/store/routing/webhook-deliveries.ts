import type { Clock } from '../database/clock.js';
import type { Database, Reads, Transaction } from '../database/database.js';
import type { WebhookAttemptRow, WebhookDeliveryRow } from '../database/tables.js';
import type { Page, Scope, Slice } from '../tenants/scope.js';
import { keepOrder } from './outbox.js';

/** Of an endpoint that is deleted; a few milliseconds. */
const forgottenAtOnce = 200;

const first = "status = 'pending' and waits = 0";
/** From endpoint to endpoint through the index, and not through all that is pending. */
export const endpointsWithDue = `with recursive waiting (id) as (
    select min(endpoint_id) from webhook_deliveries where ${first}
    union all
    select (select min(endpoint_id) from webhook_deliveries where ${first} and endpoint_id > waiting.id) from waiting where id is not null
  ) select id from waiting
  where id is not null and exists (select 1 from webhook_deliveries where ${first} and endpoint_id = waiting.id and next_attempt_at <= ?)`;
export const dueOfEndpoint = `select d.id, d.organization_id, d.endpoint_id, d.call_id, d.sequence, d.event_type,
    (select event_data from call_events e where e.call_id = d.call_id and e.sequence = d.sequence) as event_data, d.created_at, d.attempts,
    (select coalesce(max(number), 0) + 1 from webhook_attempts where delivery_id = d.id) as attempt_number
  from (select * from webhook_deliveries where ${first} and endpoint_id = ? and next_attempt_at <= ? order by next_attempt_at, id limit ?) d
  order by d.next_attempt_at, d.id`;

/** One event for one webhook endpoint, and the status of its delivery. */
export interface WebhookDelivery {
  id: string;
  endpointId: string;
  callId: string;
  sequence: number;
  eventType: string;
  status: WebhookDeliveryRow['status'];
  attempts: { at: Date; durationMs: number; httpStatus: number | null; error: string | null }[];
  /** null unless pending. */
  nextAttemptAt: Date | null;
  createdAt: Date;
  deliveredAt: Date | null;
}

/** A delivery that this process has claimed for sending. */
export interface ClaimedDelivery {
  id: string;
  organizationId: string;
  endpointId: string;
  callId: string;
  sequence: number;
  eventType: string;
  /** JSON, as the event was written. */
  eventData: string;
  createdAt: Date;
  /** The attempts before this one, since it was last retried by hand. */
  attempts: number;
  /** The number of this attempt among all of the delivery. */
  attemptNumber: number;
}

export type AttemptResult = { durationMs: number; httpStatus: number | null; error: string | null };

/**
 * The outbox of events. It is filled as events are written (`outbox.ts`); here deliveries are taken out, each call's in
 * its order, and their attempts recorded.
 */
export class WebhookDeliveries {
  constructor(
    private readonly database: Database,
    private readonly clock: Clock,
  ) {}

  /** Endpoints with something due. */
  async endpointsDue(): Promise<string[]> {
    const rows = await this.database.rows<{ id: string }>(endpointsWithDue, this.clock.now());
    return rows.map((row) => row.id);
  }

  /**
   * Takes up to `limit` due deliveries of an endpoint: of each call only the first that is pending. They are ours for `leaseMs`; then,
   * should this process have died, another attempt is due.
   */
  claim(endpointId: string, limit: number, leaseMs: number): Promise<ClaimedDelivery[]> {
    return this.database.transaction(async (transaction) => {
      const now = this.clock.now();
      const rows = await transaction.rows<WebhookDeliveryRow & { event_data: string; attempt_number: number }>(
        dueOfEndpoint,
        ...[endpointId, now, limit],
      );
      for (const row of rows)
        await transaction.write(
          'update webhook_deliveries set next_attempt_at = ? where id = ?',
          ...[now + leaseMs, row.id],
        );
      return rows.map((row) => ({
        id: row.id,
        organizationId: row.organization_id,
        endpointId: row.endpoint_id,
        callId: row.call_id,
        sequence: row.sequence,
        eventType: row.event_type,
        eventData: row.event_data,
        createdAt: new Date(row.created_at),
        attempts: row.attempts,
        attemptNumber: row.attempt_number,
      }));
    });
  }

  /**
   * Records an attempt and its outcome: delivered, `failed`, or a retry in `retryInMs`. May be repeated after `unavailable`: an attempt that
   * is recorded already is not recorded again.
   */
  async record(
    { id, attemptNumber }: Pick<ClaimedDelivery, 'id' | 'attemptNumber'>,
    result: AttemptResult,
    next: 'delivered' | 'failed' | { retryInMs: number },
  ): Promise<void> {
    const { sql } = this.database;
    await this.database.transaction(async (transaction) => {
      const now = this.clock.now();
      const last = await transaction.get(
        sql
          .selectFrom('webhook_attempts')
          .select((is) => is.fn.max('number').as('number'))
          .where('delivery_id', '=', id),
      );
      if ((last?.number ?? 0) >= attemptNumber) return;
      const changed = await transaction.run(
        sql
          .updateTable('webhook_deliveries')
          .set((is) => ({
            attempts: is('attempts', '+', 1),
            status: typeof next === 'string' ? next : 'pending',
            next_attempt_at: typeof next === 'string' ? now : now + next.retryInMs,
            delivered_at: next === 'delivered' ? now : null,
          }))
          .where('id', '=', id),
      );
      if (changed === 0) return; // deleted with its call or endpoint
      if (typeof next === 'string') await this.keepOrderOf(transaction, id);
      const attempt: WebhookAttemptRow = {
        delivery_id: id,
        number: attemptNumber,
        at: now - result.durationMs,
        duration_ms: result.durationMs,
        http_status: result.httpStatus,
        error: result.error,
      };
      await transaction.run(sql.insertInto('webhook_attempts').values(attempt));
    });
  }

  /** Marks the pending deliveries of an endpoint as failed; they can be retried individually. */
  async failPending(endpointId: string): Promise<void> {
    const { sql } = this.database;
    await this.database.run(
      sql
        .updateTable('webhook_deliveries')
        .set({ status: 'failed' })
        .where('status', '=', 'pending')
        .where('endpoint_id', '=', endpointId),
    );
  }

  async list(
    scope: Scope,
    filter: { status?: string; endpointId?: string; callId?: string },
    slice: Slice,
  ): Promise<Page<WebhookDelivery>> {
    const filtered = this.within(scope)
      .$if(filter.status !== undefined, (query) =>
        query.where('status', '=', filter.status as WebhookDeliveryRow['status']),
      )
      .$if(filter.endpointId !== undefined, (query) => query.where('endpoint_id', '=', filter.endpointId ?? ''))
      .$if(filter.callId !== undefined, (query) => query.where('call_id', '=', filter.callId ?? ''));
    const rows = await this.database.all(
      filtered.selectAll().orderBy('created_at', 'desc').orderBy('id', 'desc').limit(slice.limit).offset(slice.offset),
    );
    const counted = await this.database.get(filtered.select((is) => is.fn.countAll<number>().as('total')));
    const data: WebhookDelivery[] = [];
    for (const row of rows) data.push(await this.toDelivery(row));
    return { data, total: counted?.total ?? 0 };
  }

  /** Due now, with all its attempts before it; also when it was delivered. undefined: no such delivery. */
  retry(scope: Scope, id: string): Promise<WebhookDelivery | undefined> {
    return this.database.transaction(async (transaction) => {
      const found = await transaction.get(this.within(scope).selectAll().where('id', '=', id));
      if (found === undefined) return undefined;
      const set = { status: 'pending', attempts: 0, next_attempt_at: this.clock.now(), delivered_at: null } as const;
      await transaction.run(transaction.sql.updateTable('webhook_deliveries').set(set).where('id', '=', id));
      await this.keepOrderOf(transaction, id);
      return this.toDelivery({ ...found, ...set }, transaction);
    });
  }

  /**
   * Forgets the newest deliveries of an endpoint that is about to be deleted, so that the first of a call stays the first: all at once would hold up the thread. Answers whether there may be
   * more.
   */
  async forgetSome(scope: Scope, endpointId: string): Promise<boolean> {
    const some = this.within(scope)
      .select('id')
      .where('endpoint_id', '=', endpointId)
      .orderBy('created_at', 'desc')
      .orderBy('id', 'desc')
      .limit(forgottenAtOnce);
    const query = this.database.sql.deleteFrom('webhook_deliveries').where('id', 'in', some);
    return (await this.database.run(query)) === forgottenAtOnce;
  }

  private async keepOrderOf(transaction: Transaction, id: string): Promise<void> {
    const of = await transaction.row<{ endpoint_id: string; call_id: string }>(
      'select endpoint_id, call_id from webhook_deliveries where id = ?',
      id,
    );
    if (of) await keepOrder(transaction, of.endpoint_id, of.call_id);
  }

  private within(scope: Scope) {
    return this.database.sql
      .selectFrom('webhook_deliveries')
      .where('organization_id', '=', scope.organizationId)
      .where('mode', '=', scope.mode);
  }

  private async toDelivery(row: WebhookDeliveryRow, reads: Reads = this.database): Promise<WebhookDelivery> {
    const attempts = await reads.all(
      this.database.sql
        .selectFrom('webhook_attempts')
        .selectAll()
        .where('delivery_id', '=', row.id)
        .orderBy('number', 'asc'),
    );
    return {
      id: row.id,
      endpointId: row.endpoint_id,
      callId: row.call_id,
      sequence: row.sequence,
      eventType: row.event_type,
      status: row.status,
      attempts: attempts.map((attempt) => ({
        at: new Date(attempt.at),
        durationMs: attempt.duration_ms,
        httpStatus: attempt.http_status,
        error: attempt.error,
      })),
      nextAttemptAt: row.status === 'pending' ? new Date(row.next_attempt_at) : null,
      createdAt: new Date(row.created_at),
      deliveredAt: row.delivered_at === null ? null : new Date(row.delivered_at),
    };
  }
}
