/**
 * Decides whether a new call is admitted. The measure is how long the application needs for its first response to an INVITE: that wait
 * grows with any kind of overload of this process, and while it is long another call would only delay all of them. The time in which a
 * response waits for the disk or another machine does not count, but what the main thread then leaves lying does: it is asked all the time how
 * soon it hears. The wait is predicted, from the number of waiting INVITEs and the recent service rate: once it can be measured, far too many
 * calls have been admitted.
 *
 * Strangers wait in a short queue of their own, whatever they send: a known peer's call is judged as if they were not there, and the
 * application never has more than that queue to finish before it.
 */

export interface AdmissionLimits {
  /** New calls per second; null: as many as can be served. */
  invitesPerSec: number | null;
  /** INVITEs without a final response. */
  openInvites: number;
  /** Live subscriptions: above this number a SUBSCRIBE outside a dialog is refused. */
  subscriptions: number;
  /** Requests of strangers without any response from the application. */
  strangersWaiting: number;
  /** Age of the oldest INVITE without any response from the application. */
  waitMs: number;
  /** Predicted wait of a new INVITE for its first response. */
  foreseenWaitMs: number;
  /** How long a message to the main thread may wait, the mean of the last two, while many INVITEs have no response. */
  mainWaitMs: number;
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
  mainWaitMs: 150,
  lagMs: 1000,
};

/** How often the main thread reports that it is alive. */
export const REPORT_EVERY_MS = 100;
/**
 * Media threads measure once a second, the worst of that second. One bad second is a moment in which the machine stood still, which a new call
 * does not prolong: the lag of a media thread counts once it has lasted over two measurements.
 */
const REPORTS_OF_A_LASTING_LAG = 15;
const PROBE_EVERY_MS = 50;
/** So many INVITEs may always wait: fewer say nothing about the application's speed. */
const ALWAYS_MAY_WAIT = 16;
/** Weight of earlier measurements after 50 ms. */
const REMEMBERED = 0.8;
/**
 * For so long the application must have been busy before its speed is known. That it serves nothing for a shorter time says that the
 * process, or the machine, stood still for a moment.
 */
const MEASURED_MS = 200;
/** None served in an interval means, with 95 % confidence, fewer than three per interval: the assumed rate is never lower. */
const AT_LEAST_SERVED = 3;

export class InviteAdmission {
  /** When INVITEs without any response were delivered, by transaction id, in order of arrival. */
  private readonly unheard = new Map<string, number>();
  /** INVITEs that wait for something else than the application, by its own word, or for it again. */
  private readonly takenUpIds = new Set<string>();
  private readonly open = new Set<string>();
  /** Requests of strangers, by transaction id: true for an INVITE. */
  private readonly strangers = new Map<string, boolean>();
  private readonly limits: AdmissionLimits;
  private tokens: number;
  private filledMs: number;
  /** When the main thread reported last; null until it did. */
  private reportedMs: number | null = null;
  /** How late the media threads ran, by its last reports. */
  private readonly mediaLagsMs: number[] = [];
  /** When the main thread was asked for a sign of life that it still owes, and how long the two before took. */
  private askedMs: number | null = null;
  private mainWaitsMs: [before: number, last: number] = [0, 0];
  /** How late the event loop of this thread runs; a peak is halved with each measurement. */
  ownLagMs = 0;
  /** First responses since the last probe, and whether enough INVITEs waited all the time to keep the application busy. */
  private served = 0;
  private isPressed = false;
  /**
   * First responses while the application was busy, and in how many ms, the latest weighing most, and since when it is busy; null when it
   * was idle, so that its speed is unknown.
   */
  private pace: { served: number; ms: number; busyMs: number } | null = null;
  private probe: NodeJS.Timeout | null = null;
  /** Calls refused for overload. */
  refused = 0;

  constructor(
    private readonly now: () => number,
    limits: Partial<AdmissionLimits> = {},
    /** Whether a request that is read now may be so old that another server has it. */
    private readonly readsOld: () => boolean = () => false,
  ) {
    this.limits = { ...DEFAULT_ADMISSION_LIMITS, ...limits };
    this.tokens = this.limits.invitesPerSec ?? 0;
    this.filledMs = now();
  }

  /** Starts to measure the lag of this thread's event loop. `askMain`: called when the main thread is to answer at once, by `mainAnswered`. */
  watch(askMain?: () => void): void {
    let dueMs = this.now() + PROBE_EVERY_MS;
    this.probe = setInterval(() => {
      const now = this.now();
      this.ownLagMs = Math.max(now - dueMs, this.ownLagMs / 2);
      this.estimate(PROBE_EVERY_MS); // not longer when this thread was late: then the responses of that time are not read yet
      dueMs = now + PROBE_EVERY_MS;
      if (!askMain || this.askedMs !== null) return;
      this.askedMs = now;
      askMain();
    }, PROBE_EVERY_MS).unref();
  }

