/** The queues of this process, by organization, mode and name. */
import { randomUUID } from 'node:crypto';
import type { Scope } from '../../store/tenants/scope.js';
import { CallQueue } from './call-queue.js';

/** Of one organization and mode. A queue beyond them replaces one that is idle. */
const mostQueues = 1000;
/** Calls that may wait in a queue whose size nobody set. */
export const usualQueueSize = 100;

export class CallQueues {
  readonly #all = new Map<string, CallQueue>();

  /** The queue of this name, which is made if there is none. null: the organization has as many queues as it may, all in use. */
  open(scope: Scope, name: string, maxSize = usualQueueSize): CallQueue | null {
    return this.#named(scope, name) ?? this.#add(scope, name, maxSize, false);
  }

  /** A queue that is kept until it is deleted. null: there is one of this name, or there are as many queues as there may be. */
  create(scope: Scope, name: string, maxSize: number): CallQueue | null {
    const found = this.#named(scope, name);
    if (found !== undefined && (found.isKept || !found.isIdle)) return null;
    if (found !== undefined) this.delete(found);
    return this.#add(scope, name, maxSize, true);
  }

  list(scope: Scope): CallQueue[] {
    const prefix = keyOf(scope, '');
    return [...this.#all].flatMap(([key, queue]) => (key.startsWith(prefix) ? [queue] : []));
  }

  find(scope: Scope, id: string): CallQueue | undefined {
    return this.list(scope).find((queue) => queue.id === id);
  }

  /** False: somebody waits there. */
  delete(queue: CallQueue): boolean {
    return queue.isIdle && this.#all.delete(keyOf(queue.scope, queue.name));
  }

  #named(scope: Scope, name: string): CallQueue | undefined {
    return this.#all.get(keyOf(scope, name));
  }

  #add(scope: Scope, name: string, maxSize: number, isKept: boolean): CallQueue | null {
    const all = this.list(scope);
    if (all.length >= mostQueues) {
      const idle = all.find((queue) => queue.isIdle && !queue.isKept);
      if (idle === undefined) return null;
      this.delete(idle);
    }
    const made = new CallQueue(
      randomUUID(),
      name,
      { organizationId: scope.organizationId, mode: scope.mode },
      maxSize,
      isKept,
    );
    this.#all.set(keyOf(scope, name), made);
    return made;
  }
}

function keyOf({ organizationId, mode }: Scope, name: string): string {
  return `${organizationId} ${mode} ${name}`;
}
