import type { Action, FollowUp } from '../../webhook/actions.js';
import type { Application } from '../party/application.js';

/**
 * One attempt to connect the first caller of a queue with a caller who dialled the queue. Each of the two runs its own script; here they
 * meet, and either of them ends it.
 */
export class Pickup {
  readonly #over = new AbortController();
  /** Resolves when the waiting caller has heard what comes before the connection. */
  readonly ready: Promise<void>;
  isReady!: () => void;
  /** The part of the waiting caller in the bridge. */
  readonly part: Promise<Application>;
  bridge!: (part: Application) => void;

  constructor(
    /** Asks for the document that the waiting caller hears first, or for the one it redirects to; null: there is none. */
    readonly whisper: ((to: FollowUp | null, signal: AbortSignal) => Promise<Action[]>) | null,
  ) {
    this.ready = new Promise((resolve) => {
      this.isReady = resolve;
    });
    this.part = new Promise((resolve) => {
      this.bridge = resolve;
    });
  }

  /** Aborts when one of the two has left. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  end(): void {
    this.#over.abort();
  }
}
