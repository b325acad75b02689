import type { Scope } from '../tenants/scope.js';
import type { CallEvent } from './call-records.js';

export type EventListener = (event: CallEvent) => void;

/** Who wants to hear of the events of an organization's calls, as they come to disk. */
export class EventFeed {
  private readonly listeners = new Map<string, Set<EventListener>>();

  /** Answers how to stop. A listener must not throw. */
  subscribe(scope: Scope, listener: EventListener): () => void {
    const key = keyOf(scope);
    const all = this.listeners.get(key) ?? new Set();
    this.listeners.set(key, all.add(listener));
    return () => {
      all.delete(listener);
      if (all.size === 0 && this.listeners.get(key) === all) this.listeners.delete(key);
    };
  }

  /** How many listen. */
  count(scope: Scope): number {
    return this.listeners.get(keyOf(scope))?.size ?? 0;
  }

  tell(scope: Scope, event: () => CallEvent): void {
    const listeners = this.listeners.get(keyOf(scope));
    if (!listeners) return;
    const told = event();
    for (const listener of [...listeners]) listener(told);
  }
}

function keyOf({ organizationId, mode }: Scope): string {
  return `${organizationId} ${mode}`;
}
