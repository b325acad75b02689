import type { Clock } from '../database/clock.js';
import type { Database } from '../database/database.js';
import { StoreError } from '../database/errors.js';

const flushAfterMs = 1_000;

interface DayCount {
  day: number;
  /** What the database knew last, of all processes. */
  written: number;
  /** Counted here since. */
  unwritten: number;
}

/**
 * API requests of organizations by UTC day. Counted in memory and written every second, so that a restart does not give a fresh day to
 * anyone; processes that share the database see each other's counts a second late.
 */
export class RequestDays {
  private readonly counts = new Map<string, DayCount>();
  private cancelTimer: (() => void) | null = null;

  constructor(
    private readonly database: Database,
    private readonly clock: Clock,
  ) {}

  /** Counts one request; answers how many there were on this day, it among them. */
  add(organizationId: string, day: number): number {
    const counted = this.of(organizationId, day);
    counted.unwritten += 1;
    this.cancelTimer ??= this.clock.after(flushAfterMs, () => {
      this.cancelTimer = null;
      this.flush();
    });
    return counted.written + counted.unwritten;
  }

  read(organizationId: string, day: number): number {
    const counted = this.of(organizationId, day);
    return counted.written + counted.unwritten;
  }

  /** Brings the counts to disk; while the database is locked they stay in memory. */
  flush(): void {
    const changed = [...this.counts].filter(([, { unwritten }]) => unwritten > 0);
    if (changed.length === 0) return;
    try {
      this.database.transaction(
        () => {
          for (const [organizationId, counted] of changed) {
            const row = this.database
              .prepare(
                'insert into request_days (organization_id, day, requests) values (?, ?, ?) on conflict do update set requests = requests + excluded.requests returning requests',
              )
              .get(organizationId, counted.day, counted.unwritten) as { requests: number };
            counted.written = row.requests;
          }
        },
        { wait: false },
      );
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      return; // the next request plans the next try
    }
    for (const [, counted] of changed) counted.unwritten = 0;
  }

  close(): void {
    this.cancelTimer?.();
    this.cancelTimer = null;
    this.flush();
  }

  private of(organizationId: string, day: number): DayCount {
    let counted = this.counts.get(organizationId);
    if (counted?.day !== day) {
      if (counted) this.flush();
      counted = { day, written: this.stored(organizationId, day), unwritten: 0 };
      this.counts.set(organizationId, counted);
    }
    return counted;
  }

  private stored(organizationId: string, day: number): number {
    try {
      const row = this.database
        .prepare('select requests from request_days where organization_id = ? and day = ?')
        .get(organizationId, day) as { requests: number } | undefined;
      return row?.requests ?? 0;
    } catch {
      return 0; // unreadable for now
    }
  }
}
