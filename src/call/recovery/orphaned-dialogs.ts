/** Dialogs of calls whose process died: each gets BYE, or CANCEL while it rings, as soon as a SIP server is connected. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { SipGateway, UnfinishedDialog } from '../../../sip/leg.js';
import type { Logger } from '../../log.js';
import type { OrphanedCall } from '../../store/nodes/orphans.js';

/** 200 per second: thousands at once would be a flood. */
const betweenMs = 5;

export class OrphanedDialogs {
  #waiting: UnfinishedDialog[] = [];
  #sip: Pick<SipGateway, 'endOrphan'> | null = null;
  #telling = false;
  readonly #closing = new AbortController();

  constructor(private readonly log: Logger) {}

  /** Calls that were closed because their process died. */
  add(calls: readonly OrphanedCall[]): void {
    for (const call of calls) this.#waiting.push(...call.dialogs);
    void this.#tell();
  }

  /** A SIP server is connected: sends from now on. */
  begin(sip: Pick<SipGateway, 'endOrphan'>): void {
    this.#sip = sip;
    void this.#tell();
  }

  close(): void {
    this.#closing.abort();
  }

  async #tell(): Promise<void> {
    if (this.#telling || !this.#sip) return;
    this.#telling = true;
    const { signal } = this.#closing;
    for (let next = this.#waiting.shift(); next && !signal.aborted; next = this.#waiting.shift()) {
      const sipCallId = next.callId;
      // not awaited: a peer that is gone as well answers after half a minute, or never
      this.#sip.endOrphan(next, 'system_restart').catch((error: Error) => {
        if (!signal.aborted)
          this.log.warn(
            { sip_call_id: sipCallId, err: error.message },
            'a lost call could not be ended at its far end',
          );
      });
      await sleep(betweenMs, undefined, { signal }).catch(() => undefined);
    }
    this.#telling = false;
  }
}
