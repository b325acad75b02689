/** A jitter buffer on the clock of its thread. */
import type { ClockEntry, PlayoutClock } from '../../audio/playout/playout-clock.js';
import { JitterBuffer } from '../../audio/receive/jitter-buffer.js';
import type { PhoneCodec } from '../../engine.js';

/** Timers alone are never this late: the audio may wait in the sockets. */
const lateMs = 1.5;

export class ClockedJitterBuffer {
  private readonly buffer: JitterBuffer;
  private entry: ClockEntry | null = null;
  private hasRead = false;

  /** `deliver` must not throw. */
  constructor(
    codec: PhoneCodec,
    mostMs: number,
    private readonly parts: { clock: PlayoutClock; now(): number },
    deliver: (bytes: Uint8Array, atMs: number) => void,
  ) {
    this.buffer = new JitterBuffer(codec, mostMs, deliver);
  }

  /** 20 ms of the caller's audio. Returns how long it will wait here. */
  push(bytes: Uint8Array, atMs: number): number {
    const { buffer, parts } = this;
    const waitMs = buffer.push(bytes, atMs, parts.now());
    if (this.entry === null) this.entry = parts.clock.add(this.turn, buffer.dueMs);
    else if (this.entry.dueMs === Number.POSITIVE_INFINITY) parts.clock.move(this.entry, buffer.dueMs);
    return waitMs;
  }

  changeCodec(codec: PhoneCodec): void {
    this.buffer.changeCodec(codec);
  }

  close(): void {
    if (this.entry) this.parts.clock.remove(this.entry);
  }

  private readonly turn = (nowMs: number): number | null => {
    const { buffer } = this;
    if (!this.hasRead && !buffer.ready && nowMs - buffer.dueMs >= lateMs) {
      this.hasRead = true;
      return null;
    }
    this.hasRead = false;
    buffer.slot(nowMs);
    return buffer.dueMs;
  };
}
