import type { UnansweredInvite, UnfinishedDialog } from '../leg.js';
import type { SipLog } from '../log.js';

/** At most this many far ends of a server get BYE or CANCEL after a loss; more at once would flood the network. */
const mostKept = 10_000;
const atOnce = 50;

export interface LostDialogsContext {
  log: SipLog;
  isConnected(): boolean;
  /** Sends BYE or CANCEL. Rejects when it cannot be sent. */
  end(dialog: UnfinishedDialog): Promise<void>;
}

/** What a lost server leaves behind, by server, until one can send BYE, CANCEL or a refusal. */
export class LostDialogs {
  /** Live dialogs and ringing INVITEs. */
  readonly #dialogs = new Map<string, UnfinishedDialog[]>();
  /** INVITEs without a final answer. */
  readonly #unanswered = new Map<string, UnansweredInvite[]>();

  constructor(private readonly context: LostDialogsContext) {}

  add(server: string, dialog: UnfinishedDialog | null): void {
    const dialogs = this.#dialogs.get(server) ?? [];
    this.#dialogs.set(server, dialogs);
    if (dialog && dialogs.length < mostKept) dialogs.push(dialog);
  }

  addUnanswered(server: string, invite: UnansweredInvite | null): void {
    if (invite) this.#unanswered.set(server, [...(this.#unanswered.get(server) ?? []), invite]);
  }

  takeUnanswered(server: string): UnansweredInvite[] {
    const invites = this.#unanswered.get(server) ?? [];
    this.#unanswered.delete(server);
    return invites;
  }

  /** Ends the dialogs of this server, in batches, as long as a server is connected. */
  async endThose(server: string): Promise<void> {
    const { log, isConnected, end } = this.context;
    const dialogs = this.#dialogs.get(server) ?? [];
    for (let batch = dialogs.splice(0, atOnce); batch.length > 0; ) {
      const ended = await Promise.allSettled(batch.map(end));
      const failed = ended.filter((result) => result.status === 'rejected').length;
      if (failed > 0) log.warn({ failed, of: batch.length }, 'BYE or CANCEL for lost calls failed');
      batch = isConnected() ? dialogs.splice(0, atOnce) : [];
    }
  }
}
