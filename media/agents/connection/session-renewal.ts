/**
 * Sessions of some providers live only so long. The next one takes over in a pause before that, at the latest when time is up; what the
 * caller says while there is none is kept for it.
 */
import type { AudioTrack } from '../agent.js';

export interface RenewalLimits {
  /** So long before the end of a session a pause is waited for. */
  renewBeforeMs: number;
  /** Without a pause the next session takes over this long before the end. */
  renewLatestMs: number;
  /** Sessions within `renewWindowMs`; more of them mean that something is broken. */
  renewAtMost: number;
  renewWindowMs: number;
  /** From a session's end until the next one must be ready, and from one attempt to the next. */
  renewTimeoutMs: number;
  renewPauseMs: number;
  /** Of what the caller says meanwhile, the newest is kept. */
  backlogMs: number;
}

interface KeptFrame {
  bytes: Uint8Array;
  atMs: number;
  track: AudioTrack;
}

/** Reached when all that the agent said was heard; no mark of an agent begins with a NUL. */
const PAUSE = '\0pause';
const FRAME_MS = 20;

export class Renewal {
  readonly #limits: RenewalLimits;
  readonly #sessionLimitMs: number | undefined;
  readonly #renew: () => void;
  readonly #after: (ms: number, fn: () => void) => NodeJS.Timeout;
  readonly #mark: (name: string) => void;
  #session: NodeJS.Timeout | undefined;
  #due: NodeJS.Timeout | undefined;
  #sessionBeganAt = 0;
  #agentSpeaks = false;
  #asking = false;
  #renewedAt: number[] = [];
  #backlog: KeptFrame[] = [];

  constructor(
    limits: RenewalLimits,
    sessionLimitMs: number | undefined,
    hooks: { renew(): void; after(ms: number, fn: () => void): NodeJS.Timeout; mark(name: string): void },
  ) {
    this.#limits = limits;
    this.#sessionLimitMs = sessionLimitMs;
    this.#renew = hooks.renew;
    this.#after = hooks.after;
    this.#mark = hooks.mark;
  }

  sessionBegan(): void {
    this.#sessionBeganAt = performance.now();
    const limitMs = this.#sessionLimitMs;
    if (limitMs === undefined) return;
    const { renewBeforeMs, renewLatestMs } = this.#limits;
    this.#session = this.#after(limitMs - renewBeforeMs, () => this.soon(renewBeforeMs - renewLatestMs));
  }

  /** In the pause behind what the agent says, at the latest in so many milliseconds. */
  soon(withinMs: number): void {
    if (this.#due !== undefined) return;
    this.#due = this.#after(Math.max(0, withinMs), this.#renew);
    if (this.#agentSpeaks) return;
    // What was said before may still be heard. If it is not, it may be the caller who speaks.
    this.#asking = true;
    this.#mark(PAUSE);
    this.#asking = false;
  }

  agentSpeaks(): void {
    this.#agentSpeaks = true;
  }

  /** All audio of what the agent said is there. */
  agentSaidAll(): void {
    if (this.#due !== undefined && this.#agentSpeaks) this.#mark(PAUSE);
    this.#agentSpeaks = false;
  }

  /** True when the mark was ours. An agent that was interrupted leaves no pause: the caller is speaking. */
  reached(name: string, cleared: boolean): boolean {
    if (name !== PAUSE) return false;
    if (this.#due !== undefined && !cleared && !this.#asking) this.#renew();
    return true;
  }

  /** A session that ended now ended by its limit, whatever it says. */
  timeIsUp(): boolean {
    return (
      this.#sessionLimitMs !== undefined && performance.now() - this.#sessionBeganAt >= this.#sessionLimitMs * 0.99
    );
  }

  /** Counts: false when there were too many of late. */
  begin(): boolean {
    this.stop();
    const now = performance.now();
    this.#renewedAt = this.#renewedAt.filter((at) => now - at < this.#limits.renewWindowMs);
    if (this.#renewedAt.length >= this.#limits.renewAtMost) return false;
    this.#renewedAt.push(now);
    return true;
  }

  /** The caller, while there is no session. */
  keep(bytes: Uint8Array, atMs: number, track: AudioTrack): void {
    this.#backlog.push({ bytes: bytes.slice(), atMs, track });
    if (this.#backlog.length > this.#limits.backlogMs / FRAME_MS) this.#backlog.shift();
  }

  kept(): KeptFrame[] {
    return this.#backlog.splice(0);
  }

  stop(): void {
    clearTimeout(this.#session);
    clearTimeout(this.#due);
    this.#due = undefined;
  }
}
