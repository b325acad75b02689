import { performance } from 'node:perf_hooks';
import type { Spoken } from '../../media/agents/agent.js';
import type { MediaStats } from '../../media/engine.js';
import type { TraceEntry } from '../store/call-records.js';
import type { Calls, NewCall } from '../store/calls.js';
import type { EventType } from '../store/event-types.js';
import type { CallCommand, CommandResult } from './command.js';
import { CallEnded, type Ending, inboundStatus } from './outcome.js';
import { qualityMetrics } from './quality-metrics.js';

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
  readonly transcript: Spoken[] = [];

  readonly #records: Calls;
  readonly #startedAtMs: number;
  readonly #startedAt: Date;
  readonly #abort = new AbortController();
  #resolveEnded!: (ending: Ending) => void;
  #ending: Ending | null = null;
  #answeredAtMs: number | null = null;
  #endedAtMs: number | null = null;
  #ringingAtMs: number | null = null;
  #firstAudioMs: number | null = null;

  constructor(records: Calls, newCall: NewCall & { createdAt: Date }, startedAtMs: number) {
    this.#records = records;
    this.#startedAtMs = startedAtMs;
    this.#startedAt = newCall.createdAt;
    this.id = records.begin(newCall);
    this.signal = this.#abort.signal;
    this.ended = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
  }

  get answered(): boolean {
    return this.#answeredAtMs !== null;
  }

  get ending(): Ending | null {
    return this.#ending;
  }

  event(type: EventType, data: Record<string, unknown> = {}): void {
    this.#records.event(this.id, type, data);
  }

  ringing(): void {
    this.#ringingAtMs ??= performance.now();
    this.event('call.ringing');
  }

  /** The far side confirmed and the media path is open: billing starts. */
  answer(): void {
    this.#answeredAtMs = performance.now();
    this.#records.answered(this.id, {
      answeredAt: this.#at(this.#answeredAtMs),
      latencyMs: this.#since(this.#startedAtMs),
    });
  }

  /** First frame of the agent's audio went to the phone. */
  heardAgent(): void {
    if (this.#firstAudioMs === null && this.#answeredAtMs !== null)
      this.#firstAudioMs = this.#since(this.#answeredAtMs);
  }

  end(ending: Ending): void {
    if (this.#ending !== null) return;
    this.#ending = ending;
    this.#endedAtMs = performance.now();
    this.#resolveEnded(ending);
    this.#abort.abort(new CallEnded(ending));
  }

  /** Throws if the call has ended. */
  check(): void {
    if (this.#ending !== null) throw new CallEnded(this.#ending);
  }

  /** `promise`, unless the call ends first: then rejects with `CallEnded`. */
  async orEnd<T>(promise: Promise<T>): Promise<T> {
    const raced = await Promise.race([promise, this.ended.then((ending) => new CallEnded(ending))]);
    if (raced instanceof CallEnded) throw raced;
    return raced;
  }

  /** Writes the terminal record. Call it once everything of the call is closed. */
  finish(stats: MediaStats | null, trace: TraceEntry[]): void {
    const ending = this.#ending ?? { cause: 'unspecified', source: 'system' };
    const endedAtMs = this.#endedAtMs ?? performance.now();
    const answeredAtMs = this.#answeredAtMs;
    this.#records.finish(this.id, {
      status: inboundStatus(ending, this.answered),
      hangupCause: ending.cause,
      hangupSource: ending.source,
      completedAt: this.#at(endedAtMs),
      durationSec: answeredAtMs === null ? 0 : Math.round((endedAtMs - answeredAtMs) / 1000),
      ringSeconds:
        this.#ringingAtMs === null ? null : Math.round(((answeredAtMs ?? endedAtMs) - this.#ringingAtMs) / 1000),
      quality: qualityMetrics(stats),
      timings: {
        ...(this.#ringingAtMs === null ? {} : { postDialDelayMs: Math.round(this.#ringingAtMs - this.#startedAtMs) }),
        ...(answeredAtMs === null ? {} : { setupMs: Math.round(answeredAtMs - this.#startedAtMs) }),
        ...(this.#firstAudioMs === null ? {} : { answerToFirstAudioMs: this.#firstAudioMs }),
      },
      transcript:
        this.transcript.length === 0
          ? null
          : this.transcript.map(({ speaker, text }) => `${speaker}: ${text}`).join('\n'),
      trace,
      eventData: ending.detail === undefined ? {} : { detail: ending.detail },
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
