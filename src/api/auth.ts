import type { IncomingHttpHeaders } from 'node:http';
import type { Membership } from '../store/organizations.js';
import type { Store } from '../store/store.js';
import type { Caller } from './caller.js';
import { ApiError, invalid } from './errors.js';

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * The caller, and what is wrong with the organization asked for: that is told only after the request was counted, against the caller's
 * own organization.
 */
export interface Identified {
  caller: Caller;
  refusal: ApiError | null;
}

/** Who sends this request. Throws 401, always in the same words: what was wrong with a key helps nobody who has a right to know. */
export function identify(store: Store, headers: IncomingHttpHeaders): Identified {
  const token = credentials(headers);
  const key = token === undefined ? undefined : store.apiKeys.authenticate(token);
  const user = key && store.organizations.user(key.userId);
  if (!key || !user) throw new ApiError('UNAUTHORIZED', undefined, undefined, { 'www-authenticate': 'Bearer' });

  const memberships = store.organizations
    .memberships(user.id)
    .filter(({ organization }) => key.organizationId === null || organization.id === key.organizationId);
  const own = memberships[0];
  // A key without any organization left can do nothing, and there is no one to count it against.
  if (!own) throw new ApiError('UNAUTHORIZED', undefined, undefined, { 'www-authenticate': 'Bearer' });

  const { chosen, refusal } = choose(memberships, own, headers['x-organization-id']);
  const { organization, role } = chosen;
  const scope = { organizationId: organization.id, mode: key.mode };
  return { caller: { key, user, organization, role, scope, memberships }, refusal };
}

/** `Authorization` wins over `x-api-key`, even when it is no good. */
function credentials(headers: IncomingHttpHeaders): string | undefined {
  if (headers.authorization !== undefined) return /^Bearer +([^\s]+) *$/i.exec(headers.authorization)?.[1];
  const key = headers['x-api-key'];
  return typeof key === 'string' ? key.trim() : undefined;
}

function choose(
  memberships: readonly Membership[],
  own: Membership,
  header: string | string[] | undefined,
): { chosen: Membership; refusal: ApiError | null } {
  if (header === undefined) return { chosen: own, refusal: null };
  if (typeof header !== 'string' || !uuidPattern.test(header)) {
    return { chosen: own, refusal: invalid({ path: 'x-organization-id', message: 'must be a uuid' }) };
  }
  const chosen = memberships.find(({ organization }) => organization.id === header.toLowerCase());
  if (chosen) return { chosen, refusal: null };
  return { chosen: own, refusal: new ApiError('FORBIDDEN', 'The key may not act in this organization') };
}
