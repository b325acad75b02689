/**
 * Both directions of a session on one line of time, in seconds of 16 bit stereo: the phone left, by its RTP timestamps; what it hears
 * right, as it is sent. With one channel the phone alone. What never came stays silence.
 */
import { alawToLinear, ulawToLinear } from '../audio/g711.js';
import { Track } from '../audio/track.js';
import type { PhoneCodec } from '../engine.js';

const samplesPerMs = 8;
export const blockSamples = 8000;
/** A second is handed on this long after it is over: packets that come late still find their place. */
const lateMs = 500;
/** Places of the two directions in a frame of stereo. */
const left = 0;
const right = 1;
const linearOf = { PCMU: ulawToLinear, PCMA: alawToLinear };

export class Recorder {
  private readonly phone = new Track();
  private readonly heard = new Track();
  /** The first second that was not handed on. */
  private firstBlock = 0;
  private readonly blocks: Int16Array[] = [];
  /** Behind the last that was written. */
  private endSample = 0;

  constructor(
    private readonly startMs: number,
    /** A full second, number `index`; the samples are the receiver's. The last one may be shorter. */
    private readonly hand: (index: number, samples: Int16Array) => void,
    readonly channels: 1 | 2 = 2,
  ) {}

  fromPhone(timestamp: number, payload: Uint8Array, codec: PhoneCodec, nowMs: number): void {
    this.write(this.phone, timestamp, payload, codec, nowMs);
  }

  toPhone(timestamp: number, payload: Uint8Array, codec: PhoneCodec, nowMs: number): void {
    if (this.channels === 2) this.write(this.heard, timestamp, payload, codec, nowMs);
  }

  tick(nowMs: number): void {
    while (nowMs - this.startMs >= (this.firstBlock + 1) * 1000 + lateMs) this.handFirst(blockSamples);
  }

  /** Hands on the rest, with the frame that the phone hears just now. Returns the whole length, at most `mostMs`. */
  end(nowMs: number, mostMs: number): number {
    const samples = Math.min(
      Math.max(0, Math.round((nowMs - this.startMs) * samplesPerMs), this.endSample),
      mostMs * samplesPerMs,
    );
    while (this.firstBlock * blockSamples < samples) {
      this.handFirst(Math.min(blockSamples, samples - this.firstBlock * blockSamples));
    }
    return samples / samplesPerMs;
  }

  private handFirst(samples: number): void {
    const block = this.blocks.shift() ?? this.newBlock();
    this.hand(this.firstBlock, samples === blockSamples ? block : block.slice(0, samples * this.channels));
    this.firstBlock += 1;
  }

  private write(track: Track, timestamp: number, payload: Uint8Array, codec: PhoneCodec, nowMs: number): void {
    const nowSample = Math.round((nowMs - this.startMs) * samplesPerMs);
    // What arrives was said just before; what is sent is heard from now on.
    const begun = track === this.phone ? Math.max(0, nowSample - payload.length) : nowSample;
    const sample = track.place(timestamp, begun);
    this.endSample = Math.max(this.endSample, sample + payload.length);
    const from = sample - this.firstBlock * blockSamples;
    const linear = linearOf[codec];
    const { channels } = this;
    for (let i = Math.max(0, -from); i < payload.length; ) {
      const index = Math.floor((from + i) / blockSamples);
      while (this.blocks.length <= index) this.blocks.push(this.newBlock());
      const block = this.blocks[index]!;
      const end = Math.min(payload.length, (index + 1) * blockSamples - from);
      let at = (from + i - index * blockSamples) * channels + (track === this.phone ? left : right);
      for (; i < end; i++, at += channels) block[at] = linear[payload[i]!]!;
    }
  }

  private newBlock(): Int16Array {
    return new Int16Array(blockSamples * this.channels);
  }
}
