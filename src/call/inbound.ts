import type { MediaEngine, MediaPolicy, MediaSession } from '../../media/engine.js';
import { refusalOf } from '../../sip/cause.js';
import type { CallLeg, IncomingCall, TrunkMatch } from '../../sip/leg.js';
import type { Calls } from '../store/calls/calls.js';
import type { FundedCall } from '../store/tenants/funds.js';
import type { Mode } from '../store/tenants/scope.js';
import { converse } from './agent/conversation.js';
import { takeUp } from './connect-endpoint.js';
import { BridgedTransfer } from './control/bridged-transfer.js';
import { takePlace } from './control/replace-leg.js';
import { Call } from './core/call.js';
import { endingOf } from './core/error-to-ending.js';
import { CallEnded } from './core/outcome.js';
import type { CallParty } from './core/party.js';
import { type CallClosing, type CallParts, closeCall, watchLeg, watchSession } from './core/teardown.js';
import type { CallAdmission } from './routing/admission.js';
import { type Decision, type RouteLookup, route } from './routing/router.js';
import type { TrunkMedia } from './routing/trunk-selection.js';
import type { ScriptDeps } from './script/context.js';
import { steer } from './script/runner.js';

/** What an inbound call needs of the process. */
export interface InboundCalls extends CallClosing {
  records: Calls;
  /** Asked once the record is written. */
  admit(call: FundedCall): CallAdmission;
  lookup: RouteLookup;
  media: MediaEngine;
  /** Calls at once; null: no cap. */
  maxCalls: number | null;
  policy: MediaPolicy;
  /** What a trunk decides about the audio of calls that come in over it. */
  mediaOf(trunkId: string): TrunkMedia;
  steering: ScriptDeps;
  /** An INVITE for a number of nobody: not a call, but the operator wants to see it. */
  unknownNumber(incoming: IncomingCall): void;
}

/** The whole story of one inbound call. Steps only go down; whatever ends the call, `finally` closes everything once. */
export async function takeInboundCall(incoming: IncomingCall, deps: InboundCalls): Promise<void> {
  if (incoming.replaces !== null) return takePlace(incoming, incoming.replaces, deps.live);
  const decision = route(
    {
      dialled: incoming.to.number,
      from: incoming.from.number,
      trunkOrganizations: trunksOf(incoming).map((trunk) => trunk.organizationId),
      mode: 'live',
      at: incoming.receivedAt,
    },
    deps.lookup,
  );
  if (decision.kind === 'unknown') {
    deps.unknownNumber(incoming);
    return incoming.reject(refusalOf('not_found'));
  }
  const call = beginCall(incoming, decision, deps);
  let session: MediaSession | null = null;
  let agent: CallParts['agent'] = null;
  let line: CallParty | null = null;
  try {
    call.check();
    if (decision.kind === 'refuse') throw new CallEnded(decision.ending);
    if (deps.maxCalls !== null && deps.live.count > deps.maxCalls)
      throw new CallEnded({ cause: 'overload', source: 'system', detail: 'The server carries all the calls it may.' });
    await call.orEnd(incoming.ring());
    call.ringing();
    session = await deps.media.open({
      group: call.id,
      offer: incoming.offer,
      policy: { ...deps.policy, ...deps.mediaOf(trunkOf(incoming, decision.number.organizationId).trunkId) },
      localAddress: incoming.localAddress,
      signalledFrom: incoming.peer.address,
      role: 'caller',
    });
    watchSession(session, call);
    line = callerLine(call, incoming, session, factsOf(call, incoming, decision), decision.number.mode);
    call.transferFallback = new BridgedTransfer({
      dialling: deps.steering.dialling,
      line: () => line,
      endpointId: decision.endpoints[0].id,
    });
    const taken = await takeUp(line, decision.endpoints, deps.steering);
    if (taken.kind === 'steered') return await steer(line, taken.endpoint, taken.actions, deps.steering);
    if (taken.kind === 'bridged') {
      agent = taken.far;
      return await taken.far.talk(await line.answer(), deps.steering.limits);
    }
    ({ agent } = taken);
    await converse(call, await line.answer(), session, taken.agent, deps.steering.limits);
  } catch (error) {
    await deps.steering.limits.apology.end(call, session, endingOf(error, call, 'caller', deps.log));
  } finally {
    const leg = line?.leg ?? null;
    if (leg === null) await incoming.reject(refusalOf((await call.ended).cause));
    await closeCall(call, { session, agent, leg, sipCallId: incoming.sipCallId }, deps);
  }
}

