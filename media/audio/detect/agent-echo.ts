/**
 * Recognizes the agent's own voice in the caller's audio: the echo of a loudspeaker telephone or of a line's hybrid (ITU-T G.131), 0 to 560 ms
 * after it was sent. While one side is silent, audio is copied at most; the work is done when somebody asks (`echo-path.ts`). A delay that was
 * found once is tried first, which takes a tenth of a search.
 *
 * All times are milliseconds from the start of the session.
 */
import type { EchoFigures, PhoneCodec } from '../../engine.js';
import { RtpTimeline } from '../receive/rtp-timeline.js';
import { readSamples, sampleFormatOf, ticksPerMs } from '../sample-format.js';
import { ScratchBuffer } from '../scratch-buffer.js';
import { EchoSearch, echoRateHz } from './echo-path.js';
import { isQuiet } from './frame-level.js';

/** The longest delay: a phone network over satellite, or a phone with a long jitter buffer. */
const mostDelayMs = 560;
/** What is looked at: less tells too little, more finds the caller's word too late. */
const shortestMs = 200;
const longestMs = 300;
/**
 * From this share of the energy on, explained by the sent audio, it is an echo, or may be one. At a delay that was found before, a voice is
 * explained less by accident; and so is a longer piece.
 */
const thresholds = {
  known: { shortest: { echo: 0.6, unclear: 0.35 }, longest: { echo: 0.5, unclear: 0.5 } },
  unknown: { shortest: { echo: 0.72, unclear: 0.45 }, longest: { echo: 0.65, unclear: 0.65 } },
};
/** The delay follows the drift of the clocks: where it explains less than this it is searched anew, if that was not done just before. */
const preciseShare = 0.85;
const searchedAnewMs = 2000;
const samplesPerMs = echoRateHz / 1000;
/** Two seconds and one: a decision may be about half a second ago. */
const heardSamples = 8192;
const sentSamples = 16_384;
const ringRateHz = 8000;

export type EchoVerdict = 'echo' | 'voice' | 'unclear';

const search = new EchoSearch();
const linear = new ScratchBuffer(Int16Array);

/** Samples of 8 kHz by their place in time. Its length is a power of two. */
class Ring {
  readonly samples: Int16Array;
  private readonly timeline = new RtpTimeline();
  private until = 0;

  constructor(length: number) {
    this.samples = new Int16Array(length);
  }

  write(timestamp: number, bytes: Uint8Array, from: number, to: number, codec: PhoneCodec, begunMs: number): void {
    const tick = this.timeline.place(timestamp, Math.round(begunMs * ticksPerMs));
    this.fillTo(tick);
    const { samples } = this;
    const mask = samples.length - 1;
    const input = readSamples(from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to), codec, linear);
    const every = sampleFormatOf[codec].sampleRateHz / ringRateHz;
    const count = Math.floor(input.length / every);
    if (every === 1) for (let i = 0; i < count; i++) samples[(tick + i) & mask] = input[i]!;
    else
      for (let i = 0; i < count; i++) {
        let sum = 0;
        for (let j = 0; j < every; j++) sum += input[i * every + j]!;
        samples[(tick + i) & mask] = sum / every;
      }
    this.until = Math.max(this.until, tick + count);
  }

  /** Silence up to this tick, where nothing was written. */
  fillTo(tick: number): void {
    const { samples } = this;
    for (let at = Math.max(this.until, tick - samples.length); at < tick; at++) samples[at & (samples.length - 1)] = 0;
    this.until = Math.max(this.until, tick);
  }

  /** Energy of `count` samples from `tick` on. */
  energy(tick: number, count: number): number {
    const { samples } = this;
    let sum = 0;
    for (let at = tick; at < tick + count; at++) sum += samples[at & (samples.length - 1)]! ** 2;
    return sum;
  }
}

export class AgentEcho {
  private sentRing: Ring | null = null;
  private heardRing: Ring | null = null;
  private loudUntilMs = Number.NEGATIVE_INFINITY;
  /** In samples of 2 kHz; null before an echo was found. */
  private delay: number | null = null;
  private returnLossDb: number | null = null;
  private searchedMs = Number.NEGATIVE_INFINITY;
  private suppressedUntilMs = Number.NEGATIVE_INFINITY;
  private suppressed = 0;

