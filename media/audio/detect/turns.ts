/**
 * The turns of a dialogue, measured on the wire, so that all agents are measured alike. A turn is what one side says until the other side
 * begins. The caller's speech is placed by its RTP timestamps, the agent's by the time it is sent.
 *
 * Short speech over the other side's speech is a back-channel ("mhm") when the other side speaks on: neither a turn nor a barge-in.
 * The agent's echo in the caller's audio is no speech at all.
 */
import type { MediaEvent, PhoneCodec } from '../../engine.js';
import { RtpTimeline } from '../receive/rtp-timeline.js';
import { sampleFormatOf, ticksPerMs } from '../sample-format.js';
import type { AgentEcho, EchoVerdict } from './agent-echo.js';
import { pauseMs, SpeechDetector } from './speech-detector.js';

/** Shorter speech over the other side's is a back-channel. */
const longestNodMs = 200;
/** An agent that speaks on for this long did not give way. */
const giveWayMs = 5000;
/** How much of the caller's continuing speech is looked at, to find that only an echo is left of it. */
const recheckedMs = 250;

type BargeIn = Extract<MediaEvent, { type: 'bargeIn' }>;
type Turn = Omit<Extract<MediaEvent, { type: 'turn' }>, 'agoMs'>;

interface OpenTurn {
  startedMs: number;
  /** End of its last speech, once a pause followed. */
  endedMs: number;
  responseMs: number | null;
  /** The other side was speaking when this turn began. */
  over: boolean;
}

/** Speech that began while the other side spoke: a turn, a back-channel, or an answer to speech that had just ended. Exists while undecided. */
interface Overlap {
  startedMs: number;
  /** Too long for a back-channel. */
  long: boolean;
  /** null while the speech continues, or the pause after it is too short. */
  endedMs: number | null;
  /** The same for the other side's speech. */
  otherEndedMs: number | null;
}

class Side {
  readonly track = new RtpTimeline();
  readonly speech: SpeechDetector;
  turn: OpenTurn | null = null;
  overlap: Overlap | null = null;
  /** End of the last speech that belongs to a turn. */
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

  /** Its turn is open and it is speaking. */
  get talking(): boolean {
    return this.turn !== null && this.overlap === null && this.speech.speaking;
  }

  /** End of its last speech without back-channels; the speech may continue. */
  get wordsUntilMs(): number {
    return this.talking ? this.speech.loudUntilMs : this.saidUntilMs;
  }

  /** Its speech ended; its turn may continue. */
  pause(atMs: number): void {
    if (this.turn === null) return;
    this.turn.endedMs = atMs;
    this.saidUntilMs = atMs;
  }
}

export class Turns {
  private readonly caller: Side;
  private readonly agent: Side;
  /** When the caller began to speak over the agent; null once the agent is silent. */
  private interruptedAtMs: number | null = null;
  private checkedMs = 0;

  constructor(
    /** All times of events are counted from here. */
    private readonly startMs: number,
    private readonly emit: (event: Turn | BargeIn) => void,
    /** A turn of the caller began. */
    private readonly callerBegan: (atMs: number) => void = () => {},
    private readonly echo: AgentEcho | null = null,
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
    // Received audio was spoken just before it arrived.
    this.hear(this.caller, timestamp, bytes, from, to, codec, nowMs - (to - from) / sampleFormatOf[codec].bytesPerMs);
  }

  /** Audio in `[from, to)` that is sent now. */
  fromAgent(timestamp: number, bytes: Uint8Array, from: number, to: number, codec: PhoneCodec, nowMs: number): void {
    this.hear(this.agent, timestamp, bytes, from, to, codec, nowMs);
  }

  /** Called every packet time: a side that sends nothing is silent. */
  tick(nowMs: number): void {
    const atMs = nowMs - this.startMs;
    // Packets still on their way may contain speech.
    this.caller.speech.quiet(atMs - 100);
    this.agent.speech.quiet(atMs - 100);
    this.judge(this.caller);
    this.judge(this.agent);
    this.checkForEcho(atMs);
    if (this.interruptedAtMs !== null && atMs - this.interruptedAtMs > giveWayMs) this.tellBargeIn(null);
  }

  /** The call is over: completes open turns with what was heard. */
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
    const other = this.other(side).speech;
    // A short pause of the other side may lie within its sentence: that is not decided yet either.
    if (other.speaking) side.overlap = { startedMs: atMs, long: false, endedMs: null, otherEndedMs: null };
    // The echo of its last words may still be on its way.
    else if (side === this.caller && this.echo?.mayBe(atMs))
      side.overlap = { startedMs: atMs, long: false, endedMs: null, otherEndedMs: other.loudUntilMs };
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

