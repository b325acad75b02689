/** RTP timestamps in the ticks of a line (an eighth of a millisecond), also when a stream changes to a codec with another clock. */

export class LineClock {
  private scale = 1;
  private rtp = 0;
  private line = 0;

  /** `scale`: ticks of the clock in one of the line. `expected`: where the packet lies when it is the first by its clock. */
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
}
