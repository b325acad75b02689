import { randomUUID } from 'node:crypto';
import type { MediaEngine, MediaPolicy } from '../../media/engine.js';
import type { CallLeg, SipGateway } from '../../sip/leg.js';
import type { Calls } from '../store/calls/calls.js';
import type { Mode } from '../store/tenants/scope.js';
import { type AnsweredBy, answeredByFields } from '../webhook/twilio-parameters.js';
import { Webhook } from '../webhook/webhook-client.js';
import { converse } from './agent/conversation.js';
import { detectMachine } from './agent/machine-detection.js';
import type { TakenUp } from './connect-endpoint.js';
import { BridgedTransfer } from './control/bridged-transfer.js';
import { Call } from './core/call.js';
import { CallSteps } from './core/call-progress.js';
import { endingOf } from './core/error-to-ending.js';
import type { OutboundCall, OutboundCalls } from './core/outbound-request.js';
import { CallEnded } from './core/outcome.js';
import { type CallClosing, type CallParts, closeCall, watchLeg } from './core/teardown.js';
import { dialCarriers } from './dial/dial-trunks.js';
import { partiesOf, RingingCallee } from './ringing-callee.js';
import type { RouteLookup } from './routing/router.js';
import type { Carrier } from './routing/trunk-selection.js';
import type { ScriptDeps } from './script/context.js';
import { steer } from './script/runner.js';

/** What an outbound call needs of the process. */
export interface OutboundDeps extends CallClosing {
  records: Calls;
  lookup: Pick<RouteLookup, 'getForCall'>;
  media: MediaEngine;
  dial: SipGateway['dial'];
  /** The ways out of an organization, in order; for test calls the carrier simulator. */
  carriers(organizationId: string, mode: Mode): Carrier[] | Promise<Carrier[]>;
  /** Whether there is any, without starting anything. */
  hasCarrier(organizationId: string, mode: Mode): boolean;
  isDraining(): boolean;
  /** Calls at once; null: no cap. */
  maxCalls: number | null;
  policy: MediaPolicy;
  steering: ScriptDeps;
}

export class OutboundDialler implements OutboundCalls {
  constructor(private readonly deps: OutboundDeps) {}

  refusal(organizationId: string, mode: Mode): 'no_trunk' | 'shutting_down' | 'full' | null {
    if (this.deps.isDraining()) return 'shutting_down';
    const { used, quarantined, total } = this.deps.media.load().ports;
    if (used + quarantined >= total) return 'full';
    return this.deps.hasCarrier(organizationId, mode) ? null : 'no_trunk';
  }

  start(wish: OutboundCall): void {
    void placeOutboundCall(wish, this.deps);
  }
}

/** The whole story of one outbound call. Steps only go down; whatever ends the call, `finally` closes everything once. */
async function placeOutboundCall(wish: OutboundCall, deps: OutboundDeps): Promise<void> {
  const call = new Call(deps.records, wish.begun, 'outbound');
  deps.live.add(call);
  const sipCallId = randomUUID();
  const limits = { ...deps.steering.limits, maxCallMs: wish.maxDurationMs };
  const rules = { ...deps.steering, limits };
  const ringing = new RingingCallee(call, wish, { ...deps, steering: rules });
  let leg: CallLeg | null = null;
  let agent: CallParts['agent'] = null;
  const steps = stepsOf(call, wish, deps);
  steps?.tell('initiated');
  for (const message of wish.warnings ?? []) call.event('webhook.warning', { endpoint_id: wish.endpointId, message });
  try {
    if (deps.maxCalls !== null && deps.live.count > deps.maxCalls)
      throw new CallEnded({ cause: 'overload', source: 'system', detail: 'The server carries all the calls it may.' });
    const carriers = await deps.carriers(wish.organizationId, wish.mode);
    call.check();
    call.event('call.routed', { endpoint_id: wish.endpointId, trunks: carriers.map((carrier) => carrier.name) });
    const { toNumber: to, fromNumber: from, ringTimeoutMs } = wish;
    const { offerFor } = ringing;
    let isRinging = false;
    const onProgress: typeof ringing.onProgress = (progress) => {
      ringing.onProgress(progress);
      if (progress.status === 180 && !isRinging) steps?.tell('ringing');
      isRinging ||= progress.status === 180;
    };
    leg = await dialCarriers(call, { sipCallId, to, from, ringTimeoutMs, offerFor, onProgress }, carriers, deps.dial);
    watchLeg(leg, call, 'callee');
    call.check();
    call.pickedUp(leg.answeredAtMs);
    await call.orEnd(leg.confirmed);
    const line = await ringing.answered(leg);
    call.phones.set(leg, { session: line.session, organizationId: wish.organizationId });
    call.transferFallback = new BridgedTransfer({
      dialling: rules.dialling,
      line: () => line,
      endpointId: wish.endpointId,
    });
    const answeredBy = detectMachine(call, line.session, wish);
    void answeredBy.then(
      call.guarded((found) => {
        if (found !== null) tellAnsweredBy(call, wish, deps, found);
      }),
    );
    let isTold = false;
    const tellAnswered = () => {
      if (isTold) return;
      isTold = true;
      call.answer(); // whoever answered is on the line, agent or not
      steps?.tell('answered');
    };
    if (wish.waitsForMachine) {
      tellAnswered();
      ringing.answeredBy = await call.orEnd(answeredBy);
    }
    let taken: TakenUp;
    try {
      taken = await call.orEnd(ringing.takenUp());
    } finally {
      tellAnswered();
    }
    if (taken.kind === 'steered') return await steer(line, taken.endpoint, taken.actions, rules);
    if (taken.kind === 'bridged') {
      agent = taken.far;
      return await taken.far.talk(leg, limits);
    }
    ({ agent } = taken);
    await converse(call, leg, line.session, taken.agent, limits);
  } catch (error) {
    await deps.steering.limits.apology.end(call, ringing.session, endingOf(error, call, 'callee', deps.log));
  } finally {
    await closeCall(call, { session: ringing.session, agent, leg, sipCallId }, deps);
    steps?.tell('completed');
  }
}

/** Sent to whoever wants to know who answered. */
function tellAnsweredBy(call: Call, wish: OutboundCall, deps: OutboundDeps, found: AnsweredBy): void {
  const endpoint = deps.lookup.getForCall(wish.endpointId);
  if (!wish.machineStatus || endpoint === undefined) return;
  const { http, notices } = deps.steering;
  const facts = { ...partiesOf(call, wish), answered: true, ended: call.ending !== null };
  const webhook = new Webhook(endpoint, http, call.cookies);
  notices.send(call.id, webhook.form(wish.machineStatus, facts, answeredByFields(found)));
}

function stepsOf(call: Call, wish: OutboundCall, deps: OutboundDeps): CallSteps | null {
  const { status } = wish;
  const endpoint = deps.lookup.getForCall(wish.endpointId);
  if (!status || endpoint === undefined) return null;
  const { http, notices } = deps.steering;
  const webhook = new Webhook(endpoint, http, call.cookies);
  const facts = partiesOf(call, wish);
  return new CallSteps(call, facts, (step, fields) => {
    if (status.events.includes(step))
      notices.send(call.id, webhook.form(status.to, { ...facts, answered: false, ended: false }, fields));
  });
}
