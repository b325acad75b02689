import type { MediaSession } from '../../../media/engine.js';
import type { CallLeg } from '../../../sip/leg.js';
import type { Mode } from '../../store/tenants/scope.js';
import type { Call } from './call.js';
import type { PartyFacts } from './party-facts.js';

/** The far side of a call that is steered: answered already, or answered when something is to be heard. */
export interface CallParty {
  call: Call;
  session: MediaSession;
  facts: PartyFacts;
  mode: Mode;
  /** Header fields of the INVITE that a webhook may see, names in lower case. */
  headers: Readonly<Record<string, string>>;
  /** null until answered. */
  readonly leg: CallLeg | null;
  /** Lets a caller who waits hear something before the answer (183 with our SDP), once; absent or null: nobody waits, or he cannot. */
  ringWithMedia?: (() => Promise<void>) | null;
  /** Answers the call, once. Rejects with `CallEnded` when it ended first. */
  answer(): Promise<CallLeg>;
}
