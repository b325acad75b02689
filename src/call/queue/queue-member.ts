/** A call that waits in a queue. */
import type { CallParty } from '../party/party.js';
import type { Pickup } from './pickup.js';

export class QueueMember {
  readonly enteredAt = new Date();
  readonly #enteredMs = performance.now();
  #bridgedMs: number | null = null;
  /** Resolves when the call stops waiting: somebody connects it, or it leaves by its own document. */
  taken!: Promise<Pickup | 'leave'>;
  take!: (by: Pickup | 'leave') => void;

  constructor(readonly party: CallParty) {
    this.wait();
  }

  /** Until now, or until it was bridged. */
  get waitedSec(): number {
    return Math.round(((this.#bridgedMs ?? performance.now()) - this.#enteredMs) / 1000);
  }

  bridged(): void {
    this.#bridgedMs = performance.now();
  }

  /** It waits from now on, also after a connection that did not come about. */
  wait(): void {
    this.taken = new Promise((resolve) => {
      this.take = resolve;
    });
  }
}
