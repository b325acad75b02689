/** When the phone says something while it is recorded: the first and the last words, and the silence that ends it. No clock of its own. */
import type { PhoneCodec } from '../../engine.js';
import { RtpTimeline } from '../receive/rtp-timeline.js';
import { lineOf, ticksPerMs } from '../sample-format.js';
import { SpeechDetector } from './speech-detector.js';

/** What is on its way may still be speech. */
const lateMs = 100;

export interface SilenceRules {
  /** Nothing is said from the beginning. */
  beforeMs: number;
  /** After the last words. */
  afterMs: number;
}

export class Words {
  /** All times are counted from `startMs`; null: nothing was said. */
  firstMs: number | null = null;
  private endedMs = 0;
  private readonly track = new RtpTimeline();
  private readonly speech: SpeechDetector;

  constructor(
    private readonly startMs: number,
    private readonly rules: SilenceRules,
    /** Told once, some 40 ms after the first words began. */
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

  /** End of the last words. */
  get lastMs(): number | null {
    if (this.firstMs === null) return null;
    return this.speech.speaking ? this.speech.loudUntilMs : this.endedMs;
  }

  /** What arrives was said just before. */
  hear(timestamp: number, payload: Uint8Array, codec: PhoneCodec, nowMs: number): void {
    const begunMs = nowMs - this.startMs - payload.length / lineOf[codec].bytesPerMs;
    const atMs = this.track.place(timestamp, Math.round(begunMs * ticksPerMs)) / ticksPerMs;
    this.speech.hear(payload, 0, payload.length, codec, atMs);
  }

  /** Every packet time. True when it has been silent for long enough. */
  tick(nowMs: number): boolean {
    const atMs = nowMs - this.startMs;
    this.speech.quiet(atMs - lateMs);
    if (this.firstMs === null) return atMs >= this.rules.beforeMs;
    return !this.speech.speaking && atMs - this.endedMs >= this.rules.afterMs;
  }
}
