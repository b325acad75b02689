import { AgentFailure } from '../../media/agents/agent.js';
import { type MediaEngine, MediaError, type MediaPolicy, type MediaSession } from '../../media/engine.js';
import { refusalOf } from '../../sip/cause.js';
import { type CallLeg, type IncomingCall, SipError, type TrunkMatch } from '../../sip/leg.js';
import type { Logger } from '../log.js';
import type { TraceEntry } from '../store/call-records.js';
import type { Calls } from '../store/calls.js';
import type { FundedCall } from '../store/funds.js';
import type { Admission } from './admission.js';
import { Call } from './call.js';
import type { CallAgent } from './connect-agent.js';
import { converse } from './converse.js';
import type { Line } from './line.js';
import type { LiveCallTable } from './live-calls.js';
import { CallEnded, type Ending } from './outcome.js';
import { type Decision, type RouteLookup, route } from './router.js';
import { type SteerRules, steer } from './steer.js';
import { takeUp } from './take-up.js';

/** What an inbound call needs of the process. */
export interface InboundCalls {
  records: Calls;
  /** Asked once the record is written. */
  admit(call: FundedCall): Admission;
  lookup: RouteLookup;
  media: MediaEngine;
  live: LiveCallTable;
  /** Calls at once; null: no cap. */
  maxCalls: number | null;
  policy: MediaPolicy;
  steering: SteerRules;
  trace(sipCallId: string): TraceEntry[];
  /** An INVITE for a number of nobody: not a call, but the operator wants to see it. */
  unknownNumber(incoming: IncomingCall): void;
  log: Logger;
}

/** The whole story of one inbound call. Steps only go down; whatever ends the call, `finally` closes everything once. */
export async function takeInboundCall(incoming: IncomingCall, deps: InboundCalls): Promise<void> {
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
  let agent: CallAgent | null = null;
  let line: Line | null = null;
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
      policy: deps.policy,
      localAddress: incoming.localAddress,
      role: 'caller',
    });
    void session.lost.then((how) =>
      call.end({ cause: how === 'rtp-timeout' ? 'media_timeout' : 'engine_gone', source: 'system' }),
    );
    line = callerLine(call, incoming, session, factsOf(call, incoming, decision));
    const taken = await takeUp(line, decision.endpoints, deps.steering);
    if (taken.kind === 'steered') return await steer(line, taken.endpoint, taken.actions, deps.steering);
    ({ agent } = taken);
    await converse(call, await line.answer(), session, agent, deps.steering.limits);
  } catch (error) {
    call.end(endingOf(error, call, deps.log));
  } finally {
    await closeCall(call, incoming, { session, agent, leg: line?.leg ?? null }, deps);
  }
}

/** Two organizations may share a carrier's address: the called number then says whose call it is. */
function trunksOf(incoming: IncomingCall): TrunkMatch[] {
  return [incoming.trunk, ...incoming.otherTrunks];
}

function beginCall(incoming: IncomingCall, decision: Exclude<Decision, { kind: 'unknown' }>, deps: InboundCalls): Call {
  const { organizationId } = decision.number;
  const trunk = trunksOf(incoming).find((t) => t.organizationId === organizationId) ?? incoming.trunk;
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
  const admission: Admission =
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
  const call = new Call(deps.records, { id, createdAt, startedAtMs, funds: admission.funds });
  deps.live.add(call);
  call.event('call.routed', { endpoint_id: endpointId, rules: decision.trace });
  incoming.cancelled.addEventListener('abort', () => call.end({ cause: 'originator_cancel', source: 'caller' }), {
    once: true,
  });
  if (incoming.cancelled.aborted) call.end({ cause: 'originator_cancel', source: 'caller' });
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

function callerLine(call: Call, incoming: IncomingCall, session: MediaSession, facts: Line['facts']): Line {
  let leg: CallLeg | null = null;
  const answer = async (): Promise<CallLeg> => {
    if (leg !== null) return leg;
    call.check();
    const sdp = incoming.offer === null ? await session.offer() : await session.answer(incoming.offer);
    leg = await incoming.answer(sdp); // short and not interruptible: a leg that exists is a leg that `finally` hangs up
    watchLeg(leg, call);
    call.dialog(leg.snapshot());
    const confirmed = await call.orEnd(leg.confirmed);
    if (incoming.offer === null) await session.accept(confirmed.sdp ?? '', { provisional: false });
    call.answer();
    return leg;
  };
  return {
    call,
    session,
    facts,
    headers: incoming.headers,
    get leg() {
      return leg;
    },
    answer,
  };
}

function watchLeg(leg: CallLeg, call: Call): void {
  leg.confirmed.catch(() => {}); // the reason is in `ended`
  void leg.ended.then((end) =>
    call.end({
      cause: end.cause,
      source: end.by === 'remote' ? 'caller' : 'system',
      ...(end.detail?.text === undefined ? {} : { detail: end.detail.text }),
    }),
  );
}

/** A foreign error becomes an ending here and nowhere else. */
function endingOf(error: unknown, call: Call, log: Logger): Ending {
  if (error instanceof CallEnded) return error.ending;
  if (error instanceof SipError)
    return {
      cause: error.hangupCause,
      source: error.code === 'cancelled' ? 'caller' : 'system',
      detail: error.message,
    };
  if (error instanceof AgentFailure) return { cause: 'agent_unreachable', source: 'system', detail: error.message };
  if (error instanceof MediaError)
    return {
      cause:
        error.code === 'no_ports' ? 'overload' : error.code === 'engine_gone' ? 'engine_gone' : 'incompatible_media',
      source: 'system',
      detail: error.message,
    };
  log.error({ err: error, call_id: call.id }, 'call failed with an unexpected error');
  return { cause: 'unspecified', source: 'system' };
}

async function closeCall(
  call: Call,
  incoming: IncomingCall,
  parts: { session: MediaSession | null; agent: CallAgent | null; leg: CallLeg | null },
  deps: InboundCalls,
): Promise<void> {
  const ending = await call.ended;
  if (parts.leg === null) incoming.reject(refusalOf(ending.cause));
  parts.session?.attach(null);
  const settled = await Promise.allSettled([
    parts.session?.close() ?? null,
    parts.agent?.close(ending.cause),
    parts.leg?.hangup(ending.cause),
  ]);
  for (const result of settled)
    if (result.status === 'rejected')
      deps.log.error({ err: result.reason, call_id: call.id }, 'a part of a call did not close');
  const stats = settled[0].status === 'fulfilled' ? settled[0].value : null;
  call.finish(stats, deps.trace(incoming.sipCallId));
  deps.live.remove(call);
  deps.log.info(
    {
      call_id: call.id,
      sip_call_id: incoming.sipCallId,
      cause: ending.cause,
      source: ending.source,
      answered: call.answered,
    },
    'call ended',
  );
}
