import type { Database } from '../database/database.js';
import { StoreError } from '../database/errors.js';
import type { NodeLease } from './lease.js';

/** What only one node does: registrations with carriers, and the deletion of calls that are kept no longer. */
export const nodeRoles = ['registrations', 'retention'] as const;
export type NodeRole = (typeof nodeRoles)[number];

const take =
  'insert into node_roles (role, instance_id) select ?, id from instances where id = ? on conflict (role) do nothing';

/**
 * The roles that this node has. A role belongs to a lease, and is free once that is gone; its holder acts while its lease cannot have run out.
 */
export class NodeRoles {
  private readonly held = new Map<NodeRole, string>();
  private readonly released = new Set<NodeRole>();

  /** `onChanged`: called when a role was taken or lost. */
  constructor(
    private readonly database: Database,
    private readonly lease: NodeLease,
    private readonly onChanged: () => void,
  ) {}

  /** Whether this node has the role, as far as it knows: also while the database is gone, and nobody else can take it. */
  holds(role: NodeRole): boolean {
    return this.held.has(role);
  }

  /** Whether this node has the role beyond doubt. */
  has(role: NodeRole): boolean {
    return this.held.get(role) === this.lease.id && this.lease.mayAct;
  }

  /** Takes the roles that are free. */
  async takeFree(): Promise<void> {
    const { id } = this.lease;
    const before = new Map(this.held);
    try {
      const rows = await this.database.all(this.database.sql.selectFrom('node_roles').selectAll());
      const holders = new Map(rows.map((row) => [row.role, row.instance_id]));
      for (const role of nodeRoles) {
        const isFree = !holders.has(role) && !this.released.has(role);
        const isTaken = isFree && (await this.database.transaction((t) => t.write(take, role, id))) === 1;
        if (isTaken || holders.get(role) === id) this.held.set(role, id);
        else this.held.delete(role);
      }
    } catch (error) {
      if (!(error instanceof StoreError)) throw error; // the next renewal tries again
    }
    if (nodeRoles.some((role) => before.get(role) !== this.held.get(role))) this.onChanged();
  }

  /** Gives the role to another node, for good. */
  async release(role: NodeRole): Promise<void> {
    this.released.add(role);
    if (!this.held.delete(role)) return;
    this.onChanged();
    const { sql } = this.database;
    const released = sql.deleteFrom('node_roles').where('role', '=', role).where('instance_id', '=', this.lease.id);
    await this.database.run(released).catch((error) => {
      if (!(error instanceof StoreError)) throw error; // it goes with the lease
    });
  }
}
