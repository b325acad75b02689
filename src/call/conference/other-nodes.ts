import type { Scope } from '../../store/tenants/scope.js';
import type { ConferenceEntry, ConferencesElsewhere, Full } from './conferences.js';
import { type GuestDeps, GuestPlace } from './guest-place.js';
import type { ConferencePlace } from './place.js';

/** Which node has each conference. */
export interface ConferenceTable {
  claim(
    scope: Scope,
    name: string,
    id: string,
    address: string,
  ): Promise<{ id: string; isThisNode: boolean; address: string }>;
  release(id: string): Promise<void>;
}

/** The conferences of the other nodes of this installation. */
export class OtherNodesConferences implements ConferencesElsewhere {
  constructor(
    private readonly table: ConferenceTable,
    private readonly deps: GuestDeps,
  ) {}

  async claim(scope: Scope, name: string, id: string): ReturnType<ConferencesElsewhere['claim']> {
    return this.table.claim(scope, name, id, await this.deps.sip.nodeAddress());
  }

  release(id: string): Promise<void> {
    return this.table.release(id);
  }

  enter(
    owner: { id: string; address: string },
    entry: ConferenceEntry,
    signal: AbortSignal,
  ): Promise<ConferencePlace | Full> {
    return GuestPlace.enter(owner, entry, this.deps, signal);
  }
}
