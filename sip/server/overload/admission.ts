/**
 * Whether a new call may come in. What counts is how long the application needs to say its first word to an INVITE: that wait grows with any
 * kind of overload behind this server, and while it is long another call would only make all of them late. It is foreseen, from how many
 * INVITEs wait and how many were served lately, since who waits for it to happen has let in far too many.
 *
 * Strangers wait in a short queue of their own, whatever they ask: a known peer's call is judged as if they were not there, and the
 * application has never more than that queue to finish before it.
 */

export interface AdmissionLimits {
  /** New calls a second; null: as many as can be served. */
  invitesPerSec: number | null;
  /** INVITEs without final answer. */
  openInvites: number;
  /** Subscriptions alive: no SUBSCRIBE outside a dialog is let in above that. */
  subscriptions: number;
  /** Requests of strangers that the application has said nothing to. */
  strangersWaiting: number;
  /** The oldest INVITE that the application has said nothing to. */
  waitMs: number;
  /** How long a new INVITE would have to wait for the first word, as far as can be foreseen. */
  foreseenWaitMs: number;
  /** How late the event loop of this thread, of the main thread or of a media thread may run. */
  lagMs: number;
}

export const DEFAULT_ADMISSION_LIMITS: AdmissionLimits = {
  invitesPerSec: null,
  openInvites: 5000,
  subscriptions: 5000,
  strangersWaiting: 100,
  waitMs: 1000,
  foreseenWaitMs: 300,
  lagMs: 1000,
};

/** How often the main thread says that it lives. */
export const REPORT_EVERY_MS = 100;
const PROBE_EVERY_MS = 50;
/** So many may wait however slow the application seems: fewer say nothing about its speed. */
const ALWAYS_MAY_WAIT = 16;
/** How much of what was seen before still counts 50 ms later. */
const REMEMBERED = 0.8;
/** None served in a time says with 95 % that fewer than three are served in such a time: no less is taken for its speed. */
const AT_LEAST_SERVED = 3;

export class InviteAdmission {
  /** By the name of its transaction; those unheard of in order of arrival. */
  private readonly unheard = new Map<string, number>();
  private readonly open = new Set<string>();
  /** Requests of strangers, by the name of their transaction: whether they are INVITEs. */
  private readonly strangers = new Map<string, boolean>();
  private readonly limits: AdmissionLimits;
  private tokens: number;
  private filledMs: number;
  /** The last report of the main thread; null until there is one. */
  private report: { atMs: number; lagMs: number } | null = null;
  private ownLagMs = 0;
  /** First words since the last probe, and whether so many waited for one all the time that the application had no pause. */
  private served = 0;
  private isPressed = false;
  /** First words, and in how long, while it had no pause, the latest counting most; null: it had one, so its speed is not known. */
  private pace: { served: number; ms: number } | null = null;
  private probe: NodeJS.Timeout | null = null;
  /** Calls refused for overload. */
  refused = 0;

  constructor(
    private readonly now: () => number,
    limits: Partial<AdmissionLimits> = {},
  ) {
    this.limits = { ...DEFAULT_ADMISSION_LIMITS, ...limits };
    this.tokens = this.limits.invitesPerSec ?? 0;
    this.filledMs = now();
  }

  /** Begins to watch the event loop of this thread. */
  watch(): void {
    let dueMs = this.now() + PROBE_EVERY_MS;
    this.probe = setInterval(() => {
      const now = this.now();
      this.ownLagMs = Math.max(now - dueMs, this.ownLagMs / 2);
      this.estimate(now - dueMs + PROBE_EVERY_MS);
      dueMs = now + PROBE_EVERY_MS;
    }, PROBE_EVERY_MS).unref();
  }

  close(): void {
    if (this.probe) clearInterval(this.probe);
  }

  /** The main thread: how late it saw the media threads run. When it stays silent it is late itself. */
  reported(lagMs: number): void {
    this.report = { atMs: this.now(), lagMs };
  }

  get lagMs(): number {
    const report = this.report;
    const mainMs = report ? this.now() - report.atMs - REPORT_EVERY_MS : 0;
    return Math.max(this.ownLagMs, mainMs, report?.lagMs ?? 0);
  }

  /** Whether a stranger's request, of any method, may go to the application. */
  get hasRoomForStranger(): boolean {
    return this.strangers.size < this.limits.strangersWaiting;
  }

  /** Null when a new call may come in; else the seconds of Retry-After. A stranger's call takes nothing of the known peers' rate. */
  admits(isKnown = true): number | null {
    const now = this.now();
    return this.fits(now) && (!isKnown || this.inRate(now)) ? null : this.refusal();
  }

  /** As `admits`, for a new subscription beside the living ones. */
  admitsSubscription(living: number): number | null {
    return living < this.limits.subscriptions ? null : this.refusal();
  }

  private refusal(): number {
    this.refused++;
    // spread, so that those refused together do not come back together
    return 1 + Math.floor(Math.random() * 4);
  }

  /** An INVITE of a known peer went up to the application. */
  delivered(id: string): void {
    this.unheard.set(id, this.now());
    this.open.add(id);
  }

  /** A stranger's request went up to the application. */
  deliveredOfStranger(id: string, isInvite: boolean): void {
    this.strangers.set(id, isInvite);
  }

  /** The application said its first word to it. */
  heard(id: string): void {
    const ofStranger = this.strangers.get(id);
    if (ofStranger !== undefined) {
      this.strangers.delete(id);
      if (ofStranger) this.open.add(id); // it rings: a call like any other
      return;
    }
    if (!this.unheard.delete(id)) return;
    this.served++;
    if (this.unheard.size < ALWAYS_MAY_WAIT) this.isPressed = false;
    if (this.unheard.size === 0) this.pace = null;
  }

  /** It has its final answer. */
  settled(id: string): void {
    this.heard(id);
    this.open.delete(id);
  }

  /** What was served in this time; an application that waited for work in it might have served more. */
  estimate(elapsedMs: number): void {
    if (this.isPressed) {
      const { served, ms } = this.pace ?? { served: 0, ms: 0 };
      this.pace = { served: served * REMEMBERED + this.served, ms: ms * REMEMBERED + elapsedMs };
    }
    this.served = 0;
    this.isPressed = this.unheard.size >= ALWAYS_MAY_WAIT;
  }

  private fits(now: number): boolean {
    const { openInvites, waitMs, foreseenWaitMs, lagMs } = this.limits;
    if (this.open.size >= openInvites || this.lagMs > lagMs) return false;
    if (this.unheard.size >= ALWAYS_MAY_WAIT && this.foreseenMs() > foreseenWaitMs) return false;
    for (const sinceMs of this.unheard.values()) {
      if (now - sinceMs > waitMs) return false;
      break;
    }
    return true;
  }

  /** How long a new call would wait for the first word; 0 when nobody knows. */
  private foreseenMs(): number {
    if (this.pace === null) return 0;
    return (this.unheard.size * this.pace.ms) / Math.max(this.pace.served, AT_LEAST_SERVED);
  }

  private inRate(now: number): boolean {
    const { invitesPerSec } = this.limits;
    if (invitesPerSec === null) return true;
    this.tokens = Math.min(invitesPerSec, this.tokens + ((now - this.filledMs) * invitesPerSec) / 1000);
    this.filledMs = now;
    if (this.tokens < 1) return false;
    this.tokens--;
    return true;
  }
}
