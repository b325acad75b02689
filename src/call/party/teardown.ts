/** How every call ends: its parts are closed, its record is written, its place becomes free. */
import type { Logger } from '../../log.js';
import type { TraceEntry } from '../../store/calls/call-records.js';
import { type EndedCall, logFields } from '../core/ended-call.js';
import type { LiveCallTable } from '../core/live-calls.js';
import type { CallParty } from './party.js';

/** What closing a call needs of the process. */
export interface CallClosing {
  live: LiveCallTable;
  trace(sipCallId: string): TraceEntry[];
  log: Logger;
  /** After the record is queued. */
  onEnded(ended: EndedCall): void;
}

/** Closes what is left of a call that has its ending, writes the record, and frees its place. Once per call. */
export async function closeCall(party: CallParty, sipCallId: string, deps: CallClosing): Promise<void> {
  const { call, control } = party;
  const ending = await call.ended;
  const settled = await Promise.allSettled([
    party.closeMedia(),
    control.release('call_ended'),
    party.leg?.hangup(ending.cause),
    call.closeBeside(),
  ]);
  for (const result of settled)
    if (result.status === 'rejected')
      deps.log.error({ err: result.reason, call_id: call.id }, 'a part of a call did not close');
  const stats = settled[0].status === 'fulfilled' ? settled[0].value : null;
  if (call.fault !== null)
    deps.log.error({ err: call.fault, call_id: call.id }, 'an exception in a callback ended the call');
  const ended = call.finish(stats, sipCallId, [sipCallId, ...call.laterSipCallIds].flatMap(deps.trace));
  deps.live.remove(call);
  deps.onEnded(ended);
  deps.log.info(logFields(ended), 'call ended');
}
