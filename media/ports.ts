/**
 * RTP port pairs (RFC 3550 section 11: even for RTP, the next one for RTCP). The main thread owns them, so that they survive a media
 * thread. The least recently used pair is taken first, so that a port rests as long as the range allows.
 */
export interface RtpPortRange {
  from: number;
  to: number;
}

export class RtpPorts {
  private readonly free: number[] = [];
  private readonly used = new Set<number>();
  /** Resting pairs with the timer that ends the rest; null while a media thread still drains the port. */
  private readonly resting = new Map<number, NodeJS.Timeout | null>();

  constructor(range: RtpPortRange) {
    for (let port = range.from + (range.from & 1); port + 1 <= range.to; port += 2) this.free.push(port);
  }

  /** The RTP port of a pair, or null when all are in use or resting. */
  take(): number | null {
    const port = this.free.shift();
    if (port === undefined) return null;
    this.used.add(port);
    return port;
  }

  /** Returns a port that was never bound; it is free at once. */
  giveBack(port: number): void {
    if (this.used.delete(port)) this.free.push(port);
  }

  /** Puts the port to rest for a time: another process has it, or the thread that drained it died. */
  rest(port: number, restMs: number): void {
    const timer = this.resting.get(port);
    if (timer) clearTimeout(timer);
    if (!this.used.delete(port) && timer === undefined) return;
    this.resting.delete(port);
    if (restMs <= 0) {
      this.free.push(port);
      return;
    }
    this.resting.set(
      port,
      setTimeout(() => this.restOver(port), restMs),
    );
  }

  /** Puts the port to rest until `restOver`, while its media thread drains what the old peer still sends. */
  restUntilQuiet(port: number): void {
    if (this.used.delete(port)) this.resting.set(port, null);
  }

  restOver(port: number): void {
    const timer = this.resting.get(port);
    if (timer === undefined) return;
    if (timer) clearTimeout(timer);
    this.resting.delete(port);
    this.free.push(port);
  }

  count(): { used: number; quarantined: number; total: number } {
    const { used, resting, free } = this;
    return { used: used.size, quarantined: resting.size, total: used.size + resting.size + free.length };
  }

  close(): void {
    for (const timer of this.resting.values()) if (timer) clearTimeout(timer);
  }
}
