import { performance } from 'node:perf_hooks';
import type { MediaEvent, MediaSession, MediaStats } from '../../../media/engine.js';
import { Cookies } from '../../../net/cookies.js';
import type { CallLeg, DialogSnapshot, LeftBehind } from '../../../sip/leg.js';
import { talkedSec } from '../../billing/duration.js';
import type { TraceEntry } from '../../store/calls/call-records.js';
import type { Calls } from '../../store/calls/calls.js';
import type { EventType } from '../../store/calls/event-types.js';
import type { Direction, HangupSource } from '../../store/database/tables.js';
import { TerminalSummary } from './call-summary.js';
import type { CallCommand, CommandResult } from './command.js';
import { type CallFunds, watchFunds } from './funding.js';
import { CallEnded, callStatus, type Ending } from './outcome.js';
import type { PartyFacts } from './party-facts.js';
import { Transcript } from './transcript.js';
import type { TransferFallback } from './transfer-fallback.js';

/** The recording of a call while it runs. */
export interface CallRecording {
  /** Idempotent. */
  pause(paused: boolean): void;
}

/** One phone of a call, as an INVITE with Replaces (RFC 3891) finds it. */
export interface CallPhone {
  readonly session: MediaSession;
  readonly facts: PartyFacts;
}

/** A call whose record is written. */
export interface BegunCall {
  id: string;
  /** When the INVITE came or was asked for. */
  createdAt: Date;
  /** The same moment on the monotonic clock. */
  startedAtMs: number;
  /** What pays for it; null: it costs nothing, or its organization is not metered. */
  funds: CallFunds | null;
}

/**
 * One running call: its record, its clock and its ending. Everything that may end a call calls `end`; the first reason wins, and
 * `signal` aborts whatever waits. Durations are monotonic, so a jumping wall clock cannot make them negative.
 */
export class Call {
  readonly id: string;
  readonly signal: AbortSignal;
  /** Resolves once, with the first reason. */
  readonly ended: Promise<Ending>;
  /** What a command does once the call is answered; null before. */
  commands: ((command: CallCommand) => Promise<CommandResult>) | null = null;
  /** null: nothing is recorded at the moment. */
  recording: CallRecording | null = null;
  /** null until the far side has media. */
  transferFallback: TransferFallback | null = null;
  /** What a callback threw and the call ended with; null: nothing. */
  fault: unknown = null;
  readonly #beside: (() => Promise<unknown>)[] = [];
  /** Whoever talks in this call: another phone may take the place of one. */
  readonly phones = new Map<CallLeg, CallPhone>();
  /** Null: it came, or goes, by none. */
  trunkId: string | null = null;
  /** Other dialogs that it went on in: each has a trace of its own. */
  readonly laterSipCallIds: string[] = [];
  /** Of the webhooks that steer it. */
  readonly cookies = new Cookies();
  readonly transcript = new Transcript();

  readonly #records: Calls;
  readonly #direction: Direction;
  readonly #startedAtMs: number;
  readonly #startedAt: Date;
  readonly #abort = new AbortController();
  #resolveEnded!: (ending: Ending) => void;
  readonly #summary = new TerminalSummary();
  readonly #funds: CallFunds | null;
  #stopFunding: (() => void) | null = null;
  #ending: Ending | null = null;
  /** What it will end as. */
  #settled: Ending | null = null;
  #answeredAtMs: number | null = null;
  #isAnswerWritten = false;
  #endedAtMs: number | null = null;
  #ringingAtMs: number | null = null;
  #hasEarlyMedia = false;
  #firstAudioMs: number | null = null;

  constructor(records: Calls, begun: BegunCall, direction: Direction) {
    this.#direction = direction;
    this.#records = records;
    this.#startedAtMs = begun.startedAtMs;
    this.#startedAt = begun.createdAt;
    this.#funds = begun.funds;
    this.id = begun.id;
    this.signal = this.#abort.signal;
    this.ended = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
  }

  get answered(): boolean {
    return this.#answeredAtMs !== null;
  }

