/**
 * The live dialogs and transactions: legs, incoming INVITEs that ring, and our INVITEs without a final response. Shutdown waits until it is
 * empty.
 */

import type { Stack } from '../drachtio/types.js';
import type { DialogSnapshot, UnansweredInvite } from '../leg.js';
import type { DialogLeg } from './dialog-leg.js';
import type { Replaces } from './replaces-header.js';

const mostPast = 1000;

/** An INVITE from outside without final answer. */
export interface RingingInvite {
  /** The server it came by. */
  readonly server: Stack;
  /** The dialog of its 200, while no ACK came; null: no 200 was sent. */
  readonly unconfirmed: DialogSnapshot | null;
  /** What another process needs to refuse it; null: it has its final answer. */
  readonly unanswered: UnansweredInvite | null;
  /** Its server is gone. */
  lost(): void;
  reject(refusal: { status: number; reason?: string; headers?: Record<string, string> }): Promise<void>;
}

export class DialogRegistry {
  readonly legs = new Set<DialogLeg>();
  readonly ringing = new Set<RingingInvite>();
  /** Our INVITEs without a final response, each with the function that cancels it. */
  readonly dialling = new Map<Promise<unknown>, () => void>();
  /** `Call-ID;from-tag` of dialogs that we opened. An INVITE that arrives with one of them is a loop. */
  readonly #ours = new Map<string, number>();
  /** The most recent dialogs that ended. */
  readonly #past = new Set<string>();
  #waiting: (() => void)[] = [];

  get isIdle(): boolean {
    return this.legs.size + this.ringing.size + this.dialling.size === 0;
  }

  /** Resolves when nothing is live. */
  idle(): Promise<void> {
    return this.isIdle ? Promise.resolve() : new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** To be called after each removal. */
  settled(): void {
    if (!this.isIdle) return;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }

  /** The leg is over and fully released. */
  left(leg: DialogLeg): void {
    this.legs.delete(leg);
    this.#past.add(keyOf(leg.tags));
    if (this.#past.size > mostPast) this.#past.delete(this.#past.values().next().value ?? '');
    this.settled();
  }

  /** The leg that an INVITE wants to replace; `past` when that leg has ended (RFC 3891 section 3). */
  replaceable(replaces: Omit<Replaces, 'earlyOnly'>): DialogLeg | 'past' | null {
    const wanted = keyOf(replaces);
    for (const leg of this.legs) if (keyOf(leg.tags) === wanted) return leg.isOver ? 'past' : leg;
    return this.#past.has(wanted) ? 'past' : null;
  }

  /** Registers a dialog id of ours; the returned function releases it. */
  claim(dialogId: string): () => void {
    this.#ours.set(dialogId, (this.#ours.get(dialogId) ?? 0) + 1);
    return () => {
      const left = (this.#ours.get(dialogId) ?? 1) - 1;
      if (left > 0) this.#ours.set(dialogId, left);
      else this.#ours.delete(dialogId);
    };
  }

  isOurs(dialogId: string): boolean {
    return this.#ours.has(dialogId);
  }
}

function keyOf({ callId, localTag, remoteTag }: Omit<Replaces, 'earlyOnly'>): string {
  return `${callId};${localTag};${remoteTag}`;
}
