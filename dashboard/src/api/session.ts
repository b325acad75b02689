/** The credentials of this tab. They are kept in the session storage, which ends with the tab, and are never part of a URL. */

export interface Session {
  /** An API key or a token of the identity provider. */
  token: string;
  /** The chosen organization; null for the first of the caller. */
  organizationId: string | null;
}

const name = 'trunkline.session';
let current: Session | null = read();
const listeners = new Set<() => void>();

function read(): Session | null {
  try {
    const { token, organizationId } = JSON.parse(sessionStorage.getItem(name) ?? 'null') ?? {};
    return typeof token === 'string' ? { token, organizationId: organizationId ?? null } : null;
  } catch {
    return null; // storage is off, or holds something else
  }
}

export function session(): Session | null {
  return current;
}

/** Whether the last session ended by itself: its key was revoked, or its token has expired. */
export let hasEnded = false;

/** The API no longer accepts the credentials. */
export function endSession(): void {
  hasEnded = current !== null;
  if (current !== null) setSession(null);
}

export function setSession(next: Session | null): void {
  current = next;
  if (next) hasEnded = false;
  try {
    if (next) sessionStorage.setItem(name, JSON.stringify(next));
    else sessionStorage.removeItem(name);
  } catch {
    // without storage, the session lives until the page is loaded again
  }
  for (const listener of listeners) listener();
}

export function onSession(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** The headers that authorize a request; none without a session. */
export function authorization(): Record<string, string> {
  if (!current) return {};
  return {
    authorization: `Bearer ${current.token}`,
    ...(current.organizationId && { 'x-organization-id': current.organizationId }),
  };
}
