import type { Clock } from '../database/clock.js';
import { type ApiKey, type ApiKeys, hashOf } from './api-keys.js';
import type { Membership, Organizations, User } from './organizations.js';

/** The user of a key, and the organizations of that user. */
export interface Identity {
  key: ApiKey;
  user: User;
  memberships: Membership[];
}

/** The delay after which changes of other processes apply; changes of this process apply at once. Open streams add their check interval. */
const keptMs = 400;
const keptAtOnce = 10_000;

/** Looks up the users of keys. Every request does so; results are cached briefly under the hash of the key. */
export class Identities {
  private readonly kept = new Map<string, { untilMs: number; identity: Identity }>();

  constructor(
    private readonly keys: ApiKeys,
    private readonly organizations: Organizations,
    private readonly clock: Clock,
  ) {
    const forget = () => this.kept.clear();
    keys.onChanged = forget;
    organizations.onChanged = forget;
  }

  /** undefined: the key is malformed, unknown or revoked. */
  ofKey(text: string): Identity | undefined {
    const hash = hashOf(text);
    const now = this.clock.now();
    const known = this.kept.get(hash);
    if (known && known.untilMs > now && known.untilMs <= now + keptMs) return known.identity;
    const key = this.keys.authenticate(text);
    const user = key && this.organizations.user(key.userId);
    if (!key || !user) return undefined;
    const identity = { key, user, memberships: this.organizations.memberships(user.id) };
    if (this.kept.size >= keptAtOnce) this.kept.clear();
    this.kept.set(hash, { untilMs: now + keptMs, identity });
    return identity;
  }
}
