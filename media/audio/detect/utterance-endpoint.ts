/** Finds the first and the last speech of a recording, and the silence that ends it. No clock of its own. */
import type { PhoneCodec } from '../../engine.js';
import { RtpTimeline } from '../receive/rtp-timeline.js';
import { sampleFormatOf, ticksPerMs } from '../sample-format.js';
import type { AgentEcho } from './agent-echo.js';
import { SpeechDetector } from './speech-detector.js';

/** Packets still on their way may contain speech. */
const lateMs = 100;
/** Speech during a prompt, or just after it, may be its echo: this much is heard before that is decided. */
const judgedMs = 120;
/** Until it is clear, it is heard on in steps of this. */
const judgedEveryMs = 80;

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
  /** Begin of speech that may be an echo of the prompt; null when there is none. */
  private undecidedMs: number | null = null;
  /** When enough of it was heard. */
  private judgedFromMs = 0;
  /** What `startMs` is on the clock of the echo. */
  private readonly sinceOpenMs: number;
  private readonly track = new RtpTimeline();
  private readonly speech: SpeechDetector;

  constructor(
    private readonly startMs: number,
    private readonly rules: SilenceRules,
    /** Called once, some 40 ms after the first speech began; 120 ms when it may be an echo. */
    private readonly begun: () => void,
    private readonly echo: AgentEcho | null = null,
  ) {
    this.sinceOpenMs = echo === null ? 0 : startMs - echo.startMs;
    this.speech = new SpeechDetector({
      started: (atMs) => {
        if (this.firstMs !== null) return;
        if (!this.echo?.mayBe(this.sinceOpenMs + atMs)) return this.begin(atMs);
        this.undecidedMs = atMs;
        this.judgedFromMs = atMs + judgedMs;
      },
      ended: (atMs) => {
        if (this.undecidedMs !== null) this.decide(this.undecidedMs, atMs, true);
        if (this.firstMs !== null) this.endedMs = atMs;
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
    const { undecidedMs } = this;
    if (undecidedMs !== null && this.speech.loudUntilMs >= this.judgedFromMs)
      this.decide(undecidedMs, this.speech.loudUntilMs, false);
  }

  private begin(atMs: number): void {
    this.undecidedMs = null;
    this.firstMs = atMs;
    this.begun();
  }

  private decide(fromMs: number, toMs: number, isOver: boolean): void {
    const { echo, sinceOpenMs } = this;
    const verdict = echo?.judge(sinceOpenMs + fromMs, sinceOpenMs + toMs);
    this.judgedFromMs += judgedEveryMs;
    if (verdict === 'unclear' && !isOver) return;
    if (verdict !== 'echo') {
      this.begin(fromMs);
      return;
    }
    echo?.suppress(sinceOpenMs + fromMs, sinceOpenMs + toMs);
    this.undecidedMs = null;
    if (!isOver) this.speech.dismiss();
  }

  /** Called every packet time. True when the silence reached its limit. */
  tick(nowMs: number): boolean {
    const atMs = nowMs - this.startMs;
    this.speech.quiet(atMs - lateMs);
    if (this.firstMs === null) return atMs >= this.rules.beforeMs;
    return !this.speech.speaking && atMs - this.endedMs >= this.rules.afterMs;
  }
}
