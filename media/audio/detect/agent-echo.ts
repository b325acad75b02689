/**
 * Recognizes the agent's own voice in the caller's audio: the echo of a loudspeaker telephone or of a line's hybrid (ITU-T G.131), 0 to 560 ms
 * after it was sent. While one side is silent, audio is copied at most; the work is done when somebody asks (`echo-path.ts`). A delay that was
 * found once is tried first, which takes a tenth of a search.
 *
 * All times are milliseconds from the start of the session.
 */
import type { PhoneCodec } from '../../engine.js';
import type { EchoFigures } from '../../stats.js';
import { PlacedSamples } from '../placed-samples.js';
import { EchoCanceller } from '../receive/echo-canceller.js';
import { RtpTimeline } from '../receive/rtp-timeline.js';
import { sampleFormatOf, ticksPerMs } from '../sample-format.js';
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
/** After so many searches in a row that found no echo in the call, it is searched in the same steps: an echo comes with every word of the agent. */
const searchesInVain = 6;
const samplesPerMs = echoRateHz / 1000;
/** Two seconds and one: a decision may be about half a second ago. */
const heardSamples = 8192;
const sentSamples = 16_384;
const trackRateHz = 8000;

export type EchoVerdict = 'echo' | 'voice' | 'unclear';

const search = new EchoSearch();

/** One direction, at 8 kHz. */
class Track extends PlacedSamples {
  private readonly timeline = new RtpTimeline();

  constructor(length: number) {
    super(length, trackRateHz);
  }

  tickOf(timestamp: number, begunMs: number): number {
    return this.timeline.place(timestamp, Math.round(begunMs * ticksPerMs));
  }
}

export class AgentEcho {
  private sentTrack: Track | null = null;
  private heardTrack: Track | null = null;
  private loudUntilMs = Number.NEGATIVE_INFINITY;
  /** In samples of 2 kHz; null before an echo was found. */
  private delay: number | null = null;
  private returnLossDb: number | null = null;
  private searchedMs = Number.NEGATIVE_INFINITY;
  /** Searches in a row that found a voice, while no echo is known. */
  private inVain = 0;
  private suppressedUntilMs = Number.NEGATIVE_INFINITY;
  private suppressed = 0;
  private canceller: EchoCanceller | null = null;
  private removedDb: number | null = null;

  /** `startMs` of the session, on the clock of `nowMs`. */
  constructor(readonly startMs: number) {}

  /** An echo was found. */
  get isKnown(): boolean {
    return this.delay !== null;
  }

  /** null while no echo was found. */
  get figures(): EchoFigures | null {
    if (this.delay === null || this.returnLossDb === null) return null;
    return {
      delayMs: this.delay / samplesPerMs,
      returnLossDb: this.returnLossDb,
      suppressed: this.suppressed,
      removedDb: this.canceller?.removedDb ?? this.removedDb,
    };
  }

  /** From now on the caller is heard without the echo, or with it. */
  remove(on: boolean): void {
    if (on === (this.canceller !== null)) return;
    this.removedDb = this.canceller?.removedDb ?? this.removedDb;
    this.canceller = on ? new EchoCanceller() : null;
  }

  /** Audio in `[from, to)` that is sent now. */
  sent(timestamp: number, bytes: Uint8Array, from: number, to: number, codec: PhoneCodec, nowMs: number): void {
    const quiet = isQuiet(bytes, codec, from, to);
    if (quiet && this.canceller === null) return;
    this.sentTrack ??= new Track(sentSamples);
    const begunMs = nowMs - this.startMs;
    const tick = this.sentTrack.tickOf(timestamp, begunMs);
    this.canceller?.sent(tick, bytes, from, to, codec, quiet);
    if (quiet) return;
    this.sentTrack.write(tick, bytes, from, to, codec);
    this.loudUntilMs = begunMs + (to - from) / sampleFormatOf[codec].bytesPerMs;
  }

  /** Audio of the caller that arrived now. Returns what is to be heard of it: the same bytes, or others that are valid until the next call. */
  heard(timestamp: number, bytes: Uint8Array, codec: PhoneCodec, nowMs: number): Uint8Array {
    const atMs = nowMs - this.startMs;
    if (!this.mayBe(atMs - longestMs)) return bytes;
    this.heardTrack ??= new Track(heardSamples);
    const tick = this.heardTrack.tickOf(timestamp, atMs - bytes.length / sampleFormatOf[codec].bytesPerMs);
    this.heardTrack.write(tick, bytes, 0, bytes.length, codec);
    return this.canceller?.heard(tick, bytes, codec, this.delay && this.delay / samplesPerMs) ?? bytes;
  }

  /** What is heard at this moment may be an echo: the agent speaks, or did so shortly before. */
  mayBe(atMs: number): boolean {
    return atMs - this.loudUntilMs <= mostDelayMs;
  }

  /** What the caller's audio from `fromMs` to `toMs`, at most half a second ago, is. `unclear`: more of it is needed. */
  judge(fromMs: number, toMs: number): EchoVerdict {
    const { sentTrack, heardTrack } = this;
    if (sentTrack === null || heardTrack === null || !this.mayBe(fromMs)) return 'voice';
    const searchedLately = toMs - this.searchedMs < searchedAnewMs;
    if (this.inVain >= searchesInVain && searchedLately) return 'voice';
    const lengthMs = Math.min(longestMs, Math.max(shortestMs, toMs - fromMs));
    const untilTick = Math.round(toMs * ticksPerMs);
    sentTrack.fillTo(untilTick);
    heardTrack.fillTo(untilTick);
    const count = Math.floor(lengthMs * samplesPerMs);
    search.load(heardTrack.samples, sentTrack.samples, untilTick, count, mostDelayMs * samplesPerMs);
    const knownShare = this.delay === null ? 0 : search.at(this.delay);
    if (knownShare >= preciseShare) return this.echo(untilTick, lengthMs, this.delay ?? 0, knownShare);
    const size = lengthMs >= longestMs ? 'longest' : 'shortest';
    const unknown = thresholds.unknown[size];
    const known = thresholds.known[size];
    if (knownShare >= known.echo && searchedLately) return 'echo';
    this.searchedMs = toMs;
    const { share, delay } = search.find();
    const { isTone } = search;
    if (share >= unknown.echo && share >= knownShare && !isTone) return this.echo(untilTick, lengthMs, delay, share);
    if (knownShare >= known.echo) return 'echo';
    if (!isTone && (share >= unknown.unclear || knownShare >= known.unclear)) return 'unclear';
    if (this.delay === null) this.inVain += 1;
    return 'voice';
  }

  /** Speech of the caller between these times was echo. */
  suppress(fromMs: number, toMs: number): void {
    // An echo that is suppressed piece by piece would have been one speech.
    if (fromMs - this.suppressedUntilMs > longestMs) this.suppressed += 1;
    this.suppressedUntilMs = toMs;
  }

  private echo(untilTick: number, lengthMs: number, delay: number, share: number): EchoVerdict {
    this.delay = delay;
    this.inVain = 0;
    const count = lengthMs * ticksPerMs;
    const heard = (this.heardTrack?.energy(untilTick - count, count) ?? 0) * share;
    const sent = this.sentTrack?.energy(untilTick - count - (delay * ticksPerMs) / samplesPerMs, count) ?? 0;
    const lossDb = 10 * Math.log10((sent + 1) / (heard + 1));
    // Words differ in their spectrum: the mean over some is the line's.
    this.returnLossDb = this.returnLossDb === null ? lossDb : this.returnLossDb + (lossDb - this.returnLossDb) / 4;
    return 'echo';
  }
}
