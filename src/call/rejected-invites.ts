import type { IncomingCall, RefusedInvite } from '../../sip/leg.js';
import type { Logger } from '../log.js';

/** A line of the log stands for all refusals of one address within this time. */
const quietMs = 10_000;
const maxAddresses = 1000;

/**
 * INVITEs that became no call: from unknown sources, or for numbers of nobody. Counted for the metrics by cause; logged at most once per
 * address and interval, because scanners come by the thousand.
 */
export class RejectedInvites {
  readonly counts = new Map<string, number>();
  readonly #lastLoggedMs = new Map<string, number>();

  constructor(private readonly log: Logger) {}

  refused(invite: RefusedInvite): void {
    this.#note(invite.cause, invite.peer.address, invite.sipCallId, invite.status);
  }

  unknownNumber(call: IncomingCall): void {
    this.#note('not_found', call.peer.address, call.sipCallId, 404);
  }

  #note(cause: string, address: string, sipCallId: string, status: number): void {
    this.counts.set(cause, (this.counts.get(cause) ?? 0) + 1);
    const nowMs = performance.now();
    const lastMs = this.#lastLoggedMs.get(address);
    if (lastMs !== undefined && nowMs - lastMs < quietMs) return;
    if (this.#lastLoggedMs.size >= maxAddresses) this.#lastLoggedMs.clear();
    this.#lastLoggedMs.set(address, nowMs);
    this.log.warn({ address, sip_call_id: sipCallId, sip_status: status, cause }, 'an INVITE was refused');
  }
}
