/**
 * The turns of a dialogue, measured on the wire, so that every agent is measured alike. A turn is what one side says until the other
 * begins. The caller's words are placed by their RTP timestamps, the agent's by the time they are sent.
 *
 * Short words over the other side's words are a nod (a back-channel: "mhm") when the other side talks on: no turn and no barge-in.
 */
import type { MediaEvent, PhoneCodec } from '../../engine.js';
import { RtpTimeline } from '../receive/rtp-timeline.js';
import { lineOf, ticksPerMs } from '../sample-format.js';
import { pauseMs, SpeechDetector } from './speech-detector.js';

/** Shorter words over the other side's are a nod. */
const longestNodMs = 200;
/** An agent that talks on for so long did not give way. */
const giveWayMs = 5000;

type BargeIn = Extract<MediaEvent, { type: 'bargeIn' }>;
type Turn = Omit<Extract<MediaEvent, { type: 'turn' }>, 'agoMs'>;

interface OpenTurn {
  startedMs: number;
  /** End of its last words, once a pause followed. */
  endedMs: number;
  responseMs: number | null;
  /** The other side spoke when this one began. */
  over: boolean;
}

/** Words that began while the other side spoke: a turn, a nod, or an answer to words that had just ended. Undecided as long as it exists. */
interface Overlap {
  startedMs: number;
  /** Too long for a nod. */
  long: boolean;
  /** null: the words go on, or the pause after them is not long enough yet. */
  endedMs: number | null;
  /** The same of the other side's words. */
  otherEndedMs: number | null;
}

class Side {
  readonly track = new RtpTimeline();
  readonly speech: SpeechDetector;
  turn: OpenTurn | null = null;
  overlap: Overlap | null = null;
  /** End of the last words that belong to a turn. */
  private saidUntilMs = Number.NEGATIVE_INFINITY;

  constructor(
    readonly speaker: 'caller' | 'agent',
    hooks: { started(side: Side, atMs: number): void; ended(side: Side, atMs: number): void },
  ) {
    this.speech = new SpeechDetector({
      started: (atMs) => hooks.started(this, atMs),
      ended: (atMs) => hooks.ended(this, atMs),
    });
  }

  /** The words of its turn go on. */
  get talking(): boolean {
    return this.turn !== null && this.overlap === null && this.speech.speaking;
  }

  /** End of its last words but nods; they may go on. */
  get wordsUntilMs(): number {
    return this.talking ? this.speech.loudUntilMs : this.saidUntilMs;
  }

  /** Its words ended; its turn may go on. */
  pause(atMs: number): void {
    if (this.turn === null) return;
    this.turn.endedMs = atMs;
    this.saidUntilMs = atMs;
  }
}

export class Turns {
  private readonly caller: Side;
  private readonly agent: Side;
  /** When the caller began to speak over the agent, until the agent is silent. */
  private interruptedAtMs: number | null = null;

  constructor(
    /** All times of events are counted from here. */
    private readonly startMs: number,
    private readonly emit: (event: Turn | BargeIn) => void,
    /** A turn of the caller began. */
    private readonly callerBegan: (atMs: number) => void = () => {},
  ) {
    const hooks = {
      started: (side: Side, atMs: number) => this.started(side, atMs),
      ended: (side: Side, atMs: number) => this.ended(side, atMs),
    };
    this.caller = new Side('caller', hooks);
    this.agent = new Side('agent', hooks);
  }

  /** Audio in `[from, to)` that arrived now. */
  fromCaller(timestamp: number, bytes: Uint8Array, from: number, to: number, codec: PhoneCodec, nowMs: number): void {
    // What arrives was said just before.
    this.hear(this.caller, timestamp, bytes, from, to, codec, nowMs - (to - from) / lineOf[codec].bytesPerMs);
  }

  /** Audio in `[from, to)` that is sent now. */
  fromAgent(timestamp: number, bytes: Uint8Array, from: number, to: number, codec: PhoneCodec, nowMs: number): void {
    this.hear(this.agent, timestamp, bytes, from, to, codec, nowMs);
  }

  /** Every packet time: a side that sends nothing is silent. */
  tick(nowMs: number): void {
    const atMs = nowMs - this.startMs;
    // What is on its way may still be speech.
    this.caller.speech.quiet(atMs - 100);
    this.agent.speech.quiet(atMs - 100);
    this.judge(this.caller);
    this.judge(this.agent);
    if (this.interruptedAtMs !== null && atMs - this.interruptedAtMs > giveWayMs) this.tellBargeIn(null);
  }

  /** The call is over: what is open ends with what was heard of it. */
  end(): void {
    for (const side of [this.caller, this.agent]) this.decide(side);
    const open = [this.caller, this.agent].filter((side) => side.turn !== null);
    open.sort((a, b) => (a.turn?.startedMs ?? 0) - (b.turn?.startedMs ?? 0));
    for (const side of open) {
      if (side.talking) side.pause(side.speech.loudUntilMs);
      this.complete(side);
    }
    this.interruptedAtMs = null;
  }

