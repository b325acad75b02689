import type { CallState } from '../../webhook/twilio-parameters.js';

/** Who calls whom: what webhooks, agents and status callbacks say of a call. */
export interface PartyFacts extends Omit<CallState, 'answered' | 'ended'> {
  /** Custom parameters for the start message of an agent; none when absent. */
  custom?: Record<string, string>;
}
