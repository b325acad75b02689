import { StoreError } from '../database/errors.js';
import type { StoreDatabase } from '../database/store-database.js';
import type { Scope } from '../tenants/scope.js';
import type { NodeLease } from './lease.js';

/** Which node has a conference, and where it is reached. */
export interface ConferenceOwner {
  /** Of the conference. */
  id: string;
  isThisNode: boolean;
  /** By SIP: `HOST:PORT;transport=…`. */
  address: string;
}

interface OwnerRow {
  id: string;
  instance_id: string;
  address: string;
}

const nowMs = '(extract(epoch from clock_timestamp()) * 1000)::bigint';
const named = 'organization_id = ? and mode = ? and name = ?';
/** The row is of the first that asks; of another one only when the lease of its node has run out, and we may say so. */
const take = `insert into conferences (organization_id, mode, name, id, instance_id, address)
  select ?, ?, ?, ?, id, ? from instances where id = ?
  on conflict (organization_id, mode, name) do update set instance_id = excluded.instance_id, address = excluded.address
  where ?::int = 1 and not exists (
    select 1 from instances owner where owner.id = conferences.instance_id and owner.heartbeat_at >= ${nowMs} - ?::bigint
  )`;
const attempts = 3;

/** The conferences of all nodes, each with the one node that has it. A row belongs to a lease and goes with it, as a role does. */
export class ConferenceOwners {
  constructor(
    private readonly database: StoreDatabase,
    private readonly lease: NodeLease,
  ) {}

  /**
   * The owner of the conference of this name: this node, if there is none. `id` is that of the conference if there is none. Rejects with
   * `StoreError`.
   */
  async claim({ organizationId, mode }: Scope, name: string, id: string, address: string): Promise<ConferenceOwner> {
    const { database, lease } = this;
    const key = [organizationId, mode, name];
    for (let attempt = 0; attempt < attempts; attempt++) {
      const find = `select id, instance_id, address from conferences where ${named}`;
      const judging = [lease.mayJudge ? 1 : 0, database.leaseTimes.lengthMs];
      await database.rows(take, ...key, id, address, lease.id, ...judging);
      const row = await database.row<OwnerRow>(find, ...key);
      if (row !== undefined) return { id: row.id, isThisNode: row.instance_id === lease.id, address: row.address };
    }
    throw new StoreError('unavailable', 'This node has no lease at the moment.');
  }

  /** This node does not have the conference any more. */
  async release(id: string): Promise<void> {
    await this.database.rows('delete from conferences where id = ? and instance_id = ?', id, this.lease.id);
  }

  /** The leases of the other nodes that have conferences of this organization. */
  async otherOwners({ organizationId, mode }: Scope, idOrName: string | null = null): Promise<string[]> {
    const rows = await this.database.rows<{ instance_id: string }>(
      `select distinct instance_id from conferences
       where organization_id = ? and mode = ? and instance_id <> ? and (?::text is null or id = ? or name = ?)`,
      ...[organizationId, mode, this.lease.id, idOrName, idOrName, idOrName],
    );
    return rows.map((row) => row.instance_id);
  }
}
