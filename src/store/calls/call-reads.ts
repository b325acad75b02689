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
   * Newest first. Counters give the number of calls and the hour in which a page begins, so that a late page costs no more than the first.
   */
  async list(scope: Scope, filter: CallFilter, slice: Slice): Promise<Page<CallSummary>> {
    await this.flush();
    return this.database.snapshot(async (reads) => {
      const counts = new CallCounts(reads);
      const days = await counts.days(scope, filter);
      const total = days.reduce((all, [, calls]) => all + calls, 0);
      const rows: CallRow[] = [];
      let skip = slice.offset;
      for (const [position, [day, callsOfDay]] of skip < total ? days.entries() : []) {
        if (rows.length === slice.limit) break;
        if (skip >= callsOfDay) {
          skip -= callsOfDay;
          continue;
        }
        const lastDay = dayOf(days, position, skip + slice.limit);
        for (const [hour, callsOfHour] of await counts.hours(scope, filter, day)) {
          if (rows.length === slice.limit) break;
          if (skip >= callsOfHour) {
            skip -= callsOfHour;
            continue;
          }
          const wanted = { limit: slice.limit - rows.length, offset: skip };
          skip = 0;
          // With one filter an index has the calls in order, so one query reads the rest. With several, read hour by hour and skip
          // hours without matching calls.
          if (filterCount(filter) <= 1) {
            const hours = { from: lastDay * hoursPerDay, to: hour };
            const data = await rowsOf(reads, scope, filter, { hours, wanted, calls: total - slice.offset });
            return { data: data.map(toCall), total };
          }
          const hours = { from: hour, to: hour };
          rows.push(...(await rowsOf(reads, scope, filter, { hours, wanted, calls: callsOfHour - wanted.offset })));
        }
      }
      return { data: rows.map(toCall), total };
    });
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

/** The day of the last of so many calls, counted from the day at this position; `days` are newest first. */
function dayOf(days: readonly [day: number, calls: number][], position: number, calls: number): number {
  let left = calls;
  let at = position;
  while (left > (days[at]?.[1] ?? 0) && at < days.length - 1) left -= days[at++]?.[1] ?? 0;
  return days[at]?.[0] ?? 0;
}

interface Wanted {
  hours: { from: number; to: number };
  wanted: Slice;
  /** How many calls the counters know from the first wanted one on. */
  calls: number;
}

/**
 * Calls of these hours, newest first. An index finds the ids, then their rows are read, which tells a database with months where they are.
 */
async function rowsOf(reads: Reads, scope: Scope, filter: CallFilter, asked: Wanted): Promise<CallRow[]> {
  const { wanted, calls } = asked;
  let ids = await idsOf(reads, scope, filter, asked, reads.dialect.callsByMonth);
  // The clock that made the ids was wrong by more than a day: all months have to be read.
  if (reads.dialect.callsByMonth && ids.length < Math.min(wanted.limit, calls))
    ids = await idsOf(reads, scope, filter, asked, false);
  if (ids.length === 0) return [];
  const repeated = toPowerOfTwo(ids);
  return reads.rows<CallRow>(
    `select ${listed} from calls where id in (${repeated.map(() => '?').join(', ')}) order by created_at desc, id desc`,
    ...repeated,
  );
}

async function idsOf(
  reads: Reads,
  scope: Scope,
  filter: CallFilter,
  { hours, wanted }: Wanted,
  byMonth: boolean,
): Promise<string[]> {
  const [fromMs, toMs] = [hours.from * hourMs, (hours.to + 1) * hourMs];
  const conditions = ['organization_id = ?', 'mode = ?', 'created_at < ?', 'created_at >= ?'];
  const values: unknown[] = [scope.organizationId, scope.mode, toMs, fromMs];
  const add = (condition: string, value: unknown): void => {
    if (value === undefined) return;
    conditions.push(condition);
    values.push(value);
  };
  add('status = ?', filter.status);
  add('direction = ?', filter.direction);
  add('phone_number_id = ?', filter.phoneNumberId);
  if (byMonth) {
    add('id >= ?', boundOf(Math.max(0, fromMs - dayMs)));
    add('id < ?', boundOf(toMs + dayMs));
  }
  const found = await reads.rows<{ id: string }>(
    `select id from calls where ${conditions.join(' and ')} order by created_at desc, id desc limit ? offset ?`,
    ...[...values, wanted.limit, wanted.offset],
  );
  return found.map(({ id }) => id);
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
      select ${joined(event)} from (select * from call_events where call_id = calls.id order by sequence) as ordered
    ) from calls where id = ? and organization_id = ? and mode = ?`;
}

function filterCount({ status, direction, phoneNumberId }: CallFilter): number {
  return [status, direction, phoneNumberId].filter((value) => value !== undefined).length;
}
