import { sql as column } from 'kysely';
import type { Database, Reads } from '../database/database.js';
import type { SqlDialect } from '../database/dialect.js';
import { boundOf } from '../database/ids.js';
import type { CallEventRow, CallRow } from '../database/tables.js';
import { CountChanges } from '../journal/count-changes.js';
import { countRunning } from '../journal/running-calls.js';
import type { Page, Scope, Slice } from '../tenants/scope.js';
import {
  CallCounts,
  type CallFilter,
  type DayCounts,
  dayMs,
  hourMs,
  hoursPerDay,
  type StatusCounts,
} from './call-counts.js';
import {
  type CallDetail,
  type CallEvent,
  type CallSummary,
  type CallText,
  type CallTextTuple,
  callTextColumns,
  type QualitySample,
  type TraceEntry,
  timeSeparator,
  toCall,
  toCallEvent,
  toCallRecord,
  toCallText,
} from './call-records.js';
import { isOfScope, toPowerOfTwo } from './calls-by-id.js';
import { deleteCalls } from './delete-calls.js';

/** The maximum number of events that a reconnected stream replays. */
const replayedAtMost = 10_000;

/** Reads call records within a scope. `flush` writes data that is still in memory to disk first. */
export class CallReads {
  private readonly recordWithEvents: string;

  constructor(
    private readonly database: Database,
    private readonly flush: () => Promise<unknown>,
  ) {
    this.recordWithEvents = recordWithEvents(database.dialect);
  }

  /**
   * Newest first. Counters give the number of calls and the hour in which a page begins, so that a late page costs no more than the first. A
   * call that begins meanwhile may be on the page and not yet in the total.
   */
  async list(scope: Scope, filter: CallFilter, slice: Slice): Promise<Page<CallSummary>> {
    await this.flush();
    const counts = new CallCounts(this.database);
    const days = await counts.days(scope, filter);
    const total = days.reduce((all, [, calls]) => all + calls, 0);
    const place = slice.limit > 0 ? placeOf(days, slice.offset) : undefined;
    if (!place) return { data: [], total };
    const [day] = place.bucket;
    const lastDay = lastOf(days, place, slice.limit);
    const asked = { limit: slice.limit, calls: total - slice.offset };
    const answer = async (hours: HourSpan[], skip: number) => {
      const rows = await rowsOf(this.database, scope, filter, { ...asked, hours, skip });
      return { data: rows.map(toCall), total };
    };
    // An index has the calls of one filter in order, so the query only needs to know where it begins.
    const isInOrder = filterCount(filter) <= 1;
    const from = lastDay * hoursPerDay;
    if (isInOrder && place.skip === 0) return answer([{ from, to: (day + 1) * hoursPerDay - 1 }], 0);
    const hours = await counts.hours(scope, filter, { firstDay: isInOrder ? day : lastDay, lastDay: day });
    const begin = placeOf(hours, place.skip);
    if (!begin) return { data: [], total };
    const [hour] = begin.bucket;
    if (isInOrder) return answer([{ from, to: hour }], begin.skip);
    // With several filters, only hours with such calls are read.
    const matching = hours.filter(([at]) => at <= hour && at >= lastOf(hours, begin, slice.limit));
    return answer(
      matching.map(([at]) => ({ from: at, to: at })),
      begin.skip,
    );
  }

  async stats(scope: Scope, filter: CallFilter): Promise<StatusCounts> {
    await this.flush();
    return new CallCounts(this.database).total(scope, filter);
  }

  /** One entry for each day from the first to the last, ascending, also for days without calls. */
  async trends(scope: Scope, filter: CallFilter & { firstDay: number; lastDay: number }): Promise<DayCounts[]> {
    await this.flush();
    return new CallCounts(this.database).byDay(scope, filter);
  }

  /** Calls in progress. */
  async running(scope: Scope, reads: Reads = this.database): Promise<number> {
    if (reads === this.database) await this.flush();
    return countRunning(reads, scope);
  }

  async get(scope: Scope, callId: string, reads: Reads = this.database): Promise<CallSummary | undefined> {
    if (reads === this.database) await this.flush();
    const row = await this.row(scope, callId, reads);
    return row && toCall(row);
  }

  /** The whole record, its events in their order. */
  async detail(scope: Scope, callId: string): Promise<CallDetail | undefined> {
    await this.flush();
    const row = await this.row(scope, callId);
    if (!row) return undefined;
    const events = await this.database.rows<CallEventRow>(
      'select * from call_events where call_id = ? order by sequence',
      row.id,
    );
    return Object.assign(toCallRecord(row), { events: events.map(toCallEvent) });
  }

