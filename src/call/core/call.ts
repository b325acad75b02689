import { performance } from 'node:perf_hooks';
import type { AgentEvent, Spoken } from '../../../media/agents/agent.js';
import type { MediaEvent, MediaSession, MediaStats } from '../../../media/engine.js';
import { Cookies } from '../../../net/cookies.js';
import type { CallLeg, UnfinishedDialog } from '../../../sip/leg.js';
import { talkedSec } from '../../billing/duration.js';
import type { TraceEntry } from '../../store/calls/call-records.js';
import type { Calls } from '../../store/calls/calls.js';
import type { EventType } from '../../store/calls/event-types.js';
import type { Direction, HangupSource } from '../../store/database/tables.js';
import { Redaction } from '../redaction/redaction.js';
import { TerminalSummary } from './call-summary.js';
import type { CallCommand, CommandResult } from './command.js';
import type { AgentConnect, EndedCall } from './ended-call.js';
import { type CallFunds, watchFunds } from './funding.js';
import { CallEnded, callStatus, type Ending } from './outcome.js';
import type { PartyFacts } from './party-facts.js';
import type { TraceContext } from './trace-context.js';
import { Transcript } from './transcript.js';
import type { TransferFallback } from './transfer-fallback.js';

/** The recording of a call while it runs. */
export interface CallRecording {
  /** Idempotent. */
  pause(paused: boolean): void;
}

/** One phone of a call, as an INVITE with Replaces (RFC 3891) finds it. */
export interface CallPhone {
  readonly leg: CallLeg | null;
  /** The leg of the phone from now on; the one before gets BYE. */
  useLeg(leg: CallLeg): void;
  readonly session: MediaSession;
  readonly facts: PartyFacts;
}

/** A call whose record is queued. */
export interface BegunCall {
  id: string;
  /** When the INVITE arrived, or was requested. */
  createdAt: Date;
  /** The same moment on the monotonic clock. */
  startedAtMs: number;
  /** The money reserved for it; null: the call costs nothing, or its organization is not metered. */
  funds: CallFunds | null;
}

/**
 * One running call: its record, its clock and its ending. Everything that may end a call calls `end`; the first reason wins, and
 * `signal` aborts everything that waits. Durations come from the monotonic clock, so they are never negative.
 */
export class Call {
  readonly id: string;
  readonly signal: AbortSignal;
  /** Resolves once, with the first reason. */
  readonly ended: Promise<Ending>;
  /** Carries out a command; null before the call has a party. */
  commands: ((command: CallCommand) => Promise<CommandResult>) | null = null;
  /** null: nothing is recorded at the moment. */
  recording: CallRecording | null = null;
  /** Whether the whole call is recorded; null: as the endpoint says that takes it. */
  isRecorded: boolean | null = null;
  /** The span of another program that asked for it. */
  requestedBy: TraceContext | undefined;
  /** null until the party has media. */
  transferFallback: TransferFallback | null = null;
  /** The exception of a callback that ended the call; null: none. */
  fault: unknown = null;
  readonly #beside: (() => Promise<unknown>)[] = [];
  /** The phones of this call by their legs; another phone may replace one (RFC 3891). */
  readonly phones = new Map<CallLeg, CallPhone>();
  /** null when no trunk is involved. */
  trunkId: string | null = null;
  /** Call-IDs of dialogs that replaced the first one; each has its own SIP trace. */
  readonly laterSipCallIds: string[] = [];
  readonly #agentConnects: AgentConnect[] = [];
  #admittedAtMs: number | null = null;
  /** Cookies of its webhooks. */
  readonly cookies = new Cookies();
  readonly transcript = new Transcript();
  /** What of it is kept out of the record. */
  readonly redaction: Redaction;

  readonly #records: Calls;
  readonly #direction: Direction;
  readonly #startedAtMs: number;
  readonly #startedAt: Date;
  readonly #abort = new AbortController();
  #resolveEnded!: (ending: Ending) => void;
  readonly #summary = new TerminalSummary();
  #funds: CallFunds | null;
  #wentOnUnfunded = false;

