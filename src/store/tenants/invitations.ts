import { uuidv7 } from 'uuidv7';
import type { Clock } from '../database/clock.js';
import type { Database } from '../database/database.js';
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
  create(invited: {
    organizationId: string;
    subject: string | null;
    email: string | null;
    role: Role;
    name: string | null;
  }): Invitation {
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
    return this.database.transaction(() => {
      this.database.prepare('delete from invitations where expires_at <= ?').run(now);
      this.database
        .prepare('delete from invitations where organization_id = ? and (subject = ? or email = ?)')
        .run(row.organization_id, row.subject, row.email);
      this.database.run(this.database.sql.insertInto('invitations').values(row));
      return toInvitation(row);
    });
  }

  /** Open ones for this person, oldest first. */
  forPerson({ subject, email }: Person): Invitation[] {
    return this.database
      .rows<InvitationRow>(
        `select * from invitations where subject = ? and expires_at > ?
         union select * from invitations where email = ? and expires_at > ? order by created_at, id`,
        subject,
        this.clock.now(),
        email,
        this.clock.now(),
      )
      .map(toInvitation);
  }

  /** Makes the person a member and creates the user if needed. An existing member keeps the role. */
  accept(invitation: Invitation, { subject }: Person): User {
    return this.database.transaction(() => {
      const { organizationId, role, name } = invitation;
      const user =
        this.organizations.userBySubject(subject) ??
        this.organizations.createUser({ name: name ?? invitation.email ?? subject, subject });
      if (!this.organizations.member(organizationId, user.id))
        this.organizations.addMember(organizationId, user.id, role);
      this.remove(organizationId, invitation.id);
      return user;
    });
  }

  /** False: there is none. */
  remove(organizationId: string, id: string): boolean {
    const query = this.database.sql
      .deleteFrom('invitations')
      .where('organization_id', '=', organizationId)
      .where('id', '=', id);
    return this.database.run(query) === 1;
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
