import { type Expression, type ExpressionBuilder, sql as raw, type SqlBool } from 'kysely';
import type { CallStatus } from '../../sip/cause.js';
import { type Call, type CallDetail, type TraceEntry, toCall, toCallDetail } from './call-records.js';
import type { Database } from './database.js';
import type { Page, Scope, Slice } from './scope.js';
import type { Direction, Tables } from './tables.js';

export interface CallFilter {
  status?: CallStatus;
  direction?: Direction;
  phoneNumberId?: string;
  /** UTC days of `created_at`, inclusive, counted from 1970-01-01. */
  firstDay?: number;
  lastDay?: number;
}

export type StatusCounts = Record<CallStatus, number>;

export const dayMs = 86_400_000;

/** Reading call records, always within a scope. `flush` brings what is still in memory to disk first. */
export class CallReads {
  constructor(
    private readonly database: Database,
    private readonly flush: () => void,
  ) {}

  /** Newest first. */
  list(scope: Scope, filter: CallFilter, slice: Slice): Page<Call> {
    const where = inScope(scope, filter);
    const { sql } = this.database;
    const counted = this.database.get(
      sql
        .selectFrom('calls')
        .select((is) => is.fn.countAll<number>().as('total'))
        .where(where),
    );
    const total = counted?.total ?? 0;
    if (slice.offset >= total) return { data: [], total };
    const rows = this.database.all(
      sql
        .selectFrom('calls')
        .selectAll()
        .where(where)
        .orderBy('created_at', 'desc')
        .orderBy('id', 'desc')
        .limit(slice.limit)
        .offset(slice.offset),
    );
    return { data: rows.map(toCall), total };
  }

  stats(scope: Scope, filter: CallFilter): StatusCounts {
    const counts = noCalls();
    const rows = this.database.all(
      this.database.sql
        .selectFrom('calls')
        .select((is) => ['status', is.fn.countAll<number>().as('count')])
        .where(inScope(scope, filter))
        .groupBy('status'),
    );
    for (const row of rows) counts[row.status] = row.count;
    return counts;
  }

  /** One entry for each day from the first to the last, ascending, also for days without calls. */
  trends(
    scope: Scope,
    filter: CallFilter & { firstDay: number; lastDay: number },
  ): ({ date: string } & StatusCounts)[] {
    const rows = this.database.all(
      this.database.sql
        .selectFrom('calls')
        .select((is) => [
          raw<number>`created_at / ${raw.lit(dayMs)}`.as('day'),
          'status',
          is.fn.countAll<number>().as('count'),
        ])
        .where(inScope(scope, filter))
        .groupBy(['day', 'status']),
    );
    const days = new Map<number, StatusCounts>();
    for (let day = filter.firstDay; day <= filter.lastDay; day += 1) days.set(day, noCalls());
    for (const row of rows) {
      const counts = days.get(row.day);
      if (counts) counts[row.status] = row.count;
    }
    return [...days].map(([day, counts]) => ({ date: new Date(day * dayMs).toISOString().slice(0, 10), ...counts }));
  }

  get(scope: Scope, callId: string): Call | undefined {
    this.flush();
    const row = this.database.get(this.one(scope, callId).selectAll());
    return row && toCall(row);
  }

  /** The whole record, its events in their order. */
  detail(scope: Scope, callId: string): CallDetail | undefined {
    this.flush();
    const row = this.database.get(this.one(scope, callId).selectAll());
    if (!row) return undefined;
    const events = this.database.all(
      this.database.sql.selectFrom('call_events').selectAll().where('call_id', '=', row.id).orderBy('sequence'),
    );
    return toCallDetail(row, events);
  }

  /** The SIP messages kept at the end of the call, oldest first; empty while it runs. undefined: no such call. */
  trace(scope: Scope, callId: string): TraceEntry[] | undefined {
    this.flush();
    if (!this.database.get(this.one(scope, callId).select('id'))) return undefined;
    const row = this.database.get(
      this.database.sql.selectFrom('call_traces').select('trace').where('call_id', '=', callId),
    );
    return row ? (JSON.parse(row.trace) as TraceEntry[]) : [];
  }

  /** Removes the record with its events and trace. A running call stays. */
  delete(scope: Scope, callId: string): 'deleted' | 'in_progress' | 'not_found' {
    this.flush();
    return this.database.transaction(() => {
      const row = this.database.get(this.one(scope, callId).select('status'));
      if (!row) return 'not_found';
      if (row.status === 'in_progress') return 'in_progress';
      this.database.run(this.database.sql.deleteFrom('calls').where('id', '=', callId));
      return 'deleted';
    });
  }

  private one(scope: Scope, callId: string) {
    return this.database.sql
      .selectFrom('calls')
      .where('id', '=', callId)
      .where('organization_id', '=', scope.organizationId)
      .where('mode', '=', scope.mode);
  }
}

function inScope(scope: Scope, filter: CallFilter) {
  return (is: ExpressionBuilder<Tables, 'calls'>) => {
    const conditions: Expression<SqlBool>[] = [
      is('organization_id', '=', scope.organizationId),
      is('mode', '=', scope.mode),
    ];
    if (filter.status) conditions.push(is('status', '=', filter.status));
    if (filter.direction) conditions.push(is('direction', '=', filter.direction));
    if (filter.phoneNumberId) conditions.push(is('phone_number_id', '=', filter.phoneNumberId));
    if (filter.firstDay !== undefined) conditions.push(is('created_at', '>=', filter.firstDay * dayMs));
    if (filter.lastDay !== undefined) conditions.push(is('created_at', '<', (filter.lastDay + 1) * dayMs));
    return is.and(conditions);
  };
}

function noCalls(): StatusCounts {
  return { completed: 0, failed: 0, in_progress: 0, no_answer: 0, busy: 0 };
}
