import type { Clock } from '../database/clock.js';
import { type ApiKey, type ApiKeys, hashOf } from './api-keys.js';
import type { Membership, Organizations, User } from './organizations.js';

/** Whose key it is, and where that user may act. */
export interface Identity {
  key: ApiKey;
  user: User;
  memberships: Membership[];
}

/** What other processes change is known this much later; what this one changes, at once. Open streams add their own look-out to it. */
const keptMs = 400;
const keptAtOnce = 10_000;

/** Whom keys stand for: asked at every request, so answers are kept for a moment, under the hash of the key. */
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