/** Two organizations may share a carrier's address: the called number then says whose call it is. */
function trunksOf(incoming: IncomingCall): TrunkMatch[] {
  return [incoming.trunk, ...incoming.otherTrunks];
}

/** Of several that vouch for the source, the one of the organization that is called. */
function trunkOf(incoming: IncomingCall, organizationId: string): TrunkMatch {
  return trunksOf(incoming).find((trunk) => trunk.organizationId === organizationId) ?? incoming.trunk;
}

function beginCall(incoming: IncomingCall, decision: Exclude<Decision, { kind: 'unknown' }>, deps: InboundCalls): Call {
  const { organizationId } = decision.number;
  const trunk = trunkOf(incoming, organizationId);
  const endpointId = decision.kind === 'connect' ? decision.endpoints[0].id : decision.endpointId;
  const id = deps.records.begin({
    organizationId,
    mode: decision.number.mode,
    direction: 'inbound',
    fromNumber: incoming.from.number,
    toNumber: decision.number.number,
    phoneNumberId: decision.number.id,
    endpointId,
    sipCallId: incoming.sipCallId,
    createdAt: incoming.receivedAt,
    trunkId: trunk.trunkId,
    eventData: { dialled: incoming.to.number, trunk: trunk.name, transport: incoming.peer.transport },
  });
  const admission: CallAdmission =
    decision.kind === 'connect'
      ? deps.admit({
          callId: id,
          organizationId,
          mode: decision.number.mode,
          direction: 'inbound',
          toNumber: decision.number.number,
        })
      : { funds: null, refusal: decision.ending };
  const { receivedAt: createdAt, receivedAtMs: startedAtMs } = incoming;
  const call = new Call(deps.records, { id, createdAt, startedAtMs, funds: admission.funds }, 'inbound');
  call.trunkId = trunk.trunkId;
  deps.live.add(call);
  call.event('call.routed', { endpoint_id: endpointId, rules: decision.trace });
  // the caller's CANCEL, or the loss of the SIP server
  const { cancelled } = incoming;
  const over = () => call.end(endingOf(cancelled.reason, call, 'caller', deps.log));
  cancelled.addEventListener('abort', over, { once: true });
  if (cancelled.aborted) over();
  if (admission.refusal !== null) call.end(admission.refusal);
  return call;
}

function factsOf(call: Call, incoming: IncomingCall, decision: Extract<Decision, { kind: 'connect' }>) {
  return {
    callId: call.id,
    organizationId: decision.number.organizationId,
    from: incoming.from.number,
    to: decision.number.number,
    direction: 'inbound' as const,
    fromName: incoming.from.displayName,
  };
}

function callerLine(
  call: Call,
  incoming: IncomingCall,
  session: MediaSession,
  facts: CallParty['facts'],
  mode: Mode,
): CallParty {
  let leg: CallLeg | null = null;
  const answer = async (): Promise<CallLeg> => {
    if (leg !== null) return leg;
    call.check();
    const sdp = incoming.offer === null ? await session.offer() : await session.answer(incoming.offer);
    leg = await incoming.answer(sdp); // short and not interruptible: a leg that exists is a leg that `finally` hangs up
    watchLeg(leg, call, 'caller');
    call.phones.set(leg, { session, organizationId: facts.organizationId });
    call.pickedUp(leg.answeredAtMs);
    if (incoming.offer === null) {
      // The caller's address is in its ACK; with an offer the caller is heard from the 200 on, ACK or no ACK.
      const confirmed = await call.orEnd(leg.confirmed);
      await session.accept(confirmed.sdp ?? '', { provisional: false, signalledFrom: incoming.peer.address });
    }
    call.answer();
    return leg;
  };
  let early: Promise<void> | null = null;
  const ringWithMedia = (): Promise<void> => {
    early ??= incoming.ring({ sdp: session.localSdp }).then(() => call.earlyMedia());
    return early;
  };
  return {
    call,
    session,
    facts,
    mode,
    headers: incoming.headers,
    ringWithMedia: incoming.offer === null ? null : ringWithMedia,
    get leg() {
      return leg;
    },
    answer,
  };
}
