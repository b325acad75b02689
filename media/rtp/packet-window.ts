/** The 48 bit numbers of packets whose own have 16 (RFC 3711 section 3.3.1), and which of them were there already (3.3.2). */

/** Packets this far behind the newest are too old to be known. A power of two, more than the 64 that are asked for. */
const windowPackets = 1024;

export class PacketWindow {
  /** Of the newest packet; -1: none yet. */
  private highest = -1;
  private readonly seen = new Int32Array(windowPackets / 32);

  /** The number that a sequence number most probably stands for; -1 when it lies before the beginning. */
  indexOf(sequence: number): number {
    if (this.highest < 0) return sequence;
    const newest = this.highest % 65_536;
    const rollovers = (this.highest - newest) / 65_536;
    const ahead = sequence - newest;
    const turn = ahead > 32_768 ? -1 : ahead < -32_768 ? 1 : 0;
    return (rollovers + turn) * 65_536 + sequence;
  }

  /** False for a packet that was there, or is too old to know. */
  isNew(index: number): boolean {
    if (index < 0) return false;
    if (index > this.highest) return true;
    if (this.highest - index >= windowPackets) return false;
    return (this.seen[wordOf(index)]! & (1 << (index % 32))) === 0;
  }

  /** This packet is genuine: it was there. */
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
