import type { CallStatus } from '../../../sip/cause.js';
import type { Reads } from '../database/database.js';
import type { Direction } from '../database/tables.js';
import type { Scope } from '../tenants/scope.js';

export interface CallFilter {
  status?: CallStatus;
  direction?: Direction;
  phoneNumberId?: string;
  /** UTC days of `created_at`, inclusive, counted from 1970-01-01. */
  firstDay?: number;
  lastDay?: number;
}

export type StatusCounts = Record<CallStatus, number>;
/** `date` as `2026-01-15`. */
export type DayCounts = StatusCounts & { date: string };

export const dayMs = 86_400_000;
export const hourMs = 3_600_000;
export const hoursPerDay = 24;

/** Counts the calls that match a filter from the counters of `CountChanges`, without reading the calls. */
export class CallCounts {
  constructor(private readonly reads: Reads) {}

  async total(scope: Scope, filter: CallFilter): Promise<StatusCounts> {
    const sql = `select ${byStatus} ${from('call_days', 'day', filter.direction)}`;
    return only((await this.reads.row<StatusCounts>(sql, ...daysOf(scope, filter))) ?? noCalls(), filter.status);
  }

  /** One entry for each day from the first to the last, in ascending order, including days without calls. */
  async byDay(scope: Scope, filter: CallFilter & { firstDay: number; lastDay: number }): Promise<DayCounts[]> {
    const sql = `select day, ${byStatus} ${from('call_days', 'day', filter.direction)} group by day`;
    const counted = await this.reads.tuples<[day: number, ...number[]]>(sql, ...daysOf(scope, filter));
    const known = new Map(counted.map((row) => [row[0], row]));
    const days: DayCounts[] = [];
    for (let day = filter.firstDay; day <= filter.lastDay; day += 1) {
      const counts = noCalls() as DayCounts;
      const row = known.get(day);
      if (row) for (const [i, status] of statuses.entries()) counts[status] = row[i + 1] ?? 0;
      const shown = only(counts, filter.status) as DayCounts;
      shown.date = new Date(day * dayMs).toISOString().slice(0, 10);
      days.push(shown);
    }
    return days;
  }

  /** The number of calls of each day, newest first; as pairs, because a list iterates over all of them. */
  days(scope: Scope, filter: CallFilter): Promise<[day: number, calls: number][]> {
    return this.pairs('call_days', 'day', filter, daysOf(scope, filter));
  }

  /** The number of calls of each hour of these days, newest first. */
  hours(
    scope: Scope,
    filter: CallFilter,
    { firstDay, lastDay }: { firstDay: number; lastDay: number },
  ): Promise<[hour: number, calls: number][]> {
    const hours = [firstDay * hoursPerDay, (lastDay + 1) * hoursPerDay - 1];
    return this.pairs('call_hours', 'hour', filter, [...key(scope, filter), ...hours]);
  }

  private pairs(
    table: 'call_days' | 'call_hours',
    bucket: 'day' | 'hour',
    { direction, status }: CallFilter,
    values: (string | number | null)[],
  ): Promise<[number, number][]> {
    const calls = `sum(${status ?? statuses.join(' + ')})`;
    const sql = `select ${bucket}, ${calls} as calls ${from(table, bucket, direction)} group by ${bucket} having ${calls} > 0 order by ${bucket} desc`;
    return this.reads.tuples<[number, number]>(sql, ...values);
  }
}

const statuses = ['completed', 'failed', 'in_progress', 'no_answer', 'busy'] as const satisfies CallStatus[];
const byStatus = statuses.map((status) => `coalesce(sum(${status}), 0) as ${status}`).join(', ');

export function noCalls(): StatusCounts {
  return { completed: 0, failed: 0, in_progress: 0, no_answer: 0, busy: 0 };
}

function only(counts: StatusCounts, status: CallStatus | undefined): StatusCounts {
  return status === undefined ? counts : { ...noCalls(), [status]: counts[status] };
}

/** Includes the direction in the key of the index. */
function from(table: 'call_days' | 'call_hours', bucket: 'day' | 'hour', direction: Direction | undefined): string {
  return `from ${table} where organization_id = ? and mode = ? and phone_number_id = ?
    and ${direction === undefined ? 'cast(? as text) is null' : 'direction = ?'} and ${bucket} >= ? and ${bucket} <= ?`;
}

function key(scope: Scope, filter: CallFilter): (string | null)[] {
  return [scope.organizationId, scope.mode, filter.phoneNumberId ?? '', filter.direction ?? null];
}

function daysOf(scope: Scope, filter: CallFilter): (string | number | null)[] {
  const { firstDay = Number.MIN_SAFE_INTEGER, lastDay = Number.MAX_SAFE_INTEGER } = filter;
  return [...key(scope, filter), firstDay, lastDay];
}
