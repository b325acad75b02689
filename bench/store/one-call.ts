import type { Calls } from '../../src/store/calls/calls.js';

const question = { concurrentCalls: null, rate: null };
export const entriesOfCall = 10;

/** One call as the gateway writes it. Resolves when its beginning is on disk. */
export function oneCall(calls: Calls, organizationId: string, endpointId: string | null = null): Promise<unknown> {
  const about = { mode: 'live', direction: 'inbound', fromNumber: '+15550001', toNumber: '+15550002' } as const;
  const { id, admission } = calls.beginAdmitted({ organizationId, ...about, phoneNumberId: 'n', endpointId }, question);
  calls.event(id, 'call.routed', { endpoint_id: null, rules: [] });
  calls.event(id, 'call.ringing');
  calls.pickedUp(id, new Date());
  calls.answered(id, { latencyMs: 40 });
  calls.event(id, 'media.started');
  calls.event(id, 'turn.completed', { speaker: 'agent', duration_ms: 900, response_ms: 600 });
  calls.event(id, 'agent.disconnected');
  const end = { status: 'completed', hangupCause: 'normal_clearing', hangupSource: 'caller', durationSec: 3 } as const;
  calls.finish(id, { ...end, quality: { mos: 4.3 }, timings: { setupMs: 40 } });
  return admission;
}