  close(): void {
    if (this.probe) clearInterval(this.probe);
  }

  /** A report of the main thread: how late the media threads run. Without reports the main thread itself is late. */
  reported(lagMs: number): void {
    this.reportedMs = this.now();
    this.mediaLagsMs.push(lagMs);
    if (this.mediaLagsMs.length > REPORTS_OF_A_LASTING_LAG) this.mediaLagsMs.shift();
  }

  /** The main thread has read the question of `watch`. */
  mainAnswered(): void {
    if (this.askedMs === null) return;
    this.mainWaitsMs = [this.mainWaitsMs[1], this.now() - this.askedMs];
    this.askedMs = null;
  }

  /** How long messages to the main thread wait; that it is held up once, for less than twice the limit, is no overload. */
  private mainWaitMs(now: number): number {
    const [beforeMs, lastMs] = this.mainWaitsMs;
    const dueMs = this.askedMs === null ? 0 : now - this.askedMs;
    return (lastMs + Math.max(beforeMs, dueMs)) / 2;
  }

  get lagMs(): number {
    const mainMs = this.reportedMs === null ? 0 : this.now() - this.reportedMs - REPORT_EVERY_MS;
    const isLasting = this.mediaLagsMs.length >= REPORTS_OF_A_LASTING_LAG;
    return Math.max(this.ownLagMs, mainMs, isLasting ? Math.min(...this.mediaLagsMs) : 0);
  }

  /** True when a stranger's request, of any method, may be passed to the application. */
  get hasRoomForStranger(): boolean {
    return this.strangers.size < this.limits.strangersWaiting;
  }

  /**
   * Null when a new call is admitted; else the seconds for Retry-After. A stranger's call does not count against the rate of known peers.
   */
  admits(isKnown = true): number | null {
    const now = this.now();
    return this.fits(now) && (!isKnown || this.inRate(now)) ? null : this.refusal();
  }

  /** As `admits`, for a new subscription; `living`: how many there are. */
  admitsSubscription(living: number): number | null {
    return living < this.limits.subscriptions ? null : this.refusal();
  }

  private refusal(): number {
    this.refused++;
    // random, so that refused callers do not all return at once
    return 1 + Math.floor(Math.random() * 4);
  }

  /** An INVITE of a known peer was passed to the application. */
  delivered(id: string): void {
    this.unheard.set(id, this.now());
    this.open.add(id);
  }

  /** A stranger's request was passed to the application. */
  deliveredOfStranger(id: string, isInvite: boolean): void {
    this.strangers.set(id, isInvite);
  }

  /** The application reports that its first response waits for something other than itself, such as the disk. */
  takenUp(id: string): void {
    if (this.unheard.has(id)) this.takenUpIds.add(id);
    this.heardOf(id);
  }

  /** The application sent its first response. */
  heard(id: string): void {
    this.takenUpIds.delete(id);
    this.heardOf(id);
  }

  private heardOf(id: string): void {
    const ofStranger = this.strangers.get(id);
    if (ofStranger !== undefined) {
      this.strangers.delete(id);
      if (ofStranger) this.open.add(id); // from here on it counts as any other call
      return;
    }
    if (!this.unheard.delete(id)) return;
    this.served++;
    if (this.unheard.size < ALWAYS_MAY_WAIT) this.isPressed = false;
    if (this.unheard.size === 0) this.pace = null;
  }

  /** The request has its final response. */
  settled(id: string): void {
    this.heard(id);
    this.open.delete(id);
  }

  /** Updates the service rate; an interval in which the application waited for work does not count. */
  estimate(elapsedMs: number): void {
    if (this.isPressed) {
      const { served, ms, busyMs } = this.pace ?? { served: 0, ms: 0, busyMs: 0 };
      this.pace = {
        served: served * REMEMBERED + this.served,
        ms: ms * REMEMBERED + elapsedMs,
        busyMs: busyMs + elapsedMs,
      };
    }
    this.served = 0;
    this.isPressed = this.unheard.size >= ALWAYS_MAY_WAIT;
  }

  private fits(now: number): boolean {
    const { openInvites, waitMs, foreseenWaitMs, mainWaitMs, lagMs } = this.limits;
    if (this.open.size >= openInvites || this.lagMs > lagMs || this.readsOld()) return false;
    if (this.unheard.size >= ALWAYS_MAY_WAIT && this.foreseenMs() > foreseenWaitMs) return false;
    const withoutResponse = this.unheard.size + this.takenUpIds.size;
    if (withoutResponse >= ALWAYS_MAY_WAIT && this.mainWaitMs(now) > mainWaitMs) return false;
    for (const sinceMs of this.unheard.values()) {
      if (now - sinceMs > waitMs) return false;
      break;
    }
    return true;
  }

  /** The predicted wait of a new call for its first response; 0 when it is unknown. */
  private foreseenMs(): number {
    if (this.pace === null || this.pace.busyMs < MEASURED_MS) return 0;
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
