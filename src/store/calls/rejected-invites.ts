import { uuidv7 } from 'uuidv7';
import type { Clock } from '../database/clock.js';
import type { Database } from '../database/database.js';
import type { RejectedInviteRow } from '../database/tables.js';
import type { Page, Slice } from '../tenants/scope.js';

/** An INVITE that became no call of any organization. */
export type RejectedInvite = Omit<RejectedInviteRow, 'created_at'> & { createdAt: Date };

/** The number of records kept; older ones are deleted. */
const kept = 10_000;

/** INVITEs that were rejected; only for the platform owner. */
export class RejectedInviteRecords {
  private sinceSweep = 0;

  constructor(
    private readonly database: Database,
    private readonly clock: Clock,
  ) {}

  /** Queued and not waited for; the record is dropped if the database is busy. */
  add(invite: Omit<RejectedInviteRow, 'id' | 'created_at'>): void {
    const row: RejectedInviteRow = { id: uuidv7(), ...invite, created_at: this.clock.now() };
    void this.database.run(this.database.sql.insertInto('rejected_invites').values(row)).then(
      () => this.sweep(),
      () => {},
    );
  }

  async list(slice: Slice): Promise<Page<RejectedInvite>> {
    const { sql } = this.database;
    const rows = await this.database.all(
      sql.selectFrom('rejected_invites').selectAll().orderBy('id', 'desc').limit(slice.limit).offset(slice.offset),
    );
    const counted = await this.database.get(
      sql.selectFrom('rejected_invites').select((is) => is.fn.countAll<number>().as('total')),
    );
    const data = rows.map(({ created_at: createdMs, ...row }) => ({ ...row, createdAt: new Date(createdMs) }));
    return { data, total: counted?.total ?? 0 };
  }

  private async sweep(): Promise<void> {
    this.sinceSweep += 1;
    if (this.sinceSweep < 100) return;
    this.sinceSweep = 0;
    const { sql } = this.database;
    const last = sql.selectFrom('rejected_invites').select('id').orderBy('id', 'desc').limit(1).offset(kept);
    await this.database.run(sql.deleteFrom('rejected_invites').where('id', '<=', last)).catch(() => {}); // the next sweep
  }
}