  /** `detail` in one statement, with JSON columns as text, for callers that only pass them on. */
  async record(scope: Scope, callId: string): Promise<CallText | undefined> {
    await this.flush();
    const [row] = await this.database.tuples<CallTextTuple>(
      this.recordWithEvents,
      ...[callId, scope.organizationId, scope.mode],
    );
    return row && toCallText(row);
  }

  /**
   * Up to `limit` events of the organization's calls after the given one, in order; undefined if there is no such event, or too many events
   * have followed.
   */
  async eventsAfter(scope: Scope, eventId: string, limit: number): Promise<CallEvent[] | undefined> {
    await this.flush();
    return this.database.snapshot(async (reads) => {
      const { sql } = reads;
      const order = column.ref<string | number | null>(`call_events.${reads.dialect.eventOrder}`);
      const known = await reads.get(
        sql
          .selectFrom('call_events')
          .select(order.as('at'))
          .where('call_events.id', '=', eventId)
          .where(isOfScope(sql, scope, 'call_events.call_id')),
      );
      if (!known || known.at === null) return undefined; // written before events had positions
      // Events of all tenants are stored together; limit the number that is scanned.
      const later = sql
        .selectFrom('call_events')
        .selectAll()
        .where(order, '>', known.at)
        .orderBy(order)
        .limit(replayedAtMost + 1);
      const reach = await reads.get(
        sql.selectFrom(later.as('later')).select((is) => is.fn.countAll<number>().as('count')),
      );
      if ((reach?.count ?? 0) > replayedAtMost) return undefined;
      const rows = await reads.all(
        sql
          .selectFrom(later.as('later'))
          .selectAll('later')
          .where(isOfScope(sql, scope, 'later.call_id'))
          .orderBy(column.ref(`later.${reads.dialect.eventOrder}`))
          .limit(limit),
      );
      return rows.map(toCallEvent);
    });
  }

  /** The SIP messages stored at the end of the call, oldest first; empty while it is in progress; undefined if there is no such call. */
  async trace(scope: Scope, callId: string): Promise<TraceEntry[] | undefined> {
    await this.flush();
    if (!(await this.database.get(this.one(scope, callId).select('id')))) return undefined;
    const row = await this.database.get(
      this.database.sql.selectFrom('call_traces').select('trace').where('call_id', '=', callId),
    );
    return row ? (JSON.parse(row.trace) as TraceEntry[]) : [];
  }

  /** The samples of every 5 seconds, stored at the end of the call; undefined if there is no such call. */
  async qualitySamples(scope: Scope, callId: string): Promise<QualitySample[] | undefined> {
    await this.flush();
    if (!(await this.database.get(this.one(scope, callId).select('id')))) return undefined;
    const row = await this.database.get(
      this.database.sql.selectFrom('call_quality').select('samples').where('call_id', '=', callId),
    );
    return row ? (JSON.parse(row.samples) as QualitySample[]) : [];
  }

  /** Removes the record with its events and trace, unless the call is in progress. */
  async delete(scope: Scope, callId: string): Promise<'deleted' | 'in_progress' | 'not_found'> {
    await this.flush();
    return this.database.transaction(async (transaction) => {
      const row = await this.row(scope, callId, transaction);
      if (!row) return 'not_found';
      if (row.status === 'in_progress') return 'in_progress';
      const counts = new CountChanges();
      counts.deleted(row, row.status);
      await deleteCalls(transaction, [callId]);
      await counts.write(transaction);
      return 'deleted';
    });
  }

  private row(scope: Scope, callId: string, reads: Reads = this.database): Promise<CallRow | undefined> {
    return reads.row<CallRow>(
      'select * from calls where id = ? and organization_id = ? and mode = ?',
      ...[callId, scope.organizationId, scope.mode],
    );
  }

  private one(scope: Scope, callId: string) {
    return this.database.sql
      .selectFrom('calls')
      .where('id', '=', callId)
      .where('organization_id', '=', scope.organizationId)
      .where('mode', '=', scope.mode);
  }
}

/** A day or an hour, and the number of its calls; newest first. */
type Counted = readonly [bucket: number, calls: number];

interface Place {
  at: number;
  bucket: Counted;
  /** The calls of the bucket before this one. */
  skip: number;
}

/** Where the call with so many before it is counted. */
function placeOf(buckets: readonly Counted[], offset: number): Place | undefined {
  let skip = offset;
  for (const [at, bucket] of buckets.entries()) {
    if (skip < bucket[1]) return { at, bucket, skip };
    skip -= bucket[1];
  }
  return undefined;
}

