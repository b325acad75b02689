import type { StoredEvents } from '../database/store-database.js';
import type { Scope } from '../tenants/scope.js';
import { type CallEvent, toCallEvent } from './call-records.js';

export type EventListener = (event: CallEvent) => void;

/** Publishes the events of an organization's calls to subscribers after they are on disk. */
export class EventFeed {
  /** `stored`: the events of all nodes, which are published instead of what `tell` says; null: this process is alone. */
  constructor(private readonly stored: StoredEvents | null = null) {
    stored?.publishTo((rows) => {
      for (const row of rows)
        this.publish({ organizationId: row.organization_id, mode: row.mode }, () => toCallEvent(row));
      return !this.isEmpty;
    });
  }

  /** Whether the events of all nodes are published, in the order of their commits. */
  get isOfAllNodes(): boolean {
    return this.stored !== null;
  }

  /** Resolves when everything that is written from now on reaches the subscribers. */
  begin(): Promise<void> {
    return this.stored?.begin() ?? Promise.resolve();
  }

  private readonly listeners = new Map<string, Set<EventListener>>();

  /** Returns a function that unsubscribes. A listener must not throw. */
  subscribe(scope: Scope, listener: EventListener): () => void {
    const key = keyOf(scope);
    const all = this.listeners.get(key) ?? new Set();
    this.listeners.set(key, all.add(listener));
    return () => {
      all.delete(listener);
      if (all.size === 0 && this.listeners.get(key) === all) this.listeners.delete(key);
    };
  }

  get isEmpty(): boolean {
    return this.listeners.size === 0;
  }

  /** The number of subscribers. */
  count(scope: Scope): number {
    return this.listeners.get(keyOf(scope))?.size ?? 0;
  }

  /** Tells of an event of this process. */
  tell(scope: Scope, event: () => CallEvent): void {
    if (this.stored === null) this.publish(scope, event);
  }

  private publish(scope: Scope, event: () => CallEvent): void {
    const listeners = this.listeners.get(keyOf(scope));
    if (!listeners) return;
    const told = event();
    for (const listener of [...listeners]) listener(told);
  }
}

function keyOf({ organizationId, mode }: Scope): string {
  return `${organizationId} ${mode}`;
}
