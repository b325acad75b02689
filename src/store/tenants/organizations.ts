import { uuidv7 } from 'uuidv7';
import type { Clock } from '../database/clock.js';
import type { Database, Reads, Transaction } from '../database/database.js';
import type { OrganizationRow, Role, Tier, UserRow } from '../database/tables.js';
import type { Page, Slice } from './scope.js';

/** An organization's own limits; null is the tier's default, or none. */
export interface OrganizationLimits {
  requests_per_second: number | null;
  requests_per_day: number | null;
  concurrent_calls: number | null;
  calls_per_second: number | null;
  daily_spend_cents: number | null;
  allowed_prefixes: string[] | null;
  /** Calls that began earlier are deleted with events and recordings; null: all are kept. */
  call_retention_days: number | null;
}

export interface Organization {
  id: string;
  name: string;
  tier: Tier;
  limits: OrganizationLimits;
  /** Whether its calls are paid for from a balance. */
  isMetered: boolean;
  createdAt: Date;
}

export interface User {
  id: string;
  name: string;
  /** The user of the first key: sees shared trunks and makes organizations. */
  platformOwner: boolean;
}

/** A member of an organization, or an open invitation to it. */
export interface Member {
  /** Of the user, or of the invitation. */
  id: string;
  /** null for an invitation, whether or not such a user exists. */
  userId: string | null;
  name: string;
  subject: string | null;
  /** Of an invitation by email. */
  email: string | null;
  role: Role;
  joinedAt: Date | null;
  /** Of an invitation. */
  expiresAt: Date | null;
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
  call_retention_days: null,
};

const byId = 'select * from organizations where id = ?';

/** Organizations, users and memberships. */
export class Organizations {
  constructor(
    private readonly database: Database,
    private readonly clock: Clock,
  ) {}

  /** Called when an organization or a membership changed. */
  onChanged: () => void = () => {};

  /** From memory. */
  get(id: string): Organization | undefined {
    const [row] = this.database.remembered('organizations', { id });
    return row && toOrganization(row);
  }

  async all(): Promise<Organization[]> {
    const rows = await this.database.rows<OrganizationRow>('select * from organizations order by id');
    return rows.map(toOrganization);
  }

  async count(reads: Reads = this.database): Promise<number> {
    const row = await reads.get(
      reads.sql.selectFrom('organizations').select((is) => is.fn.countAll<number>().as('count')),
    );
    return row?.count ?? 0;
  }

  async create(
    organization: {
      name: string;
      tier: Tier;
      limits?: Partial<OrganizationLimits>;
      metered?: boolean;
    },
    within?: Transaction,
  ): Promise<Organization> {
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
    await this.database.transaction(async (transaction) => {
      await transaction.changedSettings();
      await transaction.run(transaction.sql.insertInto('organizations').values(row));
    }, within);
    this.onChanged();
    return toOrganization(row);
  }

  /** Fields that are left out stay; limits that are left out too. */
  async update(
    id: string,
    change: { name?: string; tier?: Tier; limits?: Partial<OrganizationLimits> },
  ): Promise<Organization | undefined> {
    const updated = await this.database.transaction(async (transaction) => {
      await transaction.changedSettings();
      const row = await transaction.row<OrganizationRow>(byId, id);
      if (!row) return undefined;
      const current = toOrganization(row);
      const set: Partial<OrganizationRow> = {
        name: change.name,
        tier: change.tier,
        limits: change.limits && JSON.stringify({ ...current.limits, ...change.limits }),
        updated_at: this.clock.now(),
      };
      await transaction.run(transaction.sql.updateTable('organizations').set(set).where('id', '=', id));
      const changed = await transaction.row<OrganizationRow>(byId, id);
      return changed && toOrganization(changed);
    });
    this.onChanged();
    return updated;
  }

