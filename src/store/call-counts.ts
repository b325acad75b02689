import type { CallStatus } from '../../sip/cause.js';
import type { Database } from './database.js';
import type { Scope } from './scope.js';
import type { Direction } from './tables.js';

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
export const hourMs = 3_600_000;
const hoursPerDay = 24;

/** How many calls fit a filter, without looking at the calls: from the counts that triggers keep. */
export class CallCounts {
  constructor(private readonly database: Database) {}

  total(scope: Scope, filter: CallFilter): StatusCounts {
    const total = noCalls();
    for (const { counts } of this.byDay(scope, filter)) add(total, counts);
    return total;
  }

  /** Days with calls, newest first. */
  byDay(scope: Scope, filter: CallFilter): { day: number; counts: StatusCounts }[] {
    const { firstDay = Number.MIN_SAFE_INTEGER, lastDay = Number.MAX_SAFE_INTEGER } = filter;
    const rows = this.database
      .prepare(query('call_days', 'day', filter.direction))
      .all(...key(scope, filter), firstDay, lastDay) as (StatusCounts & { bucket: number })[];
    return rows.map(({ bucket, ...counts }) => ({ day: bucket, counts: only(counts, filter.status) }));
  }

  /** Hours of a day with calls, newest first. */
  byHour(scope: Scope, filter: CallFilter, day: number): { hour: number; counts: StatusCounts }[] {
    const rows = this.database
      .prepare(query('call_hours', 'hour', filter.direction))
      .all(...key(scope, filter), day * hoursPerDay, (day + 1) * hoursPerDay - 1) as (StatusCounts & {
      bucket: number;
    })[];
    return rows.map(({ bucket, ...counts }) => ({ hour: bucket, counts: only(counts, filter.status) }));
  }
}

export function noCalls(): StatusCounts {
  return { completed: 0, failed: 0, in_progress: 0, no_answer: 0, busy: 0 };
}

export function sum(counts: StatusCounts): number {
  return counts.completed + counts.failed + counts.in_progress + counts.no_answer + counts.busy;
}

function add(total: StatusCounts, counts: StatusCounts): void {
  for (const status of Object.keys(total) as CallStatus[]) total[status] += counts[status];
}

function only(counts: StatusCounts, status: CallStatus | undefined): StatusCounts {
  return status === undefined ? counts : { ...noCalls(), [status]: counts[status] };
}

function query(table: string, bucket: string, direction: Direction | undefined): string {
  return `select ${bucket} as bucket, sum(completed) as completed, sum(failed) as failed, sum(in_progress) as in_progress,
      sum(no_answer) as no_answer, sum(busy) as busy
    from ${table}
    where organization_id = ? and mode = ? and phone_number_id = ?
      and ${direction === undefined ? '? is null' : 'direction = ?'} and ${bucket} >= ? and ${bucket} <= ?
    group by ${bucket} order by ${bucket} desc`;
}

function key(scope: Scope, filter: CallFilter): (string | null)[] {
  return [scope.organizationId, scope.mode, filter.phoneNumberId ?? '', filter.direction ?? null];
}