  #stopFunding: (() => void) | null = null;
  #ending: Ending | null = null;
  /** The ending that is already decided while the call goes on for a moment. */
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
    this.redaction = new Redaction({
      event: (type, data) => this.event(type, data),
      sinceAnswerMs: () => (this.#answeredAtMs === null ? 0 : this.#since(this.#answeredAtMs)),
      clockMs: () => performance.timeOrigin + performance.now(),
    });
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

  /** An utterance whose words are known: a line of the transcript, and an event with `more`. `beganMs` as in `AgentEvent`. */
  said({ speaker, text, beganMs }: Spoken & { beganMs?: number }, more: Record<string, unknown> = {}): void {
    const line = { speaker, text: this.redaction.textOf(text, beganMs) };
    this.transcript.add({ ...line, ...(beganMs !== undefined && { beganMs }) });
    this.event('transcript.final', { ...line, ...more });
  }

  /** Saves the state of a dialog or of a pending INVITE, so that the next process can end it if this one dies. */
  dialog(snapshot: UnfinishedDialog): void {
    this.#records.dialog(this.id, snapshot);
  }

  /** Another phone replaced one of this call. */
  continuesAs(sipCallId: string): void {
    this.laterSipCallIds.push(sipCallId);
  }

  ringing(): void {
    if (this.#ringingAtMs !== null) return;
    this.#ringingAtMs = performance.now();
    this.event('call.ringing');
  }

  /** The callee can be heard before it answers: a ringing tone or an announcement. */
  earlyMedia(): void {
    if (this.#hasEarlyMedia) return;
    this.#hasEarlyMedia = true;
    this.event('call.early_media');
  }

  /** Facts that are known only when the call is dialled: its trunk and its SIP Call-ID. */
  assign(facts: { trunkId?: string | null; sipCallId?: string }): void {
    if (facts.trunkId !== undefined) this.trunkId = facts.trunkId;
    this.#records.assign(this.id, facts);
  }

  /** Ends the call on request of `source`. */
  hangup(source: HangupSource): void {
    const isGivenUp = this.#direction === 'outbound' && !this.answered;
    this.end({ cause: isGivenUp ? 'originator_cancel' : 'normal_clearing', source });
  }

  /** It is known whether the call may be. */
  admitted(): void {
    this.#admittedAtMs ??= performance.now();
  }

  /** An agent is ready, after `ms`. */
  agentConnected(agent: Omit<AgentConnect, 'readyAt' | 'ms'>, ms: number): void {
    this.#agentConnects.push({ ...agent, readyAt: this.#at(performance.now()), ms: Math.round(ms) });
  }

  /** What pays for it, once that is known; before it is answered. */
  fund(funds: CallFunds | null): void {
    this.#funds = funds;
  }

  /** The 200 was sent or received at `atMs`: billing starts. `answer` follows when the media path is open. */
  pickedUp(atMs: number): void {
    if (this.#answeredAtMs !== null) return;
    this.#answeredAtMs = atMs;
    this.#records.pickedUp(this.id, this.#at(atMs));
    if (this.#funds === null || this.#ending !== null) return;
    const { graceSec } = this.#funds;
    this.#stopFunding = watchFunds(this.#funds, {
      answeredAtMs: atMs,
      onUnfunded: (fundedSec) => {
        this.#wentOnUnfunded = true;
        this.event('balance.unasked', { funded_seconds: fundedSec, grace_seconds: graceSec });
      },
      onGraceOver: () =>
        this.end({ cause: 'overload', source: 'system', detail: 'The balance could not be asked for too long.' }),
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

  /** Both sides can hear each other: writes `call.answered`, once. */
  answer(): void {
    if (this.#answeredAtMs === null || this.#isAnswerWritten) return;
    this.#isAnswerWritten = true;
    this.#records.answered(this.id, {
      answeredAt: this.#at(this.#answeredAtMs),
      latencyMs: (this.#endedAtMs ?? performance.now()) - this.#startedAtMs,
    });
  }

  /** Registers something that must be closed before the record is written. */
  beside(close: () => Promise<unknown>): void {
    this.#beside.push(close);
  }

  async closeBeside(): Promise<void> {
    await Promise.allSettled(this.#beside.map((close) => close()));
  }

  /** A quality sample of the media session: every 5 seconds, and at the end. */
  heardQuality(stats: MediaStats): void {
    this.#summary.addSample(this.#at(performance.now()), stats);
  }

  /** A provider counted tokens. */
  used({ provider = '', tokens }: Extract<AgentEvent, { type: 'usage' }>): void {
    this.#summary.addTokens(provider, tokens);
  }

  /** Last figures of the media of an agent behind SIP. */
  agentLegEnded(stats: MediaStats): void {
    this.#summary.agentLegEnded(stats);
  }

  /** The first frame of the agent's audio was sent to the phone. */
  heardAgent(): void {
    if (this.#firstAudioMs === null && this.#answeredAtMs !== null)
      this.#firstAudioMs = this.#since(this.#answeredAtMs);
  }

  /** A turn is over: one side spoke, and the other began. */
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

  /** Decides the ending of a call that goes on for a moment; later reasons only end it sooner. False when it is already decided. */
  settle(ending: Ending): boolean {
    if (this.#settled !== null) return false;
    this.#settled = ending;
    return true;
  }

  end(reason: Ending): void {
    if (this.#ending !== null) return;
    const ending = this.#settled ?? reason;
    this.redaction.close();
    this.#ending = ending;
    this.#endedAtMs = performance.now();
    this.#stopFunding?.();
    this.#resolveEnded(ending);
    this.#abort.abort(new CallEnded(ending)); // one shared error, because every error costs a stack trace
  }

  /** Wraps a callback of media, SIP or agent: an exception in it ends this call, not the process. */
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
  finish(stats: MediaStats | null, sipCallId: string, trace: TraceEntry[]): EndedCall {
    // Calls of less than 5 seconds need a sample too.
    if (stats !== null && this.answered && stats.received.packets + stats.sent.packets > 0) this.heardQuality(stats);
    const ending = this.#ending ?? { cause: 'unspecified', source: 'system' };
    const endedAtMs = this.#endedAtMs ?? performance.now();
    this.#endedAtMs = endedAtMs;
    const answeredAtMs = this.#answeredAtMs;
    this.answer(); // the call may have ended before its media path was open
    const direction = this.#direction;
    const status = callStatus(direction, ending, this.answered);
    const { durationSec } = this;
    const ringSec =
      this.#ringingAtMs === null ? null : Math.round(((answeredAtMs ?? endedAtMs) - this.#ringingAtMs) / 1000);
    const timings = {
      ...(this.#ringingAtMs === null ? {} : { postDialDelayMs: Math.round(this.#ringingAtMs - this.#startedAtMs) }),
      ...(answeredAtMs === null ? {} : { setupMs: Math.round(answeredAtMs - this.#startedAtMs) }),
      ...(this.#firstAudioMs === null ? {} : { answerToFirstAudioMs: this.#firstAudioMs }),
    };
    const summary = this.#summary.fields(stats);
    const owner = this.#records.ownerOf(this.id);
    this.#records.finish(this.id, {
      status,
      hangupCause: ending.cause,
      hangupSource: ending.source,
      completedAt: this.#at(endedAtMs),
      durationSec,
      ringSeconds: ringSec,
      timings,
      wentOnUnfunded: this.#wentOnUnfunded,
      transcript: this.transcript.text,
      ...summary,
      trace,
      eventData: {
        ...(ending.detail === undefined ? {} : { detail: ending.detail }),
        ...(ending.sipStatus === undefined ? {} : { sip_status: ending.sipStatus }),
      },
    });
    return {
      ...ending,
      ...{ id: this.id, sipCallId, direction, status, durationSec, ringSec, timings },
      ...(owner && { owner }),
      trunkId: this.trunkId,
      startedAt: this.#startedAt,
      admittedAt: this.#admittedAtMs === null ? null : this.#at(this.#admittedAtMs),
      completedAt: this.#at(endedAtMs),
      agentConnects: this.#agentConnects,
      ...(this.requestedBy && { requestedBy: this.requestedBy }),
      quality: summary.quality,
      turns: summary.turns,
    };
  }

  #since(fromMs: number): number {
    return Math.max(0, Math.round(performance.now() - fromMs));
  }

  /** Wall time of a monotonic instant, counted from the start of the call. */
  #at(ms: number): Date {
    return new Date(this.#startedAt.getTime() + Math.max(0, ms - this.#startedAtMs));
  }
}
