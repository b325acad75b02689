/**
 * Who speaks when, heard on the wire itself, so that the ruler is the same for every agent. A turn is what one side says until the other
 * begins; the caller's words come by their RTP timestamps, the agent's as they are sent.
 */
import type { MediaEvent, PhoneCodec } from '../engine.js';
import { lineOf, ticksPerMs } from './line.js';
import { Speech } from './speech.js';
import { Track } from './track.js';

/** Shorter words of the caller over the agent's are a nod, not an interruption. */
const leastBargeInMs = 200;
/** An agent that talks on for so long did not give way. */
const giveWayMs = 5000;

type BargeIn = Extract<MediaEvent, { type: 'bargeIn' }>;
type Turn = Omit<Extract<MediaEvent, { type: 'turn' }>, 'agoMs'>;

interface OpenTurn {
  startedMs: number;
  endedMs: number;
  responseMs: number | null;
  /** The other side spoke when this one began. */
  over: boolean;
}

class Side {
  readonly track = new Track();
  readonly speech: Speech;
  turn: OpenTurn | null = null;

  constructor(
    readonly speaker: 'caller' | 'agent',
    hooks: { started(side: Side, atMs: number): void; ended(side: Side, atMs: number): void },
  ) {
    this.speech = new Speech({
      started: (atMs) => hooks.started(this, atMs),
      ended: (atMs) => hooks.ended(this, atMs),
    });
  }
}

export class Turns {
  private readonly caller: Side;
  private readonly agent: Side;
  /** When the caller began to speak over the agent. */
  private interruptedAtMs: number | null = null;

  constructor(
    /** All times of events are counted from here. */
    private readonly startMs: number,
    private readonly emit: (event: Turn | BargeIn) => void,
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
    if (this.interruptedAtMs !== null && atMs - this.interruptedAtMs > giveWayMs) this.tellBargeIn(null);
  }

  /** The call is over: what is open is told. */
  end(): void {
    for (const side of [this.caller, this.agent]) {
      if (side.turn) side.turn.endedMs = Math.max(side.turn.endedMs, side.speech.loudUntilMs);
      this.complete(side);
    }
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
    const other = this.other(side);
    const over = other.speech.speaking && other.speech.loudUntilMs > atMs;
    if (!over) this.complete(other);
    if (over && side === this.caller) this.interruptedAtMs ??= atMs;
    if (side.turn) return;
    const heardOther = other.speech.loudUntilMs !== Number.NEGATIVE_INFINITY;
    side.turn = {
      startedMs: atMs,
      endedMs: atMs,
      responseMs: heardOther && !over ? Math.max(0, atMs - other.speech.loudUntilMs) : null,
      over,
    };
  }

  private ended(side: Side, atMs: number): void {
    if (side.turn) side.turn.endedMs = atMs;
    const other = this.other(side);
    if (side === this.agent && this.interruptedAtMs !== null) {
      this.tellBargeIn(Math.max(0, atMs - this.interruptedAtMs));
    }
    // The other one took the floor meanwhile.
    if (other.turn && other.turn.startedMs > (side.turn?.startedMs ?? 0)) this.complete(side);
  }

  private tellBargeIn(silenceMs: number | null): void {
    const atMs = this.interruptedAtMs ?? 0;
    this.interruptedAtMs = null;
    const { turn, speech } = this.caller;
    if (turn === null || Math.max(turn.endedMs, speech.loudUntilMs) - atMs < leastBargeInMs) return;
    this.emit({
      type: 'bargeIn',
      atMs: Math.round(atMs),
      silenceMs: silenceMs === null ? null : Math.round(silenceMs),
    });
  }

  private complete(side: Side): void {
    const { turn } = side;
    if (!turn) return;
    side.turn = null;
    const endedMs = Math.max(turn.endedMs, side.speech.speaking ? side.speech.loudUntilMs : turn.endedMs);
    this.emit({
      type: 'turn',
      speaker: side.speaker,
      startedMs: Math.round(turn.startedMs),
      durationMs: Math.round(endedMs - turn.startedMs),
      responseMs: turn.responseMs === null ? null : Math.round(turn.responseMs),
      talkOver: turn.over,
    });
  }
}
