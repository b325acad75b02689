/** Session timers (RFC 4028): the refresher, the time of refreshes, and the end of a session that is not refreshed. */
import { parseParameters } from '../message/fields.js';
import type { Header, SipRequest, SipResponse } from '../message/message.js';
import type { Timer, TransactionClock } from '../transactions/timers.js';

export const MIN_SE_SEC = 90;
/** Pause before a refresh is retried after 491; longer for the owner of the Call-ID (RFC 3261 14.1). */
const OWNER_PAUSE_MS = { least: 2100, spread: 1900 };
const OTHER_PAUSE_MS = { least: 0, spread: 2000 };
/** A shorter interval than allowed is accepted from the far side, but not below this, to avoid constant refreshes. */
const LEAST_KEPT_SEC = 2;

export interface SessionInterval {
  seconds: number;
  refresher: 'uac' | 'uas' | null;
}

/** Null when absent or malformed. */
export function sessionExpires(value: string | undefined): SessionInterval | null {
  const match = /^(\d{1,9})\s*(;.*)?$/.exec(value ?? '');
  if (!match) return null;
  const refresher = parseParameters(match[2] ?? '')
    .get('refresher')
    ?.toLowerCase();
  return { seconds: Number(match[1]), refresher: refresher === 'uac' || refresher === 'uas' ? refresher : null };
}

/** True when the interval is below our minimum and the far side supports timers: answered with 422 (RFC 4028 5). */
export function isIntervalTooSmall(request: SipRequest): boolean {
  const offered = sessionExpires(request.get('session-expires'));
  return offered !== null && offered.seconds < MIN_SE_SEC && request.lists('supported', 'timer');
}

/** The session interval for our 2xx to INVITE or UPDATE: from the application's answer, else from the offer (RFC 4028 9). */
export function agree(
  request: SipRequest,
  answer: readonly Header[],
): { interval: SessionInterval | null; headers: Header[] } {
  const own = sessionExpires(answer.find((header) => header.name === 'session-expires')?.value);
  const offered = sessionExpires(request.get('session-expires'));
  const peerKnowsTimers = request.lists('supported', 'timer');
  if (!own && !offered) return { interval: null, headers: [] };
  const seconds = Math.max(own?.seconds ?? offered!.seconds, MIN_SE_SEC);
  // a peer without timer support cannot refresh; one that names no refresher refreshes itself
  const refresher = peerKnowsTimers ? (offered?.refresher ?? own?.refresher ?? 'uac') : 'uas';
  const headers: Header[] = [{ name: 'session-expires', value: `${seconds};refresher=${refresher}` }];
  const required = answer.some((header) => header.name === 'require' && /\btimer\b/i.test(header.value));
  if (peerKnowsTimers && !required) headers.push({ name: 'require', value: 'timer' });
  return { interval: { seconds, refresher }, headers };
}

function offer(seconds: number, refresher: 'uac' | 'uas'): Header[] {
  return [
    { name: 'session-expires', value: `${seconds};refresher=${refresher}` },
    { name: 'supported', value: 'timer' },
    { name: 'min-se', value: String(MIN_SE_SEC) },
  ];
}

export interface SessionTimerUser {
  /** True when the Call-ID is ours: we sent the INVITE that opened the dialog. */
  readonly ownsCallId: boolean;
  /** Sends a refresh; `done` gets the final status, 0 when it could not be sent, and the Min-SE of the response. */
  refresh(headers: Header[], done: (status: number, minSe?: string) => void): void;
  /** The session has expired: BYE. */
  expired(text: string): void;
}

export class SessionTimer {
  private refreshing: Timer | null = null;
  private agreed: { seconds: number; isOurs: boolean } | null = null;
  /** RFC 4028 10: fires a little before the session expires, while the far side still knows the dialog. */
  private end: Timer | null = null;

  constructor(
    private readonly clock: TransactionClock,
    private readonly user: SessionTimerUser,
  ) {}

  /** Applies the interval of a 2xx that we sent (`uas`) or received (`uac`); null: no timer. */
  set(interval: SessionInterval | null, weAre: 'uac' | 'uas'): void {
    this.stop();
    if (!interval) return;
    const seconds = Math.max(interval.seconds, LEAST_KEPT_SEC);
    const isOurs = (interval.refresher ?? 'uac') === weAre;
    this.agreed = { seconds, isOurs };
    const earlierSec = Math.min(32, seconds / 3);
    this.end = this.clock.after((seconds - earlierSec) * 1000, () => this.over('Session timer expired'));
    if (isOurs) this.refreshAfter(seconds * 500, seconds);
  }

  /** A 2xx to our request in the dialog. */
  answered(response: SipResponse): void {
    this.set(sessionExpires(response.get('session-expires')), 'uac');
  }

  /** Headers for the application's INVITE or UPDATE: a request without them would end the timer (RFC 4028 7.4). */
  currentHeaders(): Header[] {
    return this.agreed === null ? [] : offer(this.agreed.seconds, this.agreed.isOurs ? 'uac' : 'uas');
  }

  stop(): void {
    this.agreed = null;
    this.refreshing?.cancel();
    this.end?.cancel();
    this.refreshing = null;
    this.end = null;
  }

  private over(text: string): void {
    this.stop();
    this.user.expired(text);
  }

  /**
   * Refreshes until one succeeds or the session expires. When the far side demands a longer interval the refresh is repeated at once, but
   * only once: it could demand again.
   */
  private refreshAfter(delayMs: number, seconds: number, wasLengthened = false): void {
    this.refreshing?.cancel();
    this.refreshing = this.clock.after(delayMs, () => {
      this.user.refresh(offer(seconds, 'uac'), (status, minSe) => {
        if (this.end === null || (status >= 200 && status < 300)) return;
        // the far side is unreachable, or no longer knows the dialog
        if (status === 408 || status === 481) return this.over('Session timer refresh failed');
        const leastSec = status === 422 && /^\d{1,9}$/.test(minSe ?? '') ? Number(minSe) : 0;
        if (leastSec > seconds && !wasLengthened) return this.refreshAfter(0, leastSec, true);
        const pause = this.user.ownsCallId ? OWNER_PAUSE_MS : OTHER_PAUSE_MS;
        const isBusy = status === 491 || status === 0;
        this.refreshAfter(isBusy ? pause.least + Math.random() * pause.spread : seconds * 100, seconds, wasLengthened);
      });
    });
  }
}
