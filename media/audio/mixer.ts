/** Two tracks of 20 ms frames as one. Each waits for the other a little; one that is missing is silence. */
import type { Track } from '../agents/agent.js';
import type { PhoneCodec } from '../engine.js';
import { alawToLinear, linearToAlaw, linearToUlaw, ulawToLinear } from './g711.js';

const toLinear = { PCMU: ulawToLinear, PCMA: alawToLinear };
const fromLinear = { PCMU: linearToUlaw, PCMA: linearToAlaw };
/** Frames that one track may be ahead: the jitter of a phone, and a network that stood still. */
const aheadAtMost = 10;

export class Mixer {
  private readonly waiting: Record<Track, Int16Array[]> = { caller: [], agent: [] };
  private mixed = new Uint8Array(0);

  /** The mixed frame is valid during the call. */
  constructor(private readonly deliver: (frame: Uint8Array, atMs: number) => void) {}

  push(track: Track, frame: Uint8Array, codec: PhoneCodec, atMs: number): void {
    const { caller, agent } = this.waiting;
    this.waiting[track].push(Int16Array.from(frame, (byte) => toLinear[codec][byte]!));
    while (caller.length > 0 || agent.length > 0) {
      const ahead = Math.max(caller.length, agent.length);
      if ((caller.length === 0 || agent.length === 0) && ahead <= aheadAtMost) return;
      this.deliver(this.mix(caller.shift(), agent.shift(), frame.length, codec), atMs);
    }
  }

  private mix(a: Int16Array | undefined, b: Int16Array | undefined, length: number, codec: PhoneCodec): Uint8Array {
    if (this.mixed.length !== length) this.mixed = new Uint8Array(length);
    for (let i = 0; i < length; i++) {
      const sum = (a?.[i] ?? 0) + (b?.[i] ?? 0);
      this.mixed[i] = fromLinear[codec][Math.max(-32768, Math.min(32767, sum)) & 0xffff]!;
    }
    return this.mixed;
  }
}
