import type { IncomingHttpHeaders } from 'node:http';
import type { Store } from '../../store/store.js';
import type { ApiKey } from '../../store/tenants/api-keys.js';
import type { Invitation, Person } from '../../store/tenants/invitations.js';
import type { Membership, User } from '../../store/tenants/organizations.js';
import { ApiError, invalid } from '../errors.js';
import type { Caller } from './caller.js';
import { Tokens } from './tokens.js';

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * The caller, and the error about the requested organization if there is one: it is thrown only after the request was counted against the
 * caller's own organization.
 */
export interface Identified {
  caller: Caller;
  refusal: ApiError | null;
}

/** Identifies the sender of a request anew at each call. Throws as `identify` does. */
export type IdentifySender = (headers: IncomingHttpHeaders) => Promise<Identified>;

/**
 * Whether these headers still authorize the caller's user in the caller's organization: false once the key is revoked, the token has expired
 * or the user is no longer a member. A temporary failure of the check (a locked database) counts as true.
 */
export async function isStillAuthorized(identifySender: IdentifySender, headers: IncomingHttpHeaders, caller: Caller) {
  try {
    const { caller: now, refusal } = await identifySender(headers);
    return refusal === null && now.user.id === caller.user.id && now.organization.id === caller.organization.id;
  } catch (error) {
    return !(error instanceof ApiError);
  }
}

/** The identity of a request: a key, or the user of a token. */
interface Identity {
  key: ApiKey | null;
  user: User;
  /** null for a key, which identifies no person. */
  person: Person | null;
  memberships: readonly Membership[];
}

/**
 * Identifies the sender of this request. Throws 401, always with the same text, so that it reveals nothing about keys; and 403 when a valid
 * token names an unknown user.
 */
export async function identify(store: Store, tokens: Tokens | null, headers: IncomingHttpHeaders): Promise<Identified> {
  const text = credentials(headers);
  const isToken = text !== undefined && tokens !== null && Tokens.looksLike(text);
  const asked = headers['x-organization-id'];
  const identity = isToken ? await userOfToken(store, tokens, text, asked) : await userOfKey(store, text);
  const { key, user, person } = identity;
  const memberships = identity.memberships.filter(
    ({ organization }) => !key?.organizationId || organization.id === key.organizationId,
  );
  const own = memberships[0];
  // A user without an organization can do nothing, and there is no organization to count the request against.
  if (!own) throw key === null ? unknownUser() : unauthorized();

  const { chosen, refusal } = choose(memberships, own, asked);
  const { organization, role } = chosen;
  const mode = key?.mode ?? 'live';
  const scope = { organizationId: organization.id, mode };
  return { caller: { key, mode, user, person, organization, role, scope, memberships }, refusal };
}

async function userOfKey(store: Store, text: string | undefined): Promise<Identity> {
  const identity = text === undefined ? undefined : await store.identities.ofKey(text);
  if (!identity) throw unauthorized();
  return { ...identity, person: null };
}

async function userOfToken(
  store: Store,
  tokens: Tokens,
  text: string,
  asked: string | string[] | undefined,
): Promise<Identity> {
  const person = await tokens.person(text);
  if (person === undefined) throw unauthorized();
  const known = await store.organizations.userBySubject(person.subject);
  const memberships = known ? await store.organizations.memberships(known.id) : [];
  const invitation = await acceptedBy(store, person, memberships, asked);
  if (invitation) {
    const user = await store.invitations.accept(invitation, person);
    return { key: null, user, person, memberships: await store.organizations.memberships(user.id) };
  }
  if (!known) throw unknownUser();
  return { key: null, user: known, person, memberships };
}

/**
 * The invitation that a person accepts by this request: that of the organization the request names or, for a user without an organization
 * who names none, the oldest. A user with an organization joins another one only by naming it.
 */
async function acceptedBy(
  store: Store,
  person: Person,
  memberships: readonly Membership[],
  asked: string | string[] | undefined,
): Promise<Invitation | undefined> {
  if (asked === undefined) return memberships.length > 0 ? undefined : (await store.invitations.forPerson(person))[0];
  const id = String(asked).toLowerCase();
  if (memberships.some(({ organization }) => organization.id === id)) return undefined;
  return (await store.invitations.forPerson(person)).find(({ organizationId }) => organizationId === id);
}

function unauthorized(): ApiError {
  return new ApiError('UNAUTHORIZED', undefined, undefined, { 'www-authenticate': 'Bearer' });
}

function unknownUser(): ApiError {
  return new ApiError('FORBIDDEN', 'The user of this token is not a member of any organization');
}

/** `Authorization` takes precedence over `x-api-key`, even if it is invalid. */
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
    return { chosen: own, refusal: invalid({ path: 'x-organization-id', message: 'must be a UUID' }) };
  }
  const chosen = memberships.find(({ organization }) => organization.id === header.toLowerCase());
  if (chosen) return { chosen, refusal: null };
  return { chosen: own, refusal: new ApiError('FORBIDDEN', 'The caller is not a member of this organization') };
}
