/** Transfers a party without its help: calls the target and bridges the two, when the party refuses a REFER or fails to follow it. */
export interface TransferFallback {
  /** Why `to`, a number or a SIP URI, may not be called; null when it may. */
  refusal(to: string): Promise<string | null>;
  /**
   * Calls `to` while the agent goes on; resolves when party and target are bridged and the agent is gone. `replaces`: a dialog of the
   * target that it gives up for this call (RFC 3891). `onCall` gets the id of the child call. Rejects with `CallEnded` when the target did not answer.
   */
  join(to: string, replaces: string | undefined, onCall: (id: string) => void): Promise<void>;
}
