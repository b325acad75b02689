/** Mixes two tracks of 20 ms frames into one. Each track waits a little for the other; a missing track is silence. */
import type { AudioTrack } from '../../agents/agent.js';
import type { PhoneCodec } from '../../engine.js';
import { readSamples, writeSamples } from '../sample-format.js';
import { ScratchBuffer } from '../scratch-buffer.js';

/** The most frames that one track may be ahead: covers a phone's jitter and short network stalls. */
const aheadAtMost = 10;

export class Mixer {
  private readonly waiting: Record<AudioTrack, Int16Array[]> = { caller: [], agent: [] };
  private readonly decoded = new ScratchBuffer(Int16Array);

  /** `frame` is valid during the call. */
  constructor(private readonly deliver: (frame: Uint8Array, atMs: number) => void) {}

  push(track: AudioTrack, frame: Uint8Array, codec: PhoneCodec, atMs: number): void {
    const { caller, agent } = this.waiting;
    this.waiting[track].push(readSamples(frame, codec, this.decoded).slice());
    while (caller.length > 0 || agent.length > 0) {
      const ahead = Math.max(caller.length, agent.length);
      if ((caller.length === 0 || agent.length === 0) && ahead <= aheadAtMost) return;
      this.deliver(writeSamples(mixed(caller.shift(), agent.shift()), codec), atMs);
    }
  }
}

function mixed(a: Int16Array | undefined, b: Int16Array | undefined): Int16Array {
  const sum = new Int16Array(Math.max(a?.length ?? 0, b?.length ?? 0));
  for (let i = 0; i < sum.length; i++) sum[i] = Math.max(-32768, Math.min(32767, (a?.[i] ?? 0) + (b?.[i] ?? 0)));
  return sum;
}