  /** `startMs` of the session, on the clock of `nowMs`. */
  constructor(readonly startMs: number) {}

  /** An echo was found. */
  get isKnown(): boolean {
    return this.delay !== null;
  }

  /** null while no echo was found. */
  get figures(): EchoFigures | null {
    if (this.delay === null || this.returnLossDb === null) return null;
    return { delayMs: this.delay / samplesPerMs, returnLossDb: this.returnLossDb, suppressed: this.suppressed };
  }

  /** Audio in `[from, to)` that is sent now. */
  sent(timestamp: number, bytes: Uint8Array, from: number, to: number, codec: PhoneCodec, nowMs: number): void {
    if (isQuiet(bytes, codec, from, to)) return;
    this.sentRing ??= new Ring(sentSamples);
    const begunMs = nowMs - this.startMs;
    this.sentRing.write(timestamp, bytes, from, to, codec, begunMs);
    this.loudUntilMs = begunMs + (to - from) / sampleFormatOf[codec].bytesPerMs;
  }

  /** Audio of the caller that arrived now. */
  heard(timestamp: number, bytes: Uint8Array, codec: PhoneCodec, nowMs: number): void {
    const atMs = nowMs - this.startMs;
    if (!this.mayBe(atMs - longestMs)) return;
    this.heardRing ??= new Ring(heardSamples);
    this.heardRing.write(
      timestamp,
      bytes,
      0,
      bytes.length,
      codec,
      atMs - bytes.length / sampleFormatOf[codec].bytesPerMs,
    );
  }

  /** What is heard at this moment may be an echo: the agent speaks, or did so shortly before. */
  mayBe(atMs: number): boolean {
    return atMs - this.loudUntilMs <= mostDelayMs;
  }

  /** What the caller's audio from `fromMs` to `toMs`, at most half a second ago, is. `unclear`: more of it is needed. */
  judge(fromMs: number, toMs: number): EchoVerdict {
    const { sentRing, heardRing } = this;
    if (sentRing === null || heardRing === null || !this.mayBe(fromMs)) return 'voice';
    const lengthMs = Math.min(longestMs, Math.max(shortestMs, toMs - fromMs));
    const untilTick = Math.round(toMs * ticksPerMs);
    sentRing.fillTo(untilTick);
    heardRing.fillTo(untilTick);
    const count = Math.floor(lengthMs * samplesPerMs);
    search.load(heardRing.samples, sentRing.samples, untilTick, count, mostDelayMs * samplesPerMs);
    const knownShare = this.delay === null ? 0 : search.at(this.delay);
    if (knownShare >= preciseShare) return this.echo(untilTick, lengthMs, this.delay ?? 0, knownShare);
    const size = lengthMs >= longestMs ? 'longest' : 'shortest';
    const unknown = thresholds.unknown[size];
    const known = thresholds.known[size];
    if (knownShare >= known.echo && toMs - this.searchedMs < searchedAnewMs) return 'echo';
    this.searchedMs = toMs;
    const { share, delay } = search.find();
    const { isTone } = search;
    if (share >= unknown.echo && share >= knownShare && !isTone) return this.echo(untilTick, lengthMs, delay, share);
    if (knownShare >= known.echo) return 'echo';
    if (isTone) return 'voice';
    return share >= unknown.unclear || knownShare >= known.unclear ? 'unclear' : 'voice';
  }

  /** Speech of the caller between these times was echo. */
  suppress(fromMs: number, toMs: number): void {
    // An echo that is suppressed piece by piece would have been one speech.
    if (fromMs - this.suppressedUntilMs > longestMs) this.suppressed += 1;
    this.suppressedUntilMs = toMs;
  }

  private echo(untilTick: number, lengthMs: number, delay: number, share: number): EchoVerdict {
    this.delay = delay;
    const count = lengthMs * ticksPerMs;
    const heard = (this.heardRing?.energy(untilTick - count, count) ?? 0) * share;
    const sent = this.sentRing?.energy(untilTick - count - (delay * ticksPerMs) / samplesPerMs, count) ?? 0;
    const lossDb = 10 * Math.log10((sent + 1) / (heard + 1));
    // Words differ in their spectrum: the mean over some is the line's.
    this.returnLossDb = this.returnLossDb === null ? lossDb : this.returnLossDb + (lossDb - this.returnLossDb) / 4;
    return 'echo';
  }
}
