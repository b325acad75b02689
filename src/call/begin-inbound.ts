/** The beginning of an inbound call: its route, its record, its money, and what ends it before the answer. */
import type { IncomingCall, TrunkMatch } from '../../sip/leg.js';
import type { Calls, NewCall } from '../store/calls/calls.js';
import type { PhoneNumber } from '../store/routing/phone-numbers.js';
import { Call } from './core/call.js';
import { endingOf } from './core/error-to-ending.js';
import type { PartyFacts } from './core/party-facts.js';
import type { CallClosing } from './party/teardown.js';
import type { AskedAdmission, CallAdmission } from './routing/admission.js';
import { type Decision, type RouteLookup, route } from './routing/router.js';

export interface BeginInbound extends CallClosing {
  records: Calls;
  /** Queues the record, and asks whether the call may go on. */
  begin(call: NewCall): AskedAdmission;
  lookup: RouteLookup;
}

export function routeOf(incoming: IncomingCall, lookup: RouteLookup): Decision {
  return route(
    {
      dialled: incoming.to.number,
      from: incoming.from.number,
      trunkOrganizations: trunksOf(incoming).map((trunk) => trunk.organizationId),
      mode: 'live',
      at: incoming.receivedAt,
    },
    lookup,
  );
}

/** Queues the record and asks for the money. Nothing is waited for: the call is in the table of live calls from then on, so that a drain sees it. */
export function beginInbound(
  incoming: IncomingCall,
  decision: Exclude<Decision, { kind: 'unknown' }>,
  deps: BeginInbound,
): { call: Call; admission: Promise<CallAdmission> | null } {
  const { organizationId } = decision.number;
  const trunk = trunkOf(incoming, organizationId);
  const endpointId = decision.kind === 'connect' ? decision.endpoints[0].id : decision.endpointId;
  const record: NewCall = {
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
  };
  const { id, admission } =
    decision.kind === 'connect' ? deps.begin(record) : { id: deps.records.begin(record), admission: null };
  const { receivedAt: createdAt, receivedAtMs: startedAtMs } = incoming;
  const call = new Call(deps.records, { id, createdAt, startedAtMs, funds: null }, 'inbound');
  call.trunkId = trunk.trunkId;
  deps.live.add(call);
  call.event('call.routed', { endpoint_id: endpointId, rules: decision.trace });
  // the caller's CANCEL, or the loss of the SIP server
  const { cancelled } = incoming;
  const over = () => call.end(endingOf(cancelled.reason, call, 'caller', deps.log));
  cancelled.addEventListener('abort', over, { once: true });
  if (cancelled.aborted) over();
  if (decision.kind === 'refuse') call.end(decision.ending);
  return { call, admission };
}

export function inboundFacts(call: Call, incoming: IncomingCall, number: PhoneNumber): PartyFacts {
  return {
    callId: call.id,
    organizationId: number.organizationId,
    from: incoming.from.number,
    to: number.number,
    direction: 'inbound',
    fromName: incoming.from.displayName,
    headers: incoming.headers,
  };
}

/** Of the trunks that match the source, the one of the organization that is called. */
export function trunkOf(incoming: IncomingCall, organizationId: string): TrunkMatch {
  return trunksOf(incoming).find((trunk) => trunk.organizationId === organizationId) ?? incoming.trunk;
}

/** Two organizations may share a carrier's address: the called number decides between them. */
function trunksOf(incoming: IncomingCall): TrunkMatch[] {
  return [incoming.trunk, ...incoming.otherTrunks];
}
