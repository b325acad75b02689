import type { Scope } from '../../store/tenants/scope.js';
import type { StatusCallback } from '../../webhook/actions.js';
import type { Call } from '../core/call.js';
import type { PartialRecordings } from '../recording/recordings.js';

/** A call that enters a conference: one of this node, or of another one. */
export interface ConferenceHost {
  readonly call: Pick<Call, 'id' | 'ending' | 'event' | 'redaction'>;
  readonly scope: Scope;
  readonly takes: PartialRecordings;
  /** Sends a status callback, signed as the webhook of this call signs. */
  send(conferenceId: string, to: StatusCallback['to'], fields: { [name: string]: string }): void;
}
