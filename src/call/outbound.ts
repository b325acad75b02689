import { randomUUID } from 'node:crypto';
import type { MediaEngine, MediaPolicy } from '../../media/engine.js';
import type { CallLeg, SipGateway } from '../../sip/leg.js';
import type { Calls } from '../store/calls/calls.js';
import type { Mode } from '../store/tenants/scope.js';
import { e164 } from '../webhook/actions.js';
import { answeringPlan } from './answering/answering-plan.js';
import { detectEarlyOperator, detectMachine } from './answering/machine-detection.js';
import { BridgedTransfer } from './control/bridged-transfer.js';
import { commandByApi } from './control/call-commands.js';
import { Call } from './core/call.js';
import { endingOf } from './core/error-to-ending.js';
import type { OutboundCall, OutboundCalls } from './core/outbound-request.js';
import type { PartyFacts } from './core/party-facts.js';
import { type AddressDialDeps, type AddressDialRequest, carriedNumber, dialAddress } from './dial/dial-address.js';
import { dialCarriers, type TrunkDialRequest } from './dial/dial-trunks.js';
import { EndpointWhileRinging } from './endpoint-while-ringing.js';
import { OutboundProgress } from './outbound-progress.js';
import { CalledParty } from './party/called.js';
import { type CallClosing, closeCall } from './party/teardown.js';
import type { RouteLookup } from './routing/router.js';
import type { Carrier, TrunkMedia } from './routing/trunk-selection.js';
import type { ScriptDeps } from './script/context.js';

/** What an outbound call needs of the process. */
export interface OutboundDeps extends CallClosing {
  records: Calls;
  lookup: Pick<RouteLookup, 'getForCall'>;
  media: MediaEngine;
  dial: SipGateway['dial'];
  /** The trunks of an organization, in order; for test calls the carrier simulator. */
  carriers(organizationId: string, mode: Mode): Carrier[] | Promise<Carrier[]>;
  /** Whether a registered phone or a SIP address may be called, and how. */
  addresses: Omit<AddressDialDeps, 'dial'>;
  /** Whether there is any carrier, without starting anything. */
  hasCarrier(organizationId: string, mode: Mode): boolean;
  isDraining(): boolean;
  /** Simultaneous calls; null: no limit. */
  maxCalls: number | null;
  policy: MediaPolicy;
  script: ScriptDeps;
}

export class OutboundDialler implements OutboundCalls {
  constructor(private readonly deps: OutboundDeps) {}

  refusal(organizationId: string, mode: Mode, to: string): 'no_trunk' | 'shutting_down' | 'full' | null {
    if (this.deps.isDraining()) return 'shutting_down';
    const { used, quarantined, total } = this.deps.media.load().ports;
    if (used + quarantined >= total) return 'full';
    return !e164.test(to) || this.deps.hasCarrier(organizationId, mode) ? null : 'no_trunk';
  }

  start(request: OutboundCall): void {
    void placeOutboundCall(request, this.deps);
  }
}

/** The course of an outbound call. Steps only go down; whatever ends the call, `finally` closes everything once. */
async function placeOutboundCall(request: OutboundCall, deps: OutboundDeps): Promise<void> {
  const call = new Call(deps.records, request.begun, 'outbound');
  deps.live.add(call);
  const { lookup, script, log } = deps;
  const { endpointId, mode, organizationId, toNumber: to, fromNumber: from, ringTimeoutMs } = request;
  const sipCallId = randomUUID();
  const parties: PartyFacts = { callId: call.id, organizationId, from, fromName: null, to, direction: 'outbound' };
  const plan = answeringPlan(request, lookup.getForCall(endpointId)?.providerConfig);
  const facts: PartyFacts = { ...parties, custom: asTexts(request.metadata), answeredBy: null };
  // An agent that gets ready meanwhile is ready for a person.
  if (plan.waits) facts.answeredBy = { by: 'human', afterMs: 0 };
  const callee = new CalledParty({ call, role: 'callee', facts, mode, maxCallMs: request.maxDurationMs });
  const endpoint = new EndpointWhileRinging(callee, endpointId, lookup, script, log, request.instructions);
  const progress = new OutboundProgress(call, request, parties, lookup, script);
  call.isRecorded = request.record;
  call.requestedBy = request.requestedBy;
  call.commands = (command) => commandByApi(command, callee, script);
  const offerFor = (localAddress: string, media: Partial<TrunkMedia>) => {
    endpoint.nextGateway();
    return callee.offer(deps.media, { group: call.id, policy: { ...deps.policy, ...media }, localAddress });
  };
  const onProgress: TrunkDialRequest['onProgress'] = ({ status, sdp }) => {
    if (status < 180 || call.ending !== null) return;
    if (status === 180) call.ringing();
    if (sdp !== undefined)
      callee.answeredEarly(sdp, () => {
        call.earlyMedia();
        void detectEarlyOperator(callee, detection, answered.signal);
      });
    endpoint.ringing();
    if (status === 180) progress.ringing();
  };
  const { machineDetectionLimitMs: limitMs } = request;
  const detection = {
    ...{ plan, transcription: script.transcription, transferTimeoutMs: script.limits.transferTimeoutMs },
    ...(limitMs !== undefined && { limitMs }),
  };
  const answered = new AbortController();
  progress.initiated();
  try {
    deps.live.checkCapacity(deps.maxCalls);
    const leg = await dialCallee(call, request, { sipCallId, to, from, ringTimeoutMs, offerFor, onProgress }, deps);
    answered.abort();
    await callee.answeredWith(leg);
    call.transferFallback = new BridgedTransfer(callee, endpointId, script.dialling);
    const answeredBy = detectMachine(callee, detection);
    void answeredBy.then(call.guarded((found) => found !== null && progress.answeredBy(found)));
    if (plan.waits) {
      progress.answered();
      const found = await call.orEnd(answeredBy);
      facts.answeredBy = found;
      if (found?.by !== 'human') await endpoint.again();
    }
    const ready = await call.orEnd(endpoint.ready()).finally(() => progress.answered());
    await ready.run();
  } catch (error) {
    await script.limits.apology.end(callee, endingOf(error, call, 'callee', log));
  } finally {
    await closeCall(callee, sipCallId, deps);
    progress.completed();
  }
}

/** A number over the trunks, in order; a registered phone or a SIP address without them, in test mode the latter over the simulated carrier. */
async function dialCallee(
  call: Call,
  { endpointId, organizationId, mode, sipAuth = null }: OutboundCall,
  wish: TrunkDialRequest & Pick<AddressDialRequest, 'offerFor'>,
  deps: OutboundDeps,
): Promise<CallLeg> {
  const number = carriedNumber(wish.to, mode, deps.addresses.isOurs);
  const carriers = number === null ? [] : await deps.carriers(organizationId, mode);
  call.check();
  call.event('call.routed', { endpoint_id: endpointId, trunks: carriers.map((carrier) => carrier.name) });
  if (number !== null) return dialCarriers(call, { ...wish, to: number }, carriers, deps.dial);
  const headers = { 'X-Trunkline-Call-Id': call.id };
  const { addresses, dial } = deps;
  return dialAddress(call, { ...wish, organizationId, auth: sipAuth, headers }, { ...addresses, dial });
}

/** Start messages carry texts; other values are written as JSON. */
function asTexts(metadata: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(metadata).map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  );
}
