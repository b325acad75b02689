import type { CallLeg } from '../../../sip/leg.js';
import type { CallCommand, CommandResult } from '../core/command.js';

/** A DTMF key of the phone. */
export interface Key {
  digit: string;
  /** RTP event (RFC 4733), tones in the audio, or SIP INFO. */
  method: 'rfc4733' | 'inband' | 'info';
  /** A media bridge already forwarded it to the other phone. */
  passedOn: boolean;
}

/** The phone holds the call; `sends`: it plays something meanwhile. */
export interface Hold {
  sends: boolean;
}

/**
 * `finished`: its loan is over; `replaced`: another application of the same call takes over; `transferred`: a bridged transfer;
 * `failed`: it, or the attempt to connect it, failed.
 */
export type DetachReason = 'finished' | 'replaced' | 'transferred' | 'failed' | 'call_ended';

/** What a party talks with (FreeSWITCH and Asterisk use the same word). It learns the party from its constructor. */
export interface Application {
  readonly kind: 'agent' | 'script' | 'bridge' | 'conference' | 'announcement';
  /** The party is answered, or comes back from a loan: the application takes its media. */
  attach(): void;
  /** For good. Idempotent; always settles. */
  detach(why: DetachReason): Promise<void>;
  onKey(key: Key): void;
  /** null: the hold is over. */
  onHold(hold: Hold | null): void;
  /** null: the command is carried out as on every call. */
  onCommand?(command: CallCommand): Promise<CommandResult> | null;
  /** A REFER of the party; without a handler it is refused with 403. */
  onRefer?: Parameters<CallLeg['onRefer']>[0];
}
