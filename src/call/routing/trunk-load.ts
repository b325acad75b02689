/** Counts the calls of each trunk: those at once, and those that begin in a second. */
import type { CallPlaces } from '../../redis/call-places.js';
import type { CallRates } from '../../redis/call-rates.js';

export interface TrunkCaps {
  /** Simultaneous calls; null: no limit. */
  maxCalls: number | null;
  /** New calls per second; null: no limit. */
  callsPerSecond: number | null;
}

export class TrunkLoad {
  readonly #calls = new Map<string, number>();

  /** `places`: shared with other nodes; null: there are none. */
  constructor(
    private readonly rates: CallRates,
    private readonly places: CallPlaces | null = null,
  ) {}

  /** Takes a place in the trunk; the function gives it back, once. null when the trunk is full. Never rejects. */
  async enter(trunkId: string, caps: TrunkCaps): Promise<(() => void) | null> {
    const calls = this.#calls.get(trunkId) ?? 0;
    if (caps.maxCalls !== null && calls >= caps.maxCalls) return null;
    this.#calls.set(trunkId, calls + 1);
    let leavePlace: (() => void) | null = null;
    let isIn = true;
    const leave = (): void => {
      if (!isIn) return;
      isIn = false;
      this.#left(trunkId);
      leavePlace?.();
    };
    if (caps.maxCalls !== null && this.places !== null) {
      leavePlace = await this.places.take(`trunk:${trunkId}`, caps.maxCalls);
      if (leavePlace === null) {
        leave();
        return null;
      }
    }
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
