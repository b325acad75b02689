/** The redaction of calls at another node, on the link to it: theirs counts here, and ours is told to them. */
import { type PassageTerms, Redaction, withoutRecord } from './redaction.js';

/** What one node tells the other. Sent as JSON. */
export interface ToldRedaction {
  /** What the open passages ask for; null: none is open. */
  passage: PassageTerms | null;
  /** No key is stored, for the rest of the calls. */
  everyKey: boolean;
}

/** A message over UDP that was lost once comes this much later (T1, RFC 3261 section 17.1.2.1). */
const lateMs = 500;

export class FarRedaction {
  /** To be linked with those of this node. */
  readonly redaction = new Redaction(withoutRecord);
  #told: ToldRedaction = { passage: null, everyKey: false };
  #end: (() => void) | null = null;
  #farHidesEveryKey = false;

  /** `tell` gets what begins or ends in the redactions that are linked with this one. */
  constructor(tell: (what: ToldRedaction) => void) {
    const { redaction } = this;
    redaction.cover({
      redact: () => {
        const now = { passage: redaction.ofOthers, everyKey: redaction.hidesEveryKey && !this.#farHidesEveryKey };
        if (JSON.stringify(now) === JSON.stringify(this.#told)) return;
        this.#told = now;
        tell(now);
      },
    });
  }

  /** The other node told this. */
  heard({ passage, everyKey }: ToldRedaction): void {
    const before = this.#end;
    this.#end = passage === null ? null : this.redaction.begin('bridge', passage, lateMs);
    before?.();
    if (!everyKey || this.redaction.hidesEveryKey) return;
    this.#farHidesEveryKey = true;
    this.redaction.redactEveryKey();
  }

  /** The link is over: what the other node told last ends. */
  close(): void {
    this.#end?.();
    this.#end = null;
  }
}
