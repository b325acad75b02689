/** Converts RTP timestamps to ticks of an eighth of a millisecond, also across changes to a codec with another clock. */

export class TimestampClock {
  private scale = 1;
  private rtp = 0;
  private line = 0;

  /** `scale`: RTP clock ticks per tick. `expected`: the position of the packet if it is the first with this clock. */
  place(timestamp: number, scale: number, expected: number): number {
    if (scale !== this.scale) {
      this.scale = scale;
      this.rtp = timestamp;
      this.line = expected;
      return expected;
    }
    const ticks = Math.round(((timestamp - this.rtp) | 0) / scale);
    this.rtp = (this.rtp + ticks * scale) >>> 0;
    this.line = (this.line + ticks) >>> 0;
    return this.line;
  }

  /** Packets with the clock of the last one followed it without a gap. */
  advance(ticks: number): void {
    this.rtp = (this.rtp + ticks * this.scale) >>> 0;
    this.line = (this.line + ticks) >>> 0;
  }
}
