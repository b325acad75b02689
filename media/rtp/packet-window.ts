/** Extends 16 bit sequence numbers to 48 bit packet indexes (RFC 3711 section 3.3.1) and detects replays (3.3.2). */

/** Older packets cannot be checked and are rejected. A power of two, above the minimum of 64. */
const windowPackets = 1024;

export class PacketWindow {
  /** Index of the newest packet; -1 before the first. */
  private highest = -1;
  private readonly seen = new Int32Array(windowPackets / 32);

  /** The most likely index of a sequence number; -1 when it lies before the first possible index. */
  indexOf(sequence: number): number {
    if (this.highest < 0) return sequence;
    const newest = this.highest % 65_536;
    const rollovers = (this.highest - newest) / 65_536;
    const ahead = sequence - newest;
    const turn = ahead > 32_768 ? -1 : ahead < -32_768 ? 1 : 0;
    return (rollovers + turn) * 65_536 + sequence;
  }

  /** False for a replayed packet and for one too old to be checked. */
  isNew(index: number): boolean {
    if (index < 0) return false;
    if (index > this.highest) return true;
    if (this.highest - index >= windowPackets) return false;
    return (this.seen[wordOf(index)]! & (1 << (index % 32))) === 0;
  }

  /** Records a packet that proved to be authentic. */
  add(index: number): void {
    const { seen } = this;
    if (index > this.highest) {
      const skipped = Math.min(index - this.highest, windowPackets);
      for (let i = 1; i <= skipped; i++) clear(seen, index - skipped + i);
      this.highest = index;
    }
    seen[wordOf(index)] = seen[wordOf(index)]! | (1 << (index % 32));
  }
}

function wordOf(index: number): number {
  return Math.floor(index / 32) % (windowPackets / 32);
}

function clear(seen: Int32Array, index: number): void {
  seen[wordOf(index)] = seen[wordOf(index)]! & ~(1 << (index % 32));
}
