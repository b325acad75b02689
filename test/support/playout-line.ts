/** A session's way to the phone on a clock of the test, with an agent that speaks in real time. */
import { linearToUlaw, ulawToLinear } from '../../media/audio/codec/g711.js';
import { Playout } from '../../media/audio/playout/playout.js';
import { PlayoutClock } from '../../media/audio/playout/playout-clock.js';
import { RtpSender } from '../../media/rtp/sender.js';
import { SdpNegotiation } from '../../media/sdp.js';
import { ToPhone } from '../../media/thread/session/to-phone.js';
import { FakeTime } from './fake-time.js';

const frame = 160;

export class PlayoutSchedule {
  readonly time = new FakeTime();
  readonly playout = new Playout('PCMU');
  readonly outward: ToPhone;
  /** Payloads of all packets. */
  readonly sent: { atMs: number; payload: Uint8Array; delayMs: number | null }[] = [];
  private readonly arrivedMs: number[] = [];
  private pushedBytes = 0;

  constructor() {
    const clock = new PlayoutClock(this.time);
    let before = 0;
    const sender = new RtpSender(1, 0, 0, {
      transmit: (packet) => {
        const position = this.pushedBytes - this.playout.queuedMs * 8;
        const arrivedMs = this.arrivedMs[Math.ceil(position / frame) - 1];
        this.sent.push({
          atMs: this.time.nowMs,
          payload: packet.slice(12),
          delayMs:
            position > before && arrivedMs !== undefined
              ? this.time.nowMs - arrivedMs + (frame - (position % frame || frame)) / 8
              : null,
        });
        before = position;
      },
    });
    this.outward = new ToPhone(sender, this.time.nowMs, { due: (dueMs) => clock.move(entry, dueMs) });
    const sdp = new SdpNegotiation({ address: '192.0.2.1', rtpPort: 10_000, codecs: ['PCMU'] }, '1');
    sdp.answer('v=0\r\no=- 1 1 IN IP4 x\r\ns=-\r\nc=IN IP4 192.0.2.5\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n');
    this.outward.agree(sdp.agreed!);
    this.outward.goLive();
    this.outward.attach(this.playout, this.time.nowMs);
    const entry = clock.add((nowMs) => {
      const readyAtMs = this.outward.readyAtMs(nowMs);
      if (readyAtMs !== nowMs) return readyAtMs;
      this.outward.slot(nowMs);
      return this.outward.dueMs;
    }, this.outward.dueMs);
  }

  /** Position in the agent's audio, in samples. */
  get position(): number {
    return this.pushedBytes - this.playout.queuedMs * 8;
  }

  arrive(bytes: Uint8Array, itemId?: string): void {
    this.arrivedMs.push(this.time.nowMs);
    this.pushedBytes += bytes.length;
    this.playout.push(bytes, itemId);
    this.outward.audioQueued(bytes.length / 8, this.time.nowMs);
  }

  /** Frames at the pace of the clock, each late by what `lateMs` says, from `audio`. */
  speak(audio: Int16Array, lateMs: (i: number) => number = () => 0): void {
    const startMs = this.time.nowMs;
    for (let i = 0; (i + 1) * frame <= audio.length; i++) {
      this.time.advance(Math.max(0, startMs + i * 20 + lateMs(i) - this.time.nowMs));
      this.arrive(
        Uint8Array.from(audio.subarray(i * frame, (i + 1) * frame), (sample) => linearToUlaw[sample & 0xffff]!),
      );
    }
  }

  /**
   * Frames at the pace of the clock, while our thread stands still for `stallMs(i)` when frame `i` is due. What the agent sent meanwhile is
   * read afterwards: before the slot that is due, or after it.
   */
  speakToStalledThread(audio: Int16Array, stallMs: (i: number) => number, slotFirst: boolean): void {
    const startMs = this.time.nowMs;
    for (let i = 0; (i + 1) * frame <= audio.length; i++) {
      this.time.advance(Math.max(0, startMs + i * 20 - this.time.nowMs));
      const ms = stallMs(i);
      this.time.stall(ms);
      if (ms > 0 && slotFirst) this.time.advance(0);
      this.arrive(
        Uint8Array.from(audio.subarray(i * frame, (i + 1) * frame), (sample) => linearToUlaw[sample & 0xffff]!),
      );
    }
  }

  /** What the phone heard, linear. */
  get heard(): Int16Array {
    const out = new Int16Array(this.sent.length * frame);
    for (const [i, { payload }] of this.sent.entries())
      for (let j = 0; j < frame; j++) out[i * frame + j] = ulawToLinear[payload[j]!]!;
    return out;
  }
}
