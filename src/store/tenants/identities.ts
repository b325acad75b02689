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

  private changes = 0;

  constructor(
    private readonly keys: ApiKeys,
    private readonly organizations: Organizations,
    private readonly clock: Clock,
  ) {
    const forget = () => {
      this.changes += 1;
      this.kept.clear();
    };
    keys.onChanged = forget;
    organizations.onChanged = forget;
  }

  /** undefined: the key is malformed, unknown or revoked. */
  async ofKey(text: string): Promise<Identity | undefined> {
    const hash = hashOf(text);
    const now = this.clock.now();
    const known = this.kept.get(hash);
    if (known && known.untilMs > now && known.untilMs <= now + keptMs) return known.identity;
    const { changes } = this;
    const key = await this.keys.authenticate(text);
    const user = key && (await this.organizations.user(key.userId));
    if (!key || !user) return undefined;
    const identity = { key, user, memberships: await this.organizations.memberships(user.id) };
    if (changes !== this.changes) return identity; // it may have been read before the change
    if (this.kept.size >= keptAtOnce) this.kept.clear();
    this.kept.set(hash, { untilMs: now + keptMs, identity });
    return identity;
  }
}
