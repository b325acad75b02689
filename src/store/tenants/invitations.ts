import { uuidv7 } from 'uuidv7';
import type { Clock } from '../database/clock.js';
import type { Database, Transaction } from '../database/database.js';
import type { InvitationRow, Role } from '../database/tables.js';
import type { Organizations, User } from './organizations.js';

/** The person of a verified token. */
export interface Person {
  /** `sub`. */
  subject: string;
  /** Lower case, and only if the identity provider says that it is verified. */
  email: string | null;
}

/** An invitation to join an organization. Either `subject` or `email` is set. */
export interface Invitation {
  id: string;
  organizationId: string;
  subject: string | null;
  email: string | null;
  role: Role;
  name: string | null;
  createdAt: Date;
  expiresAt: Date;
}

const openMs = 14 * 86_400_000;

/**
 * Accepting an invitation is the only way to become a member, and only the invited person can accept it. Creating one does not query users, so
 * it reveals nothing about them.
 */
export class Invitations {
  constructor(
    private readonly database: Database,
    private readonly clock: Clock,
    private readonly organizations: Organizations,
  ) {}

  /** Replaces an earlier invitation of the same person. */
  create(
    invited: {
      organizationId: string;
      subject: string | null;
      email: string | null;
      role: Role;
      name: string | null;
    },
    within?: Transaction,
  ): Promise<Invitation> {
    const now = this.clock.now();
    const row: InvitationRow = {
      id: uuidv7(),
      organization_id: invited.organizationId,
      subject: invited.subject,
      email: invited.email?.toLowerCase() ?? null,
      role: invited.role,
      name: invited.name,
      created_at: now,
      expires_at: now + openMs,
    };
    return this.database.transaction(async (transaction) => {
      await transaction.write('delete from invitations where expires_at <= ?', now);
      await transaction.write(
        'delete from invitations where organization_id = ? and (subject = ? or email = ?)',
        ...[row.organization_id, row.subject, row.email],
      );
      await transaction.run(transaction.sql.insertInto('invitations').values(row));
      return toInvitation(row);
    }, within);
  }

  /** Open ones for this person, oldest first. */
  async forPerson({ subject, email }: Person): Promise<Invitation[]> {
    const rows = await this.database.rows<InvitationRow>(
      `select * from invitations where subject = ? and expires_at > ?
         union select * from invitations where email = ? and expires_at > ? order by created_at, id`,
      subject,
      this.clock.now(),
      email,
      this.clock.now(),
    );
    return rows.map(toInvitation);
  }

  /** Makes the person a member and creates the user if needed. An existing member keeps the role. */
  accept(invitation: Invitation, { subject }: Person): Promise<User> {
    return this.database.transaction(async (transaction) => {
      const { organizationId, role, name } = invitation;
      const user =
        (await this.organizations.userBySubject(subject, transaction)) ??
        (await this.organizations.createUser({ name: name ?? invitation.email ?? subject, subject }, transaction));
      if (!(await this.organizations.member(organizationId, user.id, transaction)))
        await this.organizations.addMember(organizationId, user.id, role, transaction);
      await this.remove(organizationId, invitation.id, transaction);
      return user;
    });
  }

  /** False: there is none. */
  async remove(organizationId: string, id: string, within?: Transaction): Promise<boolean> {
    const query = this.database.sql
      .deleteFrom('invitations')
      .where('organization_id', '=', organizationId)
      .where('id', '=', id);
    return (await (within ?? this.database).run(query)) === 1;
  }
}

function toInvitation(row: InvitationRow): Invitation {
  return {
    id: row.id,
    organizationId: row.organization_id,
    subject: row.subject,
    email: row.email,
    role: row.role,
    name: row.name,
    createdAt: new Date(row.created_at),
    expiresAt: new Date(row.expires_at),
  };
}
