import type { StatusCallback } from '../../webhook/actions.js';
import type { CallParty } from '../party/party.js';
import type { PartialRecordings } from '../recording/recordings.js';

/** A call that enters a conference. */
export interface ConferenceHost {
  readonly party: CallParty;
  readonly takes: PartialRecordings;
  /** Sends a status callback, signed as the webhook of this call signs. */
  send(conferenceId: string, to: StatusCallback['to'], fields: { [name: string]: string }): void;
}
