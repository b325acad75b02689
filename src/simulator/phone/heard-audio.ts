/** The received audio on the sender's time line: each packet is at the position of its RTP timestamp, whenever it arrived. */
import { sampleRateHz } from './marker.js';

/** A timestamp that differs this much from the elapsed time begins a new stream; it is not a pause. */
const clockJumpSamples = sampleRateHz * 2;
const leastSkewMs = 6000;
/** Two packets: a smaller drift is also what a queue at the far end makes. */
const leastDriftMs = 40;
const firstRoomSamples = sampleRateHz * 10;

interface Placed {
  at: number;
  arrivalMs: number;
}

export class HeardAudio {
  private room = new Int16Array(firstRoomSamples);
  private length = 0;
  /** In order of their positions. */
  private readonly placed: Placed[] = [];
  private lastTimestamp = 0;
  private lastAt = 0;
  private lastArrivalMs = 0;

  /** `maxSec`: audio beyond it is not kept, which limits the memory. */
  constructor(private readonly maxSec: number) {}

  add(timestamp: number, samples: Int16Array, arrivalMs: number): void {
    const at = this.place(timestamp, arrivalMs);
    const end = at + samples.length;
    if (at < 0 || end > this.maxSec * sampleRateHz) return;
    if (end > this.room.length) {
      const larger = new Int16Array(Math.max(end, this.room.length * 2));
      larger.set(this.room);
      this.room = larger;
    }
    this.room.set(samples, at);
    this.length = Math.max(this.length, end);
    let index = this.placed.length;
    while (index > 0 && this.placed[index - 1]!.at > at) index -= 1;
    this.placed.splice(index, 0, { at, arrivalMs });
  }

  /** All audio from the first packet on; lost packets are silence. */
  get samples(): Int16Array {
    return this.room.subarray(0, this.length);
  }

  /** When the sample at this position arrived: the arrival of its packet, plus its offset in it. */
  arrivalMsOf(at: number): number {
    const packet = this.packetAt(at);
    return packet ? packet.arrivalMs + ((at - packet.at) / sampleRateHz) * 1000 : Number.NaN;
  }

  /** The first position whose packet arrived at this time or later. */
  placeAt(arrivalMs: number): number {
    return this.placed.find((packet) => packet.arrivalMs >= arrivalMs)?.at ?? this.length;
  }

  /** How much faster the far side's clock is than ours, in parts per million; null: too little audio or drift to tell. */
  get clockSkewPpm(): number | null {
    const [first, last] = [this.earliest(0, 0.2), this.earliest(0.8, 1)];
    if (!first || !last || last.arrivalMs - first.arrivalMs < leastSkewMs) return null;
    const playedMs = ((last.at - first.at) / sampleRateHz) * 1000;
    const passedMs = last.arrivalMs - first.arrivalMs;
    return Math.abs(playedMs - passedMs) < leastDriftMs ? null : (playedMs / passedMs - 1) * 1e6;
  }

  /** The packet with the shortest delay in this part: network delay varies, clock skew does not. */
  private earliest(from: number, to: number): Placed | undefined {
    const part = this.placed.slice(Math.floor(this.placed.length * from), Math.floor(this.placed.length * to));
    const lead = ({ at, arrivalMs }: Placed) => arrivalMs - (at / sampleRateHz) * 1000;
    let best = part[0];
    for (const packet of part) if (best && lead(packet) < lead(best)) best = packet;
    return best;
  }

  private packetAt(at: number): Placed | undefined {
    let [low, high] = [0, this.placed.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.placed[middle]!.at <= at) low = middle + 1;
      else high = middle;
    }
    return this.placed[low - 1];
  }

  private place(timestamp: number, arrivalMs: number): number {
    if (this.placed.length === 0 && this.length === 0) {
      this.lastAt = 0;
    } else {
      const stamped = (timestamp - this.lastTimestamp) | 0;
      const passed = Math.round(((arrivalMs - this.lastArrivalMs) / 1000) * sampleRateHz);
      this.lastAt += Math.abs(stamped - passed) > clockJumpSamples ? passed : stamped;
    }
    this.lastTimestamp = timestamp;
    this.lastArrivalMs = arrivalMs;
    return this.lastAt;
  }
}
