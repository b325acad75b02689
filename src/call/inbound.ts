import type { MediaEngine, MediaPolicy } from '../../media/engine.js';
import { refusalOf } from '../../sip/cause.js';
import type { IncomingCall } from '../../sip/leg.js';
import { type BeginInbound, beginInbound, inboundFacts, routeOf, trunkOf } from './begin-inbound.js';
import { connectEndpoint } from './connect-endpoint.js';
import { BridgedTransfer } from './control/bridged-transfer.js';
import { commandByApi } from './control/call-commands.js';
import { replaceLeg } from './control/replace-leg.js';
import { endingOf } from './core/error-to-ending.js';
import { CallEnded } from './core/outcome.js';
import { reportInboundEnd } from './inbound-progress.js';
import { CallerParty } from './party/caller.js';
import { closeCall } from './party/teardown.js';
import { settleAdmission } from './routing/admission.js';
import type { TrunkMedia } from './routing/trunk-selection.js';
import type { ScriptDeps } from './script/context.js';

/** What an inbound call needs of the process. */
export interface InboundDeps extends BeginInbound {
  media: MediaEngine;
  /** Simultaneous calls; null: no limit. */
  maxCalls: number | null;
  policy: MediaPolicy;
  /** What a trunk decides about the media of its calls. */
  mediaOf(trunkId: string): TrunkMedia;
  script: ScriptDeps;
  /** An INVITE for a number that does not exist: not a call, but shown to the operator. */
  unknownNumber(incoming: IncomingCall): void;
}

/** The course of an inbound call. Steps only go down; whatever ends the call, `finally` closes everything once. */
export async function takeInboundCall(incoming: IncomingCall, deps: InboundDeps): Promise<void> {
  if (incoming.replaces !== null) return replaceLeg(incoming, incoming.replaces, deps.live);
  const decision = routeOf(incoming, deps.lookup);
  if (decision.kind === 'unknown') {
    deps.unknownNumber(incoming);
    return incoming.reject(refusalOf('not_found'));
  }
  const { number } = decision;
  const { limits, dialling } = deps.script;
  const { call, admission } = beginInbound(incoming, decision, deps);
  const caller = new CallerParty(
    { call, facts: inboundFacts(call, incoming, number), mode: number.mode, maxCallMs: limits.maxCallMs },
    incoming,
  );
  call.commands = (command) => commandByApi(command, caller, deps.script);
  try {
    call.check();
    if (decision.kind === 'refuse') throw new CallEnded(decision.ending);
    deps.live.checkCapacity(deps.maxCalls);
    // beside each other: neither the media nor the database keeps the other waiting
    const opening = deps.media.open({
      group: call.id,
      offer: incoming.offer,
      policy: { ...deps.policy, ...deps.mediaOf(trunkOf(incoming, number.organizationId).trunkId) },
      localAddress: incoming.localAddress,
      signalledFrom: incoming.peer.address,
      role: 'caller',
    });
    const [admitted, opened] = await Promise.allSettled([
      admission === null ? null : call.orEnd(settleAdmission(call, admission)),
      opening.finally(() => incoming.takenUp()), // from here on it waits for the record to be on disk
    ]);
    if (opened.status === 'fulfilled') caller.useSession(opened.value);
    call.check();
    if (admitted.status === 'rejected') throw admitted.reason;
    if (opened.status === 'rejected') throw opened.reason;
    await call.orEnd(incoming.ring());
    call.ringing();
    if (incoming.unanswered !== null) call.dialog(incoming.unanswered);
    call.transferFallback = new BridgedTransfer(caller, decision.endpoints[0].id, dialling);
    const endpoint = await connectEndpoint(caller, decision.endpoints, deps.script);
    await endpoint.run();
  } catch (error) {
    await limits.apology.end(caller, endingOf(error, call, 'caller', deps.log));
  } finally {
    if (caller.leg === null) await incoming.reject(refusalOf((await call.ended).cause));
    await closeCall(caller, incoming.sipCallId, deps);
    if (decision.kind === 'connect') reportInboundEnd(call, caller.facts, decision, deps.script);
  }
}