  /** Whole seconds since the answer, or from it to the end: the `duration` of the record. 0: never answered. */
  get durationSec(): number {
    return this.#answeredAtMs === null ? 0 : talkedSec((this.#endedAtMs ?? performance.now()) - this.#answeredAtMs);
  }

  get ending(): Ending | null {
    return this.#ending;
  }

  event(type: EventType, data: Record<string, unknown> = {}): void {
    this.#records.event(this.id, type, data);
  }

  /** There is a dialog now, or an INVITE that may become one: whoever finds this call after our death can tell its far end. */
  dialog(snapshot: LeftBehind): void {
    this.#records.dialog(this.id, snapshot);
  }

  /** Another phone has taken the place of one of its own. */
  continuesAs(sipCallId: string, snapshot: DialogSnapshot): void {
    this.laterSipCallIds.push(sipCallId);
    this.dialog(snapshot);
  }

  ringing(): void {
    if (this.#ringingAtMs !== null) return;
    this.#ringingAtMs = performance.now();
    this.event('call.ringing');
  }

  /** The far side may be heard before it answers: a ringing tone, or a voice that says why it does not. */
  earlyMedia(): void {
    if (this.#hasEarlyMedia) return;
    this.#hasEarlyMedia = true;
    this.event('call.early_media');
  }

  /** What only the dialling shows: the trunk that carries the call, its SIP Call-ID. */
  assign(facts: { trunkId?: string | null; sipCallId?: string }): void {
    if (facts.trunkId !== undefined) this.trunkId = facts.trunkId;
    this.#records.assign(this.id, facts);
  }

  /** Somebody asks for the end. */
  hangup(source: HangupSource): void {
    const isGivenUp = this.#direction === 'outbound' && !this.answered;
    this.end({ cause: isGivenUp ? 'originator_cancel' : 'normal_clearing', source });
  }

  /** The 200 was sent, or received, at `atMs`: billing starts. `answer` follows when the media path is open as well. */
  pickedUp(atMs: number): void {
    if (this.#answeredAtMs !== null) return;
    this.#answeredAtMs = atMs;
    this.#records.pickedUp(this.id, this.#at(atMs));
    if (this.#funds === null || this.#ending !== null) return;
    this.#stopFunding = watchFunds(this.#funds, {
      answeredAtMs: atMs,
      onExhausted: (fundedSec) => {
        this.event('balance.exhausted', { funded_seconds: fundedSec });
        this.end({ cause: 'insufficient_balance', source: 'system', detail: 'The balance is used up.' });
      },
      guarded: (handle) => {
        const run = this.guarded(handle);
        return () => run(undefined);
      },
    });
  }

  /** Answered, and both sides can hear each other: `call.answered`, once. */
  answer(): void {
    if (this.#answeredAtMs === null || this.#isAnswerWritten) return;
    this.#isAnswerWritten = true;
    this.#records.answered(this.id, {
      answeredAt: this.#at(this.#answeredAtMs),
      latencyMs: (this.#endedAtMs ?? performance.now()) - this.#startedAtMs,
    });
  }

  /** Something else that must be closed before the record is. */
  beside(close: () => Promise<unknown>): void {
    this.#beside.push(close);
  }

  async closeBeside(): Promise<void> {
    await Promise.allSettled(this.#beside.map((close) => close()));
  }

  /** Figures of the media session so far; comes every 5 seconds, and at the end. */
  heardQuality(stats: MediaStats): void {
    this.#summary.addSample(this.#at(performance.now()), stats);
  }

  /** Last figures of the media of an agent behind SIP. */
  agentLegEnded(stats: MediaStats): void {
    this.#summary.agentLegEnded(stats);
  }

  /** First frame of the agent's audio went to the phone. */
  heardAgent(): void {
    if (this.#firstAudioMs === null && this.#answeredAtMs !== null)
      this.#firstAudioMs = this.#since(this.#answeredAtMs);
  }

  /** One side has spoken and the other began. */
  turn(turn: Extract<MediaEvent, { type: 'turn' }>): void {
    const startedAt = this.#at(performance.now() - turn.agoMs).toISOString();
    const { speaker, durationMs, responseMs } = turn;
    this.#summary.addTurn({ startedAt, speaker, durationMs, responseMs });
    this.event('turn.completed', {
      speaker,
      started_at: startedAt,
      duration_ms: durationMs,
      response_ms: responseMs,
      talk_over: turn.talkOver,
    });
  }

  /** The call has its reason to end and goes on for a moment, whatever ends it then. False when it had one before. */
  settle(ending: Ending): boolean {
    if (this.#settled !== null) return false;
    this.#settled = ending;
    return true;
  }

  end(reason: Ending): void {
    if (this.#ending !== null) return;
    const ending = this.#settled ?? reason;
    this.#ending = ending;
    this.#endedAtMs = performance.now();
    this.#stopFunding?.();
    this.#resolveEnded(ending);
    this.#abort.abort(new CallEnded(ending)); // one error for all that wait: each would cost a stack trace
  }

  /** What media and agent tell is handled within their callbacks: an exception there ends this call, and not the process with all others. */
  guarded<E>(handle: (event: E) => void): (event: E) => void {
    return (event) => {
      try {
        handle(event);
      } catch (error) {
        this.fault ??= error;
        const detail = error instanceof Error ? error.message : String(error);
        this.end({ cause: 'unspecified', source: 'system', detail: `A fault of ours: ${detail}` });
      }
    };
  }

  /** Throws if the call has ended. */
  check(): void {
    if (this.#ending !== null) throw new CallEnded(this.#ending);
  }

  /** `promise`, unless the call ends first: then rejects with `CallEnded`. */
  async orEnd<T>(promise: Promise<T>): Promise<T> {
    const raced = await Promise.race([promise, this.ended.then(() => this.signal.reason as CallEnded)]);
    if (raced instanceof CallEnded) throw raced;
    return raced;
  }

  /** Writes the terminal record. Call it once everything of the call is closed. */
  finish(stats: MediaStats | null, trace: TraceEntry[]): void {
    // A call of less than 5 seconds has figures too.
    if (stats !== null && this.answered && stats.received.packets + stats.sent.packets > 0) this.heardQuality(stats);
    const ending = this.#ending ?? { cause: 'unspecified', source: 'system' };
    const endedAtMs = this.#endedAtMs ?? performance.now();
    this.#endedAtMs = endedAtMs;
    const answeredAtMs = this.#answeredAtMs;
    this.answer(); // it may have ended before its media path was open
    this.#records.finish(this.id, {
      status: callStatus(this.#direction, ending, this.answered),
      hangupCause: ending.cause,
      hangupSource: ending.source,
      completedAt: this.#at(endedAtMs),
      durationSec: this.durationSec,
      ringSeconds:
        this.#ringingAtMs === null ? null : Math.round(((answeredAtMs ?? endedAtMs) - this.#ringingAtMs) / 1000),
      timings: {
        ...(this.#ringingAtMs === null ? {} : { postDialDelayMs: Math.round(this.#ringingAtMs - this.#startedAtMs) }),
        ...(answeredAtMs === null ? {} : { setupMs: Math.round(answeredAtMs - this.#startedAtMs) }),
        ...(this.#firstAudioMs === null ? {} : { answerToFirstAudioMs: this.#firstAudioMs }),
      },
      transcript: this.transcript.text,
      ...this.#summary.fields(stats),
      trace,
      eventData: {
        ...(ending.detail === undefined ? {} : { detail: ending.detail }),
        ...(ending.sipStatus === undefined ? {} : { sip_status: ending.sipStatus }),
      },
    });
  }

  #since(fromMs: number): number {
    return Math.max(0, Math.round(performance.now() - fromMs));
  }

  /** Wall time of a monotonic instant, counted from the start of the call. */
  #at(ms: number): Date {
    return new Date(this.#startedAt.getTime() + Math.max(0, ms - this.#startedAtMs));
  }
}
