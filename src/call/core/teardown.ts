/** How every call ends: what ends it, and how its parts are closed. */
import type { AgentLink, MediaSession } from '../../../media/engine.js';
import type { CallLeg } from '../../../sip/leg.js';
import type { Logger } from '../../log.js';
import type { TraceEntry } from '../../store/calls/call-records.js';
import type { Call } from './call.js';
import type { LiveCallTable } from './live-calls.js';
import type { FarSide } from './outcome.js';
import { type PartyRole, recordParty } from './party-events.js';

/** What closing a call needs of the process. */
export interface CallClosing {
  live: LiveCallTable;
  trace(sipCallId: string): TraceEntry[];
  log: Logger;
}

export interface CallParts {
  session: MediaSession | null;
  agent: Pick<AgentLink, 'close'> | null;
  leg: CallLeg | null;
  sipCallId: string;
}

export function watchLeg(leg: CallLeg, call: Call, farSide: FarSide): void {
  call.dialog(leg.snapshot());
  leg.confirmed.catch(() => {}); // the reason is in `ended`
  // Whoever calls could otherwise have the organization pay for a call to anywhere; where a REFER is allowed, another handler takes this one's place.
  leg.onRefer(async ({ to }) => {
    const detail = `The ${farSide} may not transfer the call.`;
    call.event('transfer.failed', { to, source: farSide, reason: 'not_allowed', detail, sip_status: 403 });
    return { refuse: 403 };
  });
  void leg.ended.then(
    call.guarded((end) =>
      call.end({
        cause: end.cause,
        source: end.by === 'remote' ? farSide : 'system',
        ...(end.detail?.text === undefined ? {} : { detail: end.detail.text }),
      }),
    ),
  );
}

/** From the opening on: a phone may talk before it is answered. `counts`: whether the call still depends on this session. */
export function watchSession(
  session: MediaSession,
  call: Call,
  counts: () => boolean = () => true,
  role: PartyRole = 'caller',
): void {
  recordParty(session, call, role, counts);
  void session.lost.then(
    call.guarded((how) => {
      if (counts() && how === 'rtp-timeout') call.event('media.timeout');
      if (counts()) call.end({ cause: how === 'rtp-timeout' ? 'media_timeout' : 'engine_gone', source: 'system' });
    }),
  );
}

/** Closes what is left of a call that has its ending, writes the record, and frees its place. Once per call. */
export async function closeCall(call: Call, parts: CallParts, deps: CallClosing): Promise<void> {
  const ending = await call.ended;
  parts.session?.attach(null);
  const settled = await Promise.allSettled([
    parts.session?.close() ?? null,
    parts.agent?.close(ending.cause),
    parts.leg?.hangup(ending.cause),
    call.closeBeside(),
  ]);
  for (const result of settled)
    if (result.status === 'rejected')
      deps.log.error({ err: result.reason, call_id: call.id }, 'a part of a call did not close');
  const stats = settled[0].status === 'fulfilled' ? settled[0].value : null;
  if (call.fault !== null)
    deps.log.error({ err: call.fault, call_id: call.id }, 'an exception in a callback ended the call');
  call.finish(stats, [parts.sipCallId, ...call.laterSipCallIds].flatMap(deps.trace));
  deps.live.remove(call);
  deps.log.info(
    {
      call_id: call.id,
      sip_call_id: parts.sipCallId,
      cause: ending.cause,
      source: ending.source,
      answered: call.answered,
    },
    'call ended',
  );
}
