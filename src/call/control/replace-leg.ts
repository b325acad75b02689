/** A phone replaces another one in a running call (INVITE with `Replaces`, RFC 3891): the end of an attended transfer. */
import { MediaError, type MediaSession } from '../../../media/engine.js';
import { refusalOf } from '../../../sip/cause.js';
import type { CallLeg, IncomingCall } from '../../../sip/leg.js';
import type { Call, CallPhone } from '../core/call.js';
import type { LiveCallTable } from '../core/live-calls.js';

/** Answers the INVITE: the call continues with the new phone, and the old one gets BYE. Never throws. */
export async function replaceLeg(incoming: IncomingCall, replaced: CallLeg, live: LiveCallTable): Promise<void> {
  const found = live.phoneOf(replaced);
  if (found === null) return incoming.reject({ status: 481, reason: 'No such call' });
  const { call, phone } = found;
  const about = { to: incoming.from.number, method: 'replaces' };
  const refuse = (reason: string, refusal: ReturnType<typeof refusalOf>, detail: string): void => {
    call.event('transfer.failed', { ...about, reason, detail, sip_status: refusal.status });
    incoming.reject(refusal);
  };
  call.event('transfer.started', { ...about, source: incoming.from.number });
  if (!isTrusted(incoming, call, phone))
    return refuse('not_allowed', { status: 403, reason: 'Not allowed' }, 'The call belongs to another organization.');
  try {
    await change(incoming, replaced, call, phone);
  } catch (error) {
    if (call.ending !== null) return incoming.reject({ status: 603, reason: 'The call is over' });
    const detail = error instanceof Error ? error.message : String(error);
    const cause = error instanceof MediaError ? 'incompatible_media' : 'unspecified';
    return refuse(cause, refusalOf(cause), detail);
  }
  call.continuesAs(incoming.sipCallId);
  call.event('transfer.completed', about);
}

/** A source that may call the organization may replace phones of its calls; over a shared trunk, only of calls of that trunk. */
function isTrusted(incoming: IncomingCall, call: Call, { facts: { organizationId } }: CallPhone): boolean {
  return [incoming.trunk, ...incoming.otherTrunks].some((trunk) =>
    trunk.organizationId === null ? trunk.trunkId === call.trunkId : trunk.organizationId === organizationId,
  );
}

async function change(incoming: IncomingCall, replaced: CallLeg, call: Call, phone: CallPhone): Promise<void> {
  const { session } = phone;
  const { offer } = incoming;
  const signalledFrom = incoming.peer.address;
  const sdp = await call.orEnd(offer === null ? session.offer() : session.answer(offer, signalledFrom));
  try {
    const leg = await incoming.answer(sdp); // short and not interruptible: a leg that exists belongs to the phone, or is hung up
    if (call.ending !== null) void leg.hangup(call.ending.cause);
    call.check();
    phone.useLeg(leg);
    const { sdp: answer } = await call.orEnd(leg.confirmed);
    if (offer === null) await call.orEnd(session.accept(answer ?? '', { provisional: false, signalledFrom }));
  } catch (error) {
    // The new phone left before it was connected: the media go back to the old one.
    if (call.ending === null && phone.leg === replaced) await giveBack(replaced, call, session);
    throw error;
  }
}

async function giveBack(leg: CallLeg, call: Call, session: MediaSession): Promise<void> {
  const result = await leg.reoffer(() => session.offer(), call.signal);
  if ('ok' in result)
    await session.accept(result.ok, { provisional: false, signalledFrom: leg.snapshot().peer.address });
}
