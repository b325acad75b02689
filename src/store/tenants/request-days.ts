import type { Clock } from '../database/clock.js';
import type { Database } from '../database/database.js';
import { StoreError } from '../database/errors.js';
import type { StoreLog } from '../database/log.js';

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
  private writing: Promise<void> = Promise.resolve();

  constructor(
    private readonly database: Database,
    private readonly clock: Clock,
    private readonly log: StoreLog,
  ) {}

  /** Counts one request; answers how many there were on this day, it among them. Waits only for the first request of a day. */
  add(organizationId: string, day: number): number | Promise<number> {
    const counted = this.counts.get(organizationId);
    if (counted?.day !== day) return this.load(organizationId, day).then((loaded) => this.count(loaded));
    return this.count(counted);
  }

  read(organizationId: string, day: number): number | Promise<number> {
    const counted = this.counts.get(organizationId);
    if (counted?.day !== day) return this.load(organizationId, day).then(total);
    return total(counted);
  }

  /** Brings the counts to disk, one write after the other; while the database is locked they stay in memory. */
  flush(): Promise<void> {
    this.writing = this.writing.then(() => this.write());
    return this.writing;
  }

  private async write(): Promise<void> {
    const changed = [...this.counts].filter(([, { unwritten }]) => unwritten > 0);
    if (changed.length === 0) return;
    // what is counted while the transaction runs is for the next one
    const adding = changed.map(([organizationId, counted]) => ({ organizationId, counted, adds: counted.unwritten }));
    try {
      const written = await this.database.transaction(async (transaction) => {
        const sums: number[] = [];
        for (const { organizationId, counted, adds } of adding) {
          const row = await transaction.row<{ requests: number }>(addRequests, organizationId, counted.day, adds);
          sums.push(row?.requests ?? adds);
        }
        return sums;
      });
      for (const [index, { counted, adds }] of adding.entries()) {
        counted.written = written[index] ?? 0;
        counted.unwritten -= adds;
      }
    } catch (error) {
      if (!(error instanceof StoreError))
        this.log.error({ err: error }, 'the requests of the day could not be counted');
      // the next request plans the next try
    }
  }

  async close(): Promise<void> {
    this.cancelTimer?.();
    this.cancelTimer = null;
    await this.flush();
  }

  private count(counted: DayCount): number {
    counted.unwritten += 1;
    this.cancelTimer ??= this.clock.after(flushAfterMs, () => {
      this.cancelTimer = null;
      void this.flush();
    });
    return total(counted);
  }

  /** The count of this day; requests that ask for it at the same time get the same one. */
  private async load(organizationId: string, day: number): Promise<DayCount> {
    const before = this.counts.get(organizationId);
    if (before !== undefined && before.day !== day) await this.flush();
    const written = await this.stored(organizationId, day);
    const known = this.counts.get(organizationId);
    if (known?.day === day) return known;
    const counted = { day, written, unwritten: 0 };
    this.counts.set(organizationId, counted);
    return counted;
  }

  private async stored(organizationId: string, day: number): Promise<number> {
    try {
      const row = await this.database.row<{ requests: number }>(requestsOf, organizationId, day);
      return row?.requests ?? 0;
    } catch {
      return 0; // unreadable for now
    }
  }
}

const addRequests = `insert into request_days (organization_id, day, requests) values (?, ?, ?)
  on conflict (organization_id, day) do update set requests = request_days.requests + excluded.requests returning requests`;
const requestsOf = 'select requests from request_days where organization_id = ? and day = ?';

function total({ written, unwritten }: DayCount): number {
  return written + unwritten;
}
