import type { Role } from '../../store/database/tables.js';
import type { ApiKey } from '../../store/tenants/api-keys.js';
import type { Person } from '../../store/tenants/invitations.js';
import type { Membership, Organization, User } from '../../store/tenants/organizations.js';
import type { Mode, Scope } from '../../store/tenants/scope.js';

/** Who asks, and for which organization. */
export interface Caller {
  /** null: by the token of an identity provider. */
  key: ApiKey | null;
  /** Of the key; a token is live. */
  mode: Mode;
  user: User;
  /** Who signed in with a token; null: by a key, which says nothing of a person. */
  person: Person | null;
  /** The organization the request acts in, and the caller's role there. */
  organization: Organization;
  role: Role;
  scope: Scope;
  /** All the caller may act in, in order of joining. */
  memberships: Membership[];
}

/** What an operation asks of the caller. `public`: nothing. */
export type Access = 'public' | Role;

const rank: Record<Role, number> = { member: 0, admin: 1, owner: 2 };

export function mayDo(role: Role, needed: Role): boolean {
  return rank[role] >= rank[needed];
}

declare module 'fastify' {
  interface FastifyRequest {
    /** null on public paths. */
    caller: Caller | null;
  }
  interface FastifyContextConfig {
    access?: Access;
    /** Not counted against the address: probes and scrapes must get through. */
    unlimited?: boolean;
    /** A signature in the query stands for a key. */
    signedLink?: boolean;
    /** Shows its key as basic authentication, as Twilio's clients do. */
    basic?: boolean;
  }
}
