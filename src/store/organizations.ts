import { uuidv7 } from 'uuidv7';
import type { Clock } from './clock.js';
import type { Database } from './database.js';
import type { OrganizationRow, Role, Tier } from './tables.js';

/** An organization's own limits; null is the tier's default, or none. */
export interface OrganizationLimits {
  requests_per_second: number | null;
  requests_per_day: number | null;
  concurrent_calls: number | null;
  calls_per_second: number | null;
  daily_spend_cents: number | null;
  allowed_prefixes: string[] | null;
}

export interface Organization {
  id: string;
  name: string;
  tier: Tier;
  limits: OrganizationLimits;
  createdAt: Date;
}

export interface User {
  id: string;
  name: string;
  /** The user of the first key: sees shared trunks and makes organizations. */
  platformOwner: boolean;
}

export interface Membership {
  organization: Organization;
  role: Role;
}

const noLimits: OrganizationLimits = {
  requests_per_second: null,
  requests_per_day: null,
  concurrent_calls: null,
  calls_per_second: null,
  daily_spend_cents: null,
  allowed_prefixes: null,
};

/** Organizations, users, and who is a member of what. */
export class Organizations {
  constructor(
    private readonly database: Database,
    private readonly clock: Clock,
  ) {}

  get(id: string): Organization | undefined {
    const row = this.database.get(this.database.sql.selectFrom('organizations').selectAll().where('id', '=', id));
    return row && toOrganization(row);
  }

  count(): number {
    const row = this.database.get(
      this.database.sql.selectFrom('organizations').select((is) => is.fn.countAll<number>().as('count')),
    );
    return row?.count ?? 0;
  }

  create(organization: {
    name: string;
    tier: Tier;
    limits?: Partial<OrganizationLimits>;
    metered?: boolean;
  }): Organization {
    const now = this.clock.now();
    const row: OrganizationRow = {
      id: uuidv7(),
      name: organization.name,
      tier: organization.tier,
      limits: JSON.stringify({ ...noLimits, ...organization.limits }),
      balance_microcents: organization.metered ? 0 : null,
      created_at: now,
      updated_at: now,
    };
    this.database.run(this.database.sql.insertInto('organizations').values(row));
    return toOrganization(row);
  }

  createUser(user: { name: string; subject?: string; platformOwner?: boolean }): User {
    const id = uuidv7();
    this.database.run(
      this.database.sql.insertInto('users').values({
        id,
        name: user.name,
        subject: user.subject ?? null,
        platform_owner: user.platformOwner ? 1 : 0,
        created_at: this.clock.now(),
      }),
    );
    return { id, name: user.name, platformOwner: user.platformOwner ?? false };
  }

  user(id: string): User | undefined {
    const row = this.database.get(this.database.sql.selectFrom('users').selectAll().where('id', '=', id));
    return row && { id: row.id, name: row.name, platformOwner: row.platform_owner === 1 };
  }

  addMember(organizationId: string, userId: string, role: Role): void {
    this.database.run(
      this.database.sql
        .insertInto('members')
        .values({ organization_id: organizationId, user_id: userId, role, joined_at: this.clock.now() }),
    );
  }

  /** In order of joining: the first is the user's first organization. */
  memberships(userId: string): Membership[] {
    const rows = this.database.all(
      this.database.sql
        .selectFrom('members')
        .innerJoin('organizations', 'organizations.id', 'members.organization_id')
        .selectAll('organizations')
        .select('members.role')
        .where('members.user_id', '=', userId)
        .orderBy('members.joined_at')
        .orderBy('organizations.id'),
    );
    return rows.map((row) => ({ organization: toOrganization(row), role: row.role }));
  }
}

function toOrganization(row: OrganizationRow): Organization {
  const limits = { ...noLimits, ...(JSON.parse(row.limits) as Partial<OrganizationLimits>) };
  return { id: row.id, name: row.name, tier: row.tier, limits, createdAt: new Date(row.created_at) };
}
