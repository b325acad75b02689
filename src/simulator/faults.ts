/** Deliberate faults of a simulated call; packet impairments are in `impairments.ts`. */
import type { PhoneCodec } from '../../media/engine.js';

export interface CallFaults {
  /** One-way audio. `in`: we send none; `out`: we discard what is sent to us. */
  oneWay?: 'in' | 'out';
  /** How fast our audio clock runs, in parts per million; negative: slow. */
  clockSkewPpm?: number;
  /** We send audio as soon as a provisional response has SDP, instead of from the answer on. */
  speaksEarly?: boolean;
  /** A re-INVITE this long after the answer offers only this codec. */
  reoffer?: { codec: PhoneCodec; afterMs: number };
  /** How long after our audio stopped the BYE follows; `lost`: no BYE is sent, and the far side must detect it. */
  bye?: number | 'lost';
  /** The ACK is lost (UDP only): the far side retransmits its 200 until its timer ends. */
  losesAck?: boolean;
}

/** A far side that has not detected the loss after this long never will. */
export const noticeLimitMs = 180_000;
