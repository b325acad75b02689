import type { Clock } from '../database/clock.js';
import type { Database } from '../database/database.js';
import type { CallRow } from '../database/tables.js';
import { CountChanges } from '../journal/count-changes.js';
import type { Organizations } from '../tenants/organizations.js';
import { modes, type Scope } from '../tenants/scope.js';
import { dayMs } from './call-counts.js';
import { deleteCalls } from './delete-calls.js';

/** A call that has ended and began before the retention time of its organization. */
export interface ExpiredCall {
  id: string;
  /** The locations of its recordings, `file:` URLs. */
  recordings: string[];
}

const oldest = `select id, recording_url from calls
  where organization_id = ? and mode = ? and created_at < ? and status <> 'in_progress' order by created_at, id limit ? offset ?`;

/** Records that are older than `call_retention_days` of their organization. */
export class ExpiredCalls {
  constructor(
    private readonly database: Database,
    private readonly organizations: Organizations,
    private readonly clock: Clock,
  ) {}

  /** The organizations that keep their calls for a limited time, and when calls had to begin to be kept, in milliseconds since 1970. */
  async scopesWithRetention(): Promise<{ scope: Scope; keptFromMs: number }[]> {
    const nowMs = this.clock.now();
    return (await this.organizations.all()).flatMap(({ id: organizationId, limits }) => {
      const { call_retention_days: days } = limits;
      const keptFromMs = nowMs - (days ?? 0) * dayMs;
      return days === null ? [] : modes.map((mode) => ({ scope: { organizationId, mode }, keptFromMs }));
    });
  }

  /** Up to `limit` expired calls, the oldest first, after the first `skip`. */
  async oldest({ organizationId, mode }: Scope, keptFromMs: number, limit: number, skip = 0): Promise<ExpiredCall[]> {
    const asked = [organizationId, mode, keptFromMs, limit, skip];
    const rows = await this.database.rows<Pick<CallRow, 'id' | 'recording_url'>>(oldest, ...asked);
    return this.withFiles(rows);
  }

  /** These calls with the locations of their recordings. */
  async withFiles(rows: readonly Pick<CallRow, 'id' | 'recording_url'>[]): Promise<ExpiredCall[]> {
    const found: ExpiredCall[] = [];
    for (const { id, recording_url: url } of rows) {
      const takes = await this.database.rows<{ file: string }>('select file from recordings where call_id = ?', id);
      found.push({ id, recordings: [...(url === null ? [] : [url]), ...takes.map(({ file }) => file)] });
    }
    return found;
  }

  /** Removes the records of ended calls with their events, and what was counted of them. Returns how many there were. */
  remove(ids: readonly string[]): Promise<number> {
    return this.database.transaction(async (transaction) => {
      const counts = new CountChanges();
      const removed: string[] = [];
      for (const id of ids) {
        const row = await transaction.row<CallRow>("select * from calls where id = ? and status <> 'in_progress'", id);
        if (row === undefined) continue; // another process was faster
        counts.deleted(row, row.status);
        removed.push(id);
      }
      await deleteCalls(transaction, removed);
      await counts.write(transaction);
      return removed.length;
    });
  }
}
