import { performance } from 'node:perf_hooks';

/** A hold is extended this long before it runs out. */
const extendAheadMs = 5_000;

/** Money held for a call, extended while it runs. */
export interface CallFunds {
  /** Seconds of conversation that are paid for so far. */
  readonly fundedSec: number;
  /** Holds money for more time. Returns the new `fundedSec`, which is unchanged when no money is left. */
  extend(): number;
}

export interface FundedConversation {
  answeredAtMs: number;
  /** No money is left, and the paid time is over. */
  onExhausted(fundedSec: number): void;
  /** For callbacks of timers. */
  guarded(handle: () => void): () => void;
}

/** Extends the hold each time before it runs out. The returned function stops that. */
export function watchFunds(funds: CallFunds, { answeredAtMs, onExhausted, guarded }: FundedConversation): () => void {
  let timer: NodeJS.Timeout;
  const at = (fundedSec: number, aheadMs: number, handle: () => void): void => {
    const inMs = answeredAtMs + fundedSec * 1000 - aheadMs - performance.now();
    timer = setTimeout(guarded(handle), Math.max(0, inMs));
  };
  const watch = (): void => at(funds.fundedSec, extendAheadMs, extend);
  const extend = (): void => {
    const before = funds.fundedSec;
    if (funds.extend() > before) watch();
    else at(before, 0, () => onExhausted(before));
  };
  watch();
  return () => clearTimeout(timer);
}
