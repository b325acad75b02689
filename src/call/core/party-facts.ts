import type { CallState } from '../../webhook/twilio-parameters.js';

/** Caller, callee and identifiers of a call, as webhooks, agents and status callbacks get them. */
export interface PartyFacts extends Omit<CallState, 'answered' | 'ended'> {
  /** Custom parameters for the start message of an agent; none when absent. */
  custom?: Record<string, string>;
  /** Of the call's request; absent: `custom` is. */
  metadata?: Record<string, string>;
  /** Header fields of the caller's INVITE, names in lower case. */
  headers?: Readonly<Record<string, string>>;
}
