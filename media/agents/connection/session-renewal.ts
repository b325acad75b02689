/**
 * Replaces provider sessions that have a time limit. The next session takes over in a pause before the limit, or at the limit; the caller's
 * audio is kept while there is no session.
 */
import type { AudioTrack } from '../agent.js';

export interface RenewalLimits {
  /** How long before the end of a session the wait for a pause begins. */
  renewBeforeMs: number;
  /** Without a pause the next session takes over this long before the end. */
  renewLatestMs: number;
  /** The most renewals within `renewWindowMs`; more mean that something is broken. */
  renewAtMost: number;
  renewWindowMs: number;
  /** Time limit from a session's end until the next one is ready, and the pause between attempts. */
  renewTimeoutMs: number;
  renewPauseMs: number;
  /** The most caller audio that is kept meanwhile, the newest. */
  backlogMs: number;
}

interface KeptFrame {
  bytes: Uint8Array;
  atMs: number;
  track: AudioTrack;
}

/** Mark that is reached when all of the agent's audio was played; marks of agents never begin with a NUL. */
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

  /** Renews in the pause after the agent's current speech, within this time at the latest. */
  soon(withinMs: number): void {
    if (this.#due !== undefined) return;
    this.#due = this.#after(Math.max(0, withinMs), this.#renew);
    if (this.#agentSpeaks) return;
    // Earlier audio may still be playing. If not, the caller may be speaking, and this is no pause.
    this.#asking = true;
    this.#mark(PAUSE);
    this.#asking = false;
  }

  agentSpeaks(): void {
    this.#agentSpeaks = true;
  }

  /** All audio of the agent's current speech has arrived. */
  agentSaidAll(): void {
    if (this.#due !== undefined && this.#agentSpeaks) this.#mark(PAUSE);
    this.#agentSpeaks = false;
  }

  /** True when the mark was ours. An interruption leaves no pause, since the caller is speaking. */
  reached(name: string, cleared: boolean): boolean {
    if (name !== PAUSE) return false;
    if (this.#due !== undefined && !cleared && !this.#asking) this.#renew();
    return true;
  }

  /** A session that ends now was ended by its time limit, whatever the close code. */
  timeIsUp(): boolean {
    return (
      this.#sessionLimitMs !== undefined && performance.now() - this.#sessionBeganAt >= this.#sessionLimitMs * 0.99
    );
  }

  /** Counts a renewal: false when there were too many recently. */
  begin(): boolean {
    this.stop();
    const now = performance.now();
    this.#renewedAt = this.#renewedAt.filter((at) => now - at < this.#limits.renewWindowMs);
    if (this.#renewedAt.length >= this.#limits.renewAtMost) return false;
    this.#renewedAt.push(now);
    return true;
  }

  /** Keeps caller audio while there is no session. */
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