  private hear(
    side: Side,
    timestamp: number,
    bytes: Uint8Array,
    from: number,
    to: number,
    codec: PhoneCodec,
    begunMs: number,
  ): void {
    const tick = side.track.place(timestamp, Math.round((begunMs - this.startMs) * ticksPerMs));
    side.speech.hear(bytes, from, to, codec, tick / ticksPerMs);
  }

  private other(side: Side): Side {
    return side === this.caller ? this.agent : this.caller;
  }

  private started(side: Side, atMs: number): void {
    this.decide(side);
    // A pause of the other side that is still short may be one within its sentence: then this is not decided either.
    if (this.other(side).speech.speaking)
      side.overlap = { startedMs: atMs, long: false, endedMs: null, otherEndedMs: null };
    else this.answer(side, atMs);
  }

  private ended(side: Side, atMs: number): void {
    const other = this.other(side);
    if (side.overlap === null) side.pause(atMs);
    else {
      side.overlap.long ||= side.speech.wordsMs >= longestNodMs;
      side.overlap.endedMs = atMs;
      this.judge(side);
    }
    if (other.overlap !== null) {
      other.overlap.otherEndedMs ??= atMs;
      this.judge(other);
    }
    if (side === this.agent && this.interruptedAtMs !== null) this.tellBargeIn(atMs - this.interruptedAtMs);
    this.passFloor(side);
  }

  /** Decides what overlapping words are as soon as it can be known. */
  private judge(side: Side): void {
    const { overlap } = side;
    if (overlap === null) return;
    const { startedMs, endedMs, otherEndedMs } = overlap;
    if (endedMs === null) overlap.long ||= side.speech.wordsMs >= longestNodMs;
    const { long } = overlap;
    const otherUntilMs = otherEndedMs ?? this.other(side).speech.loudUntilMs;
    /** What the other side says after this decides. */
    const sinceMs = long ? startedMs : endedMs;
    if (sinceMs === null || (otherEndedMs === null && otherUntilMs <= sinceMs)) return;
    side.overlap = null;
    const isNod = !long && otherUntilMs > sinceMs;
    if (isNod) return;
    if (otherUntilMs <= startedMs) this.answer(side, startedMs);
    else this.talkOver(side, overlap);
    if (endedMs !== null) side.pause(endedMs);
    if (otherEndedMs !== null) this.passFloor(this.other(side));
  }

  /** Judges by what was heard so far: nothing more comes of these words. */
  private decide(side: Side): void {
    const { overlap } = side;
    if (overlap === null) return;
    overlap.long ||= overlap.endedMs === null && side.speech.wordsMs >= longestNodMs;
    overlap.endedMs ??= side.speech.loudUntilMs;
    overlap.otherEndedMs ??= this.other(side).speech.loudUntilMs;
    this.judge(side);
  }

  /** A side begins, and the other one has ended. */
  private answer(side: Side, atMs: number): void {
    this.complete(this.other(side));
    this.open(side, atMs, false);
  }

  private talkOver(side: Side, { startedMs, long, otherEndedMs }: Overlap): void {
    this.open(side, startedMs, true);
    if (side === this.caller && long && this.agent.turn !== null) {
      this.interruptedAtMs ??= startedMs;
      if (otherEndedMs !== null) this.tellBargeIn(otherEndedMs - this.interruptedAtMs);
    }
  }

  private open(side: Side, atMs: number, over: boolean): void {
    const untilMs = this.other(side).wordsUntilMs;
    // The other side talked on after the words before: these are another turn.
    if (side.turn !== null && untilMs - side.turn.endedMs >= pauseMs) this.complete(side);
    if (side === this.caller && side.turn === null) this.callerBegan(atMs);
    side.turn ??= {
      startedMs: atMs,
      endedMs: atMs,
      responseMs: over || untilMs === Number.NEGATIVE_INFINITY ? null : Math.max(0, atMs - untilMs),
      over,
    };
  }

  /** The words of `side` ended while a turn of the other one was open: the one that gave way has ended its turn. */
  private passFloor(side: Side): void {
    const other = this.other(side);
    if (side.turn === null || other.turn === null) return;
    if (side.wordsUntilMs - other.wordsUntilMs > giveWayMs) this.complete(other);
    else if (other.turn.startedMs > side.turn.startedMs) this.complete(side);
  }

  private tellBargeIn(silenceMs: number | null): void {
    const atMs = this.interruptedAtMs ?? 0;
    this.interruptedAtMs = null;
    this.emit({
      type: 'bargeIn',
      atMs: Math.round(atMs),
      silenceMs: silenceMs === null ? null : Math.max(0, Math.round(silenceMs)),
    });
  }

  private complete(side: Side): void {
    const { turn } = side;
    if (turn === null) return;
    side.turn = null;
    this.emit({
      type: 'turn',
      speaker: side.speaker,
      startedMs: Math.round(turn.startedMs),
      durationMs: Math.round(turn.endedMs - turn.startedMs),
      responseMs: turn.responseMs === null ? null : Math.round(turn.responseMs),
      talkOver: turn.over,
    });
  }
}
