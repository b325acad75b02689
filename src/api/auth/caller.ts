import type { Role } from '../../store/database/tables.js';
import type { ApiKey } from '../../store/tenants/api-keys.js';
import type { Person } from '../../store/tenants/invitations.js';
import type { Membership, Organization, User } from '../../store/tenants/organizations.js';
import type { Mode, Scope } from '../../store/tenants/scope.js';

/** The sender of a request, and the organization the request acts in. */
export interface Caller {
  /** null if authorized by a token of the identity provider. */
  key: ApiKey | null;
  /** The mode of the key; `live` for a token. */
  mode: Mode;
  user: User;
  /** The person of a token; null for a key, which identifies no person. */
  person: Person | null;
  /** The organization the request acts in, and the caller's role there. */
  organization: Organization;
  role: Role;
  scope: Scope;
  /** All organizations the caller may act in, in order of joining. */
  memberships: Membership[];
}

/** The role an operation requires; `public` requires no credentials. */
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
    /** Exempt from the limit per address: probes and scrapes must always pass. */
    unlimited?: boolean;
    /** A signature in the query can replace the key. */
    signedLink?: boolean;
    /** A short-lived token in the query can replace the key. */
    eventToken?: boolean;
    /** Accepts the key as basic authentication, as Twilio's clients send it. */
    basic?: boolean;
  }
}
