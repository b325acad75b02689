/** Impairs the packets that we send: loss, jitter, reordering, duplicates; from a seed, so that a run can be repeated. */

export interface Impairments {
  /** Share of lost packets. */
  lossPercent?: number;
  /** Mean length of a run of lost packets (Gilbert's model); absent: losses are independent. */
  burstPackets?: number;
  /** Each packet is delayed by a random time from 0 to this; the order is kept. */
  jitterMs?: number;
  /** Share of packets delayed so long that the next packet overtakes them. */
  reorderPercent?: number;
  /** Share of packets sent twice. */
  duplicatePercent?: number;
  /** Seed of the random numbers; default 1. */
  seed?: number;
}

/** Counts of impaired packets, to compare with the far side's statistics. */
export interface ImpairmentCounts {
  dropped: number;
  reordered: number;
  duplicated: number;
}

export interface Timers {
  now(): number;
  after(delayMs: number, fn: () => void): { cancel(): void };
}

export const realTimers: Timers = {
  now: () => performance.now(),
  after: (delayMs, fn) => {
    const timer = setTimeout(fn, delayMs);
    return { cancel: () => clearTimeout(timer) };
  },
};

export class ImpairedPath {
  readonly counts: ImpairmentCounts = { dropped: 0, reordered: 0, duplicated: 0 };
  private readonly random: () => number;
  private readonly waiting = new Set<{ cancel(): void }>();
  /** Delayed packets that keep their order, oldest first: each timer sends the first one, because timers may fire out of order. */
  private readonly held: (() => void)[] = [];
  private lastReleaseMs = 0;
  private losing = false;

  constructor(
    private readonly impairments: Impairments,
    private readonly send: (packet: Uint8Array) => void,
    /** Packet interval; a reordered packet waits for one and a half of them. */
    private readonly packetMs: number,
    private readonly timers: Timers = realTimers,
  ) {
    this.random = seeded(impairments.seed ?? 1);
  }

  /** Sends, delays or drops the packet. The packet must not be reused. */
  forward(packet: Uint8Array): void {
    const { jitterMs = 0, reorderPercent = 0, duplicatePercent = 0 } = this.impairments;
    if (this.isLost()) {
      this.counts.dropped += 1;
      return;
    }
    const nowMs = this.timers.now();
    let releaseMs = Math.max(nowMs + (jitterMs > 0 ? this.random() * jitterMs : 0), this.lastReleaseMs);
    const overtaken = this.happens(reorderPercent);
    if (overtaken) {
      this.counts.reordered += 1;
      releaseMs = Math.max(releaseMs, nowMs) + jitterMs + this.packetMs * 1.5;
    } else this.lastReleaseMs = releaseMs;
    const copies = this.happens(duplicatePercent) ? 2 : 1;
    this.counts.duplicated += copies - 1;
    const release = () => {
      for (let i = 0; i < copies; i++) this.send(packet);
    };
    if (releaseMs - nowMs < 0.5 && this.held.length === 0) {
      release();
      return;
    }
    if (!overtaken) this.held.push(release);
    const timer = this.timers.after(releaseMs - nowMs, () => {
      this.waiting.delete(timer);
      if (overtaken) release();
      else this.held.shift()?.();
    });
    this.waiting.add(timer);
  }

  /** Discards the delayed packets. */
  close(): void {
    for (const timer of this.waiting) timer.cancel();
    this.waiting.clear();
    this.held.length = 0;
  }

  /** Gilbert's model: a run ends with a probability of 1 / its mean length, and begins so often that the total share is as requested. */
  private isLost(): boolean {
    const { lossPercent = 0, burstPackets = 1 } = this.impairments;
    if (burstPackets <= 1 || lossPercent === 0) return this.happens(lossPercent);
    const share = Math.min(lossPercent / 100, 0.99);
    const begins = share / ((1 - share) * burstPackets);
    this.losing = this.losing ? !this.happens(100 / burstPackets) : this.happens(begins * 100);
    return this.losing;
  }

  private happens(percent: number): boolean {
    return percent > 0 && this.random() * 100 < percent;
  }
}

/** Uniform in [0, 1): mulberry32. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
