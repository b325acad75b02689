/** The deliberate faults of a simulated call, beside packet impairments (`impairments.ts`). */
import type { PhoneCodec } from '../../media/engine.js';

export interface CallFaults {
  /** Audio has this direction only: `in`: we send none; `out`: nothing that is sent to us arrives. */
  oneWay?: 'in' | 'out';
  /** Our audio runs fast by so many millionths; slow when negative. */
  clockSkewPpm?: number;
  /** We speak as soon as a provisional answer says where to, and not only from the answer on. */
  speaksEarly?: boolean;
  /** So long after the answer, a re-INVITE offers this codec alone. */
  reoffer?: { codec: PhoneCodec; afterMs: number };
  /** The BYE follows so long after our audio stopped; `lost`: it never does, and the far side has to notice. */
  bye?: number | 'lost';
  /** No ACK arrives (UDP only): the far side repeats its answer until it gives up. */
  losesAck?: boolean;
}

/** A far side that does not notice for so long never will. */
export const noticeLimitMs = 180_000;
