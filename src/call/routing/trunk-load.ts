/** Counts the calls of each trunk, and the calls that it got in the last second. */

export interface TrunkCaps {
  /** Simultaneous calls; null: no limit. */
  maxCalls: number | null;
  /** New calls per second; null: no limit. */
  callsPerSecond: number | null;
}

interface Load {
  calls: number;
  /** Starts of the last second, oldest first. */
  starts: number[];
}

export class TrunkLoad {
  readonly #loads = new Map<string, Load>();

  constructor(private readonly nowMs: () => number) {}

  /** Takes a place in the trunk; the returned function gives it back, once. null when the trunk is full. */
  enter(trunkId: string, caps: TrunkCaps): (() => void) | null {
    const load = this.#loads.get(trunkId) ?? { calls: 0, starts: [] };
    this.#loads.set(trunkId, load);
    const now = this.nowMs();
    while (load.starts.length > 0 && (load.starts[0] ?? now) <= now - 1000) load.starts.shift();
    if (caps.maxCalls !== null && load.calls >= caps.maxCalls) return null;
    if (caps.callsPerSecond !== null) {
      if (load.starts.length >= caps.callsPerSecond) return null;
      load.starts.push(now);
    }
    load.calls += 1;
    let isIn = true;
    return () => {
      if (isIn) load.calls -= 1;
      isIn = false;
    };
  }

  /** Removes trunks that were deleted and are idle. */
  keepOnly(trunkIds: ReadonlySet<string>): void {
    for (const [id, load] of this.#loads) if (load.calls === 0 && !trunkIds.has(id)) this.#loads.delete(id);
  }
}
