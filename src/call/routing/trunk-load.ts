/** Counts the calls of each trunk: those at once by this node, those that begin in a second as `CallRates` does. */
import type { CallRates } from '../../redis/call-rates.js';

export interface TrunkCaps {
  /** Simultaneous calls; null: no limit. */
  maxCalls: number | null;
  /** New calls per second; null: no limit. */
  callsPerSecond: number | null;
}

export class TrunkLoad {
  readonly #calls = new Map<string, number>();

  constructor(private readonly rates: CallRates) {}

  /** Takes a place in the trunk; the function gives it back, once. null when the trunk is full. Never rejects. */
  async enter(trunkId: string, caps: TrunkCaps): Promise<(() => void) | null> {
    const calls = this.#calls.get(trunkId) ?? 0;
    if (caps.maxCalls !== null && calls >= caps.maxCalls) return null;
    this.#calls.set(trunkId, calls + 1);
    let isIn = true;
    const leave = (): void => {
      if (isIn) this.#left(trunkId);
      isIn = false;
    };
    if (caps.callsPerSecond === null || (await this.rates.begin('trunk', trunkId, caps.callsPerSecond))) return leave;
    leave();
    return null;
  }

  #left(trunkId: string): void {
    const left = (this.#calls.get(trunkId) ?? 1) - 1;
    if (left > 0) this.#calls.set(trunkId, left);
    else this.#calls.delete(trunkId);
  }
}
