/** Finds the first and the last speech of a recording, and the silence that ends it. No clock of its own. */
import type { PhoneCodec } from '../../engine.js';
import { RtpTimeline } from '../receive/rtp-timeline.js';
import { sampleFormatOf, ticksPerMs } from '../sample-format.js';
import { SpeechDetector } from './speech-detector.js';

/** Packets still on their way may contain speech. */
const lateMs = 100;

export interface SilenceRules {
  /** Limit of silence from the beginning. */
  beforeMs: number;
  /** Limit of silence after the last speech. */
  afterMs: number;
}

export class UtteranceEndpoint {
  /** Start of the first speech. All times are counted from `startMs`; null without speech. */
  firstMs: number | null = null;
  private endedMs = 0;
  private readonly track = new RtpTimeline();
  private readonly speech: SpeechDetector;

  constructor(
    private readonly startMs: number,
    private readonly rules: SilenceRules,
    /** Called once, some 40 ms after the first speech began. */
    begun: () => void,
  ) {
    this.speech = new SpeechDetector({
      started: (atMs) => {
        if (this.firstMs !== null) return;
        this.firstMs = atMs;
        begun();
      },
      ended: (atMs) => {
        this.endedMs = atMs;
      },
    });
  }

  /** End of the last speech. */
  get lastMs(): number | null {
    if (this.firstMs === null) return null;
    return this.speech.speaking ? this.speech.loudUntilMs : this.endedMs;
  }

  /** Received audio was spoken just before it arrived. */
  hear(timestamp: number, payload: Uint8Array, codec: PhoneCodec, nowMs: number): void {
    const begunMs = nowMs - this.startMs - payload.length / sampleFormatOf[codec].bytesPerMs;
    const atMs = this.track.place(timestamp, Math.round(begunMs * ticksPerMs)) / ticksPerMs;
    this.speech.hear(payload, 0, payload.length, codec, atMs);
  }

  /** Called every packet time. True when the silence reached its limit. */
  tick(nowMs: number): boolean {
    const atMs = nowMs - this.startMs;
    this.speech.quiet(atMs - lateMs);
    if (this.firstMs === null) return atMs >= this.rules.beforeMs;
    return !this.speech.speaking && atMs - this.endedMs >= this.rules.afterMs;
  }
}
