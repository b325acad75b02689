/**
 * Whether a new call may come in. What counts is how long the application needs to say its first word to an INVITE: that wait grows
 * with any kind of overload behind this server, and while it is long another call would only make all of them late.
 */

export interface AdmissionLimits {
  /** New calls a second; null: as many as can be served. */
  invitesPerSec: number | null;
  /** INVITEs without final answer. */
  openInvites: number;
  /** The oldest INVITE that the application has said nothing to. */
  waitMs: number;
  /** How late the event loop of this thread, of the main thread or of a media thread may run. */
  lagMs: number;
}

export const DEFAULT_ADMISSION_LIMITS: AdmissionLimits = {
  invitesPerSec: null,
  openInvites: 5000,
  waitMs: 1000,
  lagMs: 1000,
};

/** How often the main thread says that it lives. */
export const REPORT_EVERY_MS = 100;
const PROBE_EVERY_MS = 50;

export class Admission {
  /** By the name of its transaction; those unheard of in order of arrival. */
  private readonly unheard = new Map<string, number>();
  private readonly open = new Set<string>();
  private readonly limits: AdmissionLimits;
  private tokens: number;
  private filledMs: number;
  /** The last report of the main thread; null until there is one. */
  private report: { atMs: number; lagMs: number } | null = null;
  private ownLagMs = 0;
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

  /** Null when a new call may come in; else the seconds of Retry-After. */
  admits(): number | null {
    const now = this.now();
    if (this.fits(now)) return null;
    this.refused++;
    // spread, so that those refused together do not come back together
    return 1 + Math.floor(Math.random() * 4);
  }

  /** An INVITE went up to the application. */
  delivered(id: string): void {
    this.unheard.set(id, this.now());
    this.open.add(id);
  }

  /** The application said its first word to it. */
  heard(id: string): void {
    this.unheard.delete(id);
  }

  /** It has its final answer. */
  settled(id: string): void {
    this.unheard.delete(id);
    this.open.delete(id);
  }

  private fits(now: number): boolean {
    const { openInvites, waitMs, lagMs } = this.limits;
    if (this.open.size >= openInvites || this.lagMs > lagMs) return false;
    for (const sinceMs of this.unheard.values()) {
      if (now - sinceMs > waitMs) return false;
      break;
    }
    return this.inRate(now);
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
