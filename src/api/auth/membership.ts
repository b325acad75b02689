import type { Role } from '../../store/database/tables.js';
import type { Membership } from '../../store/tenants/organizations.js';
import { ApiError, notFound } from '../errors.js';
import { type Caller, mayDo } from './caller.js';

/** The caller's membership in the organization of a path, with at least this role. Throws 404 or 403. */
export function membershipIn(caller: Caller, organizationId: string, needed: Role = 'member'): Membership {
  const found = caller.memberships.find(({ organization }) => organization.id === organizationId.toLowerCase());
  if (!found) throw notFound('Organization');
  if (!mayDo(found.role, needed))
    throw new ApiError('FORBIDDEN', `This operation requires the role ${needed} in the organization`);
  return found;
}

/** Throws 403 unless the caller is the platform owner with a live key. */
export function requirePlatformOwner({ user, mode }: Caller): void {
  if (!user.platformOwner || mode !== 'live')
    throw new ApiError('FORBIDDEN', 'This operation is only for the platform owner, with a live key');
}