/** The bucket of the last of so many calls from a place on, or the last of all. */
function lastOf(buckets: readonly Counted[], { at, skip }: Place, calls: number): number {
  let left = skip + calls;
  let last = at;
  while (left > (buckets[last]?.[1] ?? 0) && last < buckets.length - 1) left -= buckets[last++]?.[1] ?? 0;
  return buckets[last]?.[0] ?? 0;
}

/** Inclusive. */
interface HourSpan {
  from: number;
  to: number;
}

interface Wanted {
  /** Newest first. */
  hours: readonly HourSpan[];
  /** Calls of these hours that are not wanted. */
  skip: number;
  limit: number;
  /** How many calls the counters know from the first wanted one on. */
  calls: number;
}

/** Calls of these hours, newest first. */
async function rowsOf(reads: Reads, scope: Scope, filter: CallFilter, wanted: Wanted): Promise<CallRow[]> {
  const { callsByMonth } = reads.dialect;
  const rows = await rowsWithin(reads, scope, filter, wanted, callsByMonth);
  // The clock that made the ids was wrong by more than a day: all months have to be read.
  if (callsByMonth && rows.length < Math.min(wanted.limit, wanted.calls))
    return rowsWithin(reads, scope, filter, wanted, false);
  return rows;
}

/** An index finds the ids, so that only their rows are read. `byMonth`: only of the months in which their ids were made. */
function rowsWithin(
  reads: Reads,
  scope: Scope,
  filter: CallFilter,
  { hours, skip, limit }: Wanted,
  byMonth: boolean,
): Promise<CallRow[]> {
  const spans = hours.map(({ from, to }) => [from * hourMs, (to + 1) * hourMs] as const);
  const toMs = Math.max(...spans.map(([, to]) => to));
  const fromMs = Math.min(...spans.map(([from]) => from));
  const months = byMonth ? [boundOf(Math.max(0, fromMs - dayMs)), boundOf(toMs + dayMs)] : [];
  const ofMonths = byMonth ? ' and id >= ? and id < ?' : '';
  const values: unknown[] = [];
  let source = 'calls';
  const conditions = ['organization_id = ?', 'mode = ?'];
  if (spans.length > 1) {
    const each = toPowerOfTwo(spans, [0, 0]);
    values.push(...each.flat(), scope.organizationId, scope.mode);
    const pairs = each.map(() => '(cast(? as bigint), cast(? as bigint))').join(', ');
    source = `(values ${pairs}) as hours cross join calls`;
    conditions.push('created_at >= hours.column1', 'created_at < hours.column2');
  } else {
    values.push(scope.organizationId, scope.mode, fromMs, toMs);
    conditions.push('created_at >= ?', 'created_at < ?');
  }
  const add = (condition: string, value: unknown): void => {
    if (value === undefined) return;
    conditions.push(condition);
    values.push(value);
  };
  add('status = ?', filter.status);
  add('direction = ?', filter.direction);
  add('phone_number_id = ?', filter.phoneNumberId);
  return reads.rows<CallRow>(
    `select ${listed} from calls where id in (
      select id from ${source} where ${conditions.join(' and ')}${ofMonths} order by created_at desc, id desc limit ? offset ?
    ) order by created_at desc, id desc`,
    ...[...values, ...months, limit, skip],
  );
}

/** The columns of a call in a list, without transcripts and turns, which can be long. */
const listed = [
  ...[
    'id',
    'organization_id',
    'mode',
    'direction',
    'from_number',
    'to_number',
    'status',
    'duration_sec',
    'cost_microcents',
  ],
  ...['latency_ms', 'phone_number_id', 'endpoint_id', 'trunk_id', 'sip_call_id', 'recording_url', 'hangup_cause'],
  ...['created_at', 'answered_at', 'completed_at'],
].join(', ');

/** The times of events stand between separators that no JSON contains: the database takes longer to write a date than to find the event. */
function recordWithEvents({ joined, character }: SqlDialect): string {
  const separator = character(timeSeparator.charCodeAt(0));
  const event = `'{"id":"' || id || '","event_type":"' || event_type || '","event_data":' || event_data || ',"sequence":' || sequence
    || ',"created_at":"' || ${separator} || created_at || ${separator} || '"}'`;
  return `select ${callTextColumns.join(', ')}, (
      select ${joined(event)} from (select id, event_type, event_data, sequence, created_at from call_events where call_id = calls.id order by sequence) as ordered
    ) from calls where id = ? and organization_id = ? and mode = ?`;
}

function filterCount({ status, direction, phoneNumberId }: CallFilter): number {
  return [status, direction, phoneNumberId].filter((value) => value !== undefined).length;
}