  async createUser(
    user: { name: string; subject?: string; platformOwner?: boolean },
    within?: Transaction,
  ): Promise<User> {
    const id = uuidv7();
    await (within ?? this.database).run(
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

  async user(id: string): Promise<User | undefined> {
    const row = await this.database.row<UserRow>('select * from users where id = ?', id);
    return row && { id: row.id, name: row.name, platformOwner: row.platform_owner === 1 };
  }

  /** By the `sub` of an identity provider's token. */
  async userBySubject(subject: string, reads: Reads = this.database): Promise<User | undefined> {
    const row = await reads.get(reads.sql.selectFrom('users').selectAll().where('subject', '=', subject));
    return row && { id: row.id, name: row.name, platformOwner: row.platform_owner === 1 };
  }

  /** Members and open invitations, the latest first. */
  async members(organizationId: string, slice: Slice): Promise<Page<Member>> {
    const now = this.clock.now();
    const all = `select users.id, users.id as user_id, users.name, users.subject, null as email, members.role, members.joined_at, null as expires_at,
        members.joined_at as since
      from members join users on users.id = members.user_id where members.organization_id = ?
      union all select id, null, coalesce(name, email, subject), subject, email, role, null, expires_at, created_at
      from invitations where organization_id = ? and expires_at > ?`;
    const of = [organizationId, organizationId, now];
    const rows = await this.database.rows<MemberColumns>(
      `${all} order by since desc, id desc limit ? offset ?`,
      ...of,
      slice.limit,
      slice.offset,
    );
    const counted = await this.database.row<{ total: number }>(
      `select count(*) as total from (${all}) as everyone`,
      ...of,
    );
    return { data: rows.map(toMember), total: counted?.total ?? 0 };
  }

  async member(organizationId: string, userId: string, reads: Reads = this.database): Promise<Member | undefined> {
    const row = await reads.row<MemberColumns>(
      `select users.id, users.id as user_id, users.name, users.subject, null as email, members.role, members.joined_at, null as expires_at
       from members join users on users.id = members.user_id where members.organization_id = ? and members.user_id = ?`,
      organizationId,
      userId,
    );
    return row && toMember(row);
  }

  /** The last owner cannot be removed. */
  async removeMember(organizationId: string, userId: string): Promise<'removed' | 'last_owner' | 'not_found'> {
    const outcome = await this.database.transaction(async (transaction) => {
      const member = await this.member(organizationId, userId, transaction);
      if (!member) return 'not_found';
      const owners = await transaction.get(
        transaction.sql
          .selectFrom('members')
          .select((is) => is.fn.countAll<number>().as('owners'))
          .where('organization_id', '=', organizationId)
          .where('role', '=', 'owner'),
      );
      if (member.role === 'owner' && (owners?.owners ?? 0) <= 1) return 'last_owner';
      await transaction.run(
        transaction.sql
          .deleteFrom('members')
          .where('organization_id', '=', organizationId)
          .where('user_id', '=', userId),
      );
      return 'removed';
    });
    this.onChanged();
    return outcome;
  }

  async addMember(organizationId: string, userId: string, role: Role, within?: Transaction): Promise<void> {
    await (within ?? this.database).run(
      this.database.sql
        .insertInto('members')
        .values({ organization_id: organizationId, user_id: userId, role, joined_at: this.clock.now() }),
    );
    this.onChanged();
  }

  /** In order of joining: the first is the user's first organization. */
  async memberships(userId: string): Promise<Membership[]> {
    const rows = await this.database.rows<OrganizationRow & { role: Role }>(
      `select organizations.*, members.role from members join organizations on organizations.id = members.organization_id
       where members.user_id = ? order by members.joined_at, organizations.id`,
      userId,
    );
    return rows.map((row) => ({ organization: toOrganization(row), role: row.role }));
  }
}

interface MemberColumns {
  id: string;
  user_id: string | null;
  name: string;
  subject: string | null;
  email: string | null;
  role: Role;
  joined_at: number | null;
  expires_at: number | null;
}

function toMember(row: MemberColumns): Member {
  return {
    id: row.id,
    userId: row.user_id,
    name: row.name,
    subject: row.subject,
    email: row.email,
    role: row.role,
    joinedAt: row.joined_at === null ? null : new Date(row.joined_at),
    expiresAt: row.expires_at === null ? null : new Date(row.expires_at),
  };
}

function toOrganization(row: OrganizationRow): Organization {
  const limits = { ...noLimits, ...(JSON.parse(row.limits) as Partial<OrganizationLimits>) };
  const isMetered = row.balance_microcents !== null;
  return { id: row.id, name: row.name, tier: row.tier, limits, isMetered, createdAt: new Date(row.created_at) };
}
