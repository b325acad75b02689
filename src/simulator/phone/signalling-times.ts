/** When the messages of a call were sent and received, from its SIP trace: without the time that our own SIP stack needs. */
import type { SipTraceEntry } from '../../../sip/leg.js';

/** Times of `performance.now()`; null: there was no such message. */
export interface SignallingTimes {
  invitedMs: number | null;
  /** The first 180 or 183. */
  ringingMs: number | null;
  answeredMs: number | null;
}

/** `wallOffsetMs`: `Date.now()` minus `performance.now()`. */
export function signallingTimes(trace: readonly SipTraceEntry[], wallOffsetMs: number): SignallingTimes {
  const first = (direction: SipTraceEntry['direction'], start: RegExp) => {
    const entry = trace.find(
      (one) => one.direction === direction && start.test(one.message) && isOfInvite(one.message),
    );
    return entry ? Date.parse(entry.at) - wallOffsetMs : null;
  };
  return {
    invitedMs: first('sent', /^INVITE /),
    ringingMs: first('received', /^SIP\/2\.0 18[03] /),
    answeredMs: first('received', /^SIP\/2\.0 200 /),
  };
}

function isOfInvite(message: string): boolean {
  return /^CSeq[ \t]*:[ \t]*\d+[ \t]+INVITE\b/im.test(message);
}
