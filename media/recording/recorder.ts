/**
 * Both directions of a session on one timeline, in blocks of one second of 16 bit stereo: left the phone's audio by its RTP timestamps, right
 * the audio to the phone at the time it is sent. With one channel only the phone's audio. Audio that never arrived stays silence.
 */

import { createResampler, type Resampler } from '../audio/dsp/resample.js';
import { RtpTimeline } from '../audio/receive/rtp-timeline.js';
import { readSamples, sampleFormatOf, ticksPerMs } from '../audio/sample-format.js';
import { ScratchBuffer } from '../audio/scratch-buffer.js';
import type { PhoneCodec } from '../engine.js';

/** A block is handed on this long after its second, so that late packets still find their place. */
const lateMs = 500;

/** No network holds packets back for longer. */
const latestMs = 10_000;

/** In samples from the start of the recording. */
interface Stretch {
  from: number;
  to: number;
}

/** One direction: the placement of its packets and their resampling to the file's rate. */
interface Direction {
  track: RtpTimeline;
  /** When it was spoken, however late it arrived: what was spoken in a silent stretch is left out. */
  spoken: RtpTimeline;
  /** Channel in a stereo frame. */
  channel: 0 | 1;
  codec: PhoneCodec | null;
  resampler: Resampler | null;
}

const direction = (channel: 0 | 1): Direction => ({
  track: new RtpTimeline(),
  spoken: new RtpTimeline(latestMs),
  channel,
  codec: null,
  resampler: null,
});

export class Recorder {
  private readonly phone = direction(0);
  private readonly heard = direction(1);
  private readonly blockSamples: number;
  private readonly samplesPerMs: number;
  private readonly decoded = new ScratchBuffer(Int16Array);
  /** The first second that was not handed on yet. */
  private firstBlock = 0;
  private readonly blocks: Int16Array[] = [];
  private readonly silent: Stretch[] = [];
  /** End of the written audio. */
  private endSample = 0;

  constructor(
    private readonly startMs: number,
    /** Receives second `index`, which it then owns. The last block may be shorter. */
    private readonly hand: (index: number, samples: Int16Array) => void,
    readonly channels: 1 | 2 = 2,
    private readonly sampleRateHz = 8000,
  ) {
    this.blockSamples = sampleRateHz;
    this.samplesPerMs = sampleRateHz / 1000;
  }

  /** `timestamp` in ticks. */
  fromPhone(timestamp: number, audio: Uint8Array, codec: PhoneCodec, nowMs: number): void {
    this.write(this.phone, timestamp, audio, codec, nowMs);
  }

  toPhone(timestamp: number, audio: Uint8Array, codec: PhoneCodec, nowMs: number): void {
    if (this.channels === 2) this.write(this.heard, timestamp, audio, codec, nowMs);
  }

  /**
   * Silences both directions from `fromMs` until `toMs`: what was not handed on yet, and what is still to come for this time, however late it
   * arrives. A later end of the last such stretch is given by another call with the same begin.
   */
  silence(fromMs: number, toMs: number): void {
    const { samplesPerMs, startMs, silent } = this;
    const stretch = {
      from: Math.round((fromMs - startMs) * samplesPerMs),
      to: Math.round((toMs - startMs) * samplesPerMs),
    };
    if (silent.at(-1)?.from === stretch.from) silent.pop();
    silent.push(stretch);
    this.blank(stretch);
  }

  tick(nowMs: number): void {
    while (nowMs - this.startMs >= (this.firstBlock + 1) * 1000 + lateMs) this.handFirst(this.blockSamples);
  }

  /** Hands on the rest, including the frame that is being sent. Returns the total duration in ms, at most `mostMs`. */
  end(nowMs: number, mostMs: number): number {
    const { blockSamples, samplesPerMs } = this;
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
    this.hand(this.firstBlock, samples === this.blockSamples ? block : block.slice(0, samples * this.channels));
    this.firstBlock += 1;
    const passed = this.firstBlock * this.blockSamples - latestMs * this.samplesPerMs;
    while (this.silent[0] && this.silent[0].to <= passed) this.silent.shift();
  }

  private write(to: Direction, timestamp: number, audio: Uint8Array, codec: PhoneCodec, nowMs: number): void {
    const { blockSamples, channels } = this;
    const nowTick = Math.round((nowMs - this.startMs) * ticksPerMs);
    // Received audio was spoken just before it arrived; sent audio is heard from now on.
    const lasted = to === this.phone ? (audio.length / sampleFormatOf[codec].bytesPerMs) * ticksPerMs : 0;
    const arrivedTick = to === this.phone ? Math.max(0, nowTick - lasted) : nowTick;
    const sample = this.sampleAt(to.track.place(timestamp, arrivedTick));
    const spoken = this.sampleAt(to.spoken.place(timestamp, arrivedTick));
    const samples = this.samplesOf(to, audio, codec);
    this.endSample = Math.max(this.endSample, sample + samples.length);
    if (this.isSilent(spoken, samples.length)) return;
    const from = sample - this.firstBlock * blockSamples;
    for (let i = Math.max(0, -from); i < samples.length; ) {
      const index = Math.floor((from + i) / blockSamples);
      while (this.blocks.length <= index) this.blocks.push(this.newBlock());
      const block = this.blocks[index]!;
      const end = Math.min(samples.length, (index + 1) * blockSamples - from);
      let at = (from + i - index * blockSamples) * channels + to.channel;
      for (; i < end; i++, at += channels) block[at] = samples[i]!;
    }
    for (const each of this.silent) if (each.from < sample + samples.length && each.to > sample) this.blank(each);
  }

  private sampleAt(tick: number): number {
    return Math.round((tick * this.samplesPerMs) / ticksPerMs);
  }

  private isSilent(from: number, length: number): boolean {
    return this.silent.some((each) => each.from <= from && each.to >= from + length);
  }

  private blank({ from, to }: Stretch): void {
    for (const [index, block] of this.blocks.entries()) {
      const at = (this.firstBlock + index) * this.blockSamples;
      block.fill(0, Math.max(0, from - at) * this.channels, Math.max(0, to - at) * this.channels);
    }
  }

  private samplesOf(to: Direction, audio: Uint8Array, codec: PhoneCodec): Int16Array {
    if (codec !== to.codec) {
      const { sampleRateHz } = sampleFormatOf[codec];
      to.codec = codec;
      to.resampler = sampleRateHz === this.sampleRateHz ? null : createResampler(sampleRateHz, this.sampleRateHz);
    }
    const samples = readSamples(audio, codec, this.decoded);
    return to.resampler ? to.resampler.process(samples) : samples;
  }

  private newBlock(): Int16Array {
    return new Int16Array(this.blockSamples * this.channels);
  }
}
