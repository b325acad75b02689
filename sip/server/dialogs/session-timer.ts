/** Session timers (RFC 4028): who refreshes, when, and the end of a session nobody refreshes. */
import { parseParameters } from '../message/fields.js';
import type { Header, SipRequest, SipResponse } from '../message/message.js';
import type { Timer, TransactionClock } from '../transactions/timers.js';

export const MIN_SE_SEC = 90;
/** A refresh that met 491 is tried again after a while, which whoever chose the Call-ID makes longer (RFC 3261 14.1). */
const OWNER_PAUSE_MS = { least: 2100, spread: 1900 };
const OTHER_PAUSE_MS = { least: 0, spread: 2000 };
/** A far side that answers with less than it may is taken at its word, but not refreshed without a break. */
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

/** 422 for an interval below ours, when the far side can do something about it (RFC 4028 5). */
export function tooSmall(request: SipRequest): boolean {
  const offered = sessionExpires(request.get('session-expires'));
  return offered !== null && offered.seconds < MIN_SE_SEC && request.lists('supported', 'timer');
}

/** What a 2xx to INVITE or UPDATE says of the session; the application's own word first, then the offer's (RFC 4028 9). */
export function agree(
  request: SipRequest,
  answer: readonly Header[],
): { interval: SessionInterval | null; headers: Header[] } {
  const own = sessionExpires(answer.find((header) => header.name === 'session-expires')?.value);
  const offered = sessionExpires(request.get('session-expires'));
  const peerKnowsTimers = request.lists('supported', 'timer');
  if (!own && !offered) return { interval: null, headers: [] };
  const seconds = Math.max(own?.seconds ?? offered!.seconds, MIN_SE_SEC);
  // a peer without timers cannot refresh; one that asked for nobody in particular refreshes itself
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
  /** Whether the Call-ID is ours: we sent the INVITE that opened the dialog. */
  readonly ownsCallId: boolean;
  /** Sends a refresh; `done` gets the final status, 0 when it could not be sent, and the Min-SE of the answer. */
  refresh(headers: Header[], done: (status: number, minSe?: string) => void): void;
  /** The session is over: BYE. */
  expired(text: string): void;
}

export class SessionTimer {
  private refreshing: Timer | null = null;
  private agreed: { seconds: number; isOurs: boolean } | null = null;
  /** RFC 4028 10: a little before the session is over, so that the far side still knows the dialog. */
  private end: Timer | null = null;

  constructor(
    private readonly clock: TransactionClock,
    private readonly user: SessionTimerUser,
  ) {}

  /** A new agreement, in a 2xx we sent (`uas`) or received (`uac`); null: no timer any more. */
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

  /** A 2xx to a request of ours in the dialog. */
  answered(response: SipResponse): void {
    this.set(sessionExpires(response.get('session-expires')), 'uac');
  }

  /** For an INVITE or UPDATE of the application: one that says nothing of the session would end its timer (RFC 4028 7.4). */
  kept(): Header[] {
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

  /** Until one is taken or the time is over. A far side that wants longer intervals is asked again at once, but only once: it could go on wanting. */
  private refreshAfter(delayMs: number, seconds: number, wasLengthened = false): void {
    this.refreshing?.cancel();
    this.refreshing = this.clock.after(delayMs, () => {
      this.user.refresh(offer(seconds, 'uac'), (status, minSe) => {
        if (this.end === null || (status >= 200 && status < 300)) return;
        // nobody there, or nobody who knows of the call
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
