import type { IncomingCall, RefusedInvite } from '../../../sip/leg.js';
import type { Logger } from '../../log.js';
import type { RejectedInviteRecords } from '../../store/calls/rejected-invites.js';

/** One log line covers all refusals of one address within this time. */
const quietMs = 10_000;
const maxAddresses = 1000;
/** Source addresses can be forged: at most this many lines and records in that time. */
const maxNotes = 50;

/**
 * INVITEs that became no call: from unknown sources, or for unknown numbers. Counted for the metrics by cause; kept and logged at most once per
 * address and interval, because scanners send thousands.
 */
export class RejectedInvites {
  readonly counts = new Map<string, number>();
  readonly #lastLoggedMs = new Map<string, number>();
  #notes = 0;
  #notesSinceMs = 0;

  constructor(
    private readonly log: Logger,
    private readonly records: Pick<RejectedInviteRecords, 'add'>,
  ) {}

  refused(invite: RefusedInvite): void {
    this.#note(invite);
  }

  unknownNumber(call: IncomingCall): void {
    const { sipCallId, from, to, peer } = call;
    this.#note({ sipCallId, from: from.number, to: to.number, peer, status: 404, cause: 'not_found' });
  }

  #note({ sipCallId, from, to, peer, status, cause }: Omit<RefusedInvite, 'at'>): void {
    const { address } = peer;
    this.counts.set(cause, (this.counts.get(cause) ?? 0) + 1);
    const nowMs = performance.now();
    const lastMs = this.#lastLoggedMs.get(address);
    if (lastMs !== undefined && nowMs - lastMs < quietMs) return;
    if (nowMs - this.#notesSinceMs >= quietMs) {
      this.#notes = 0;
      this.#notesSinceMs = nowMs;
    }
    if (++this.#notes > maxNotes) return;
    if (this.#lastLoggedMs.size >= maxAddresses) this.#lastLoggedMs.clear();
    this.#lastLoggedMs.set(address, nowMs);
    this.records.add({
      sip_call_id: sipCallId,
      from_number: from,
      to_number: to,
      transport: peer.transport,
      address,
      port: peer.port,
      sip_status: status,
      cause,
    });
    this.log.warn({ address, sip_call_id: sipCallId, sip_status: status, cause }, 'an INVITE was refused');
  }
}