  /** Decides overlapping speech as soon as possible. */
  private judge(side: Side): void {
    const { overlap } = side;
    if (overlap === null) return;
    const { endedMs, otherEndedMs } = overlap;
    if (endedMs === null) overlap.long ||= side.speech.wordsMs >= longestNodMs;
    const { long } = overlap;
    const otherUntilMs = otherEndedMs ?? this.other(side).speech.loudUntilMs;
    /** Speech of the other side after this time decides. */
    const sinceMs = long ? overlap.startedMs : endedMs;
    if (sinceMs === null || (otherEndedMs === null && otherUntilMs <= sinceMs)) return;
    const isNod = !long && otherUntilMs > sinceMs;
    if (!isNod) {
      const verdict = this.judgeEcho(side, overlap);
      if (verdict === 'unclear' && endedMs === null) return;
      if (verdict === 'echo') return;
    }
    const { startedMs } = overlap;
    side.overlap = null;
    if (isNod) return;
    if (otherUntilMs <= startedMs) this.answer(side, startedMs);
    else this.talkOver(side, overlap);
    if (endedMs !== null) side.pause(endedMs);
    if (otherEndedMs !== null) this.passFloor(this.other(side));
  }

  /** Whether the caller's speech in this overlap is an echo of the agent, which is then forgotten. */
  private judgeEcho(side: Side, overlap: Overlap): EchoVerdict {
    const { caller, agent, echo } = this;
    if (echo === null) return 'voice';
    if (side === agent) {
      // The agent answered so fast that its echo continued the caller's speech.
      if (!caller.talking || echo.judge(overlap.startedMs, caller.speech.loudUntilMs) !== 'echo') return 'voice';
      caller.speech.cut(overlap.startedMs); // which decides this overlap
      return 'echo';
    }
    const untilMs = overlap.endedMs ?? caller.speech.loudUntilMs;
    const verdict = echo.judge(overlap.startedMs, untilMs);
    if (verdict === 'voice') this.leaveOutEcho(overlap, untilMs, echo);
    if (verdict !== 'echo') return verdict;
    echo.suppress(overlap.startedMs, untilMs);
    caller.overlap = null;
    if (overlap.endedMs === null) caller.speech.dismiss();
    // What the agent said meanwhile was said over nobody.
    const said = agent.overlap;
    if (said !== null) {
      agent.overlap = null;
      this.answer(agent, said.startedMs);
      if (said.endedMs !== null) agent.pause(said.endedMs);
    }
    return 'echo';
  }

  /** The caller's word may have begun after an echo that was too short to be noticed. */
  private leaveOutEcho(overlap: Overlap, untilMs: number, echo: AgentEcho): void {
    const { stretchFromMs } = this.caller.speech;
    if (stretchFromMs <= overlap.startedMs || stretchFromMs >= untilMs) return;
    if (echo.judge(overlap.startedMs, stretchFromMs) === 'echo') overlap.startedMs = stretchFromMs;
  }

  /** The caller spoke over the agent, and perhaps nothing but the echo is left of that. */
  private checkForEcho(nowMs: number): void {
    const { caller, agent, echo } = this;
    if (!echo?.isKnown || !caller.talking || !agent.speech.speaking || nowMs - this.checkedMs < recheckedMs) return;
    this.checkedMs = nowMs;
    const untilMs = caller.speech.loudUntilMs;
    if (echo.judge(untilMs - recheckedMs, untilMs) === 'echo') caller.speech.cut(untilMs - recheckedMs);
  }

  /** Decides by what was heard so far: this speech is over. */
  private decide(side: Side): void {
    const { overlap } = side;
    if (overlap === null) return;
    overlap.long ||= overlap.endedMs === null && side.speech.wordsMs >= longestNodMs;
    overlap.endedMs ??= side.speech.loudUntilMs;
    overlap.otherEndedMs ??= this.other(side).speech.loudUntilMs;
    this.judge(side);
  }

  /** A side begins after the other one has ended. */
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
    // The other side spoke on after the earlier speech, so this is another turn.
    if (side.turn !== null && untilMs - side.turn.endedMs >= pauseMs) this.complete(side);
    if (side === this.caller && side.turn === null) this.callerBegan(atMs);
    side.turn ??= {
      startedMs: atMs,
      endedMs: atMs,
      responseMs: over || untilMs === Number.NEGATIVE_INFINITY ? null : Math.max(0, atMs - untilMs),
      over,
    };
  }

  /** `side` stopped speaking while the other side's turn was open: completes the turn of the side that gave way. */
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
