/** A hold is extended this long before it runs out. */
const extendAheadMs = 5_000;
/** When a hold could not be asked for, it is asked for again so much later. */
const askAgainMs = 1_000;

/** Money held for a call, extended while it runs. */
export interface CallFunds {
  /** Seconds of conversation that are paid for so far. */
  readonly fundedSec: number;
  /** How long the call goes on when no more money can be asked for. */
  readonly graceSec: number;
  /** Holds money for more time. Resolves with the new `fundedSec`: the same as before when nothing is left. Rejects if it cannot be asked. */
  extend(): Promise<number>;
}

export interface FundedConversation {
  answeredAtMs: number;
  /** Nothing is left, and the time that is paid for is over. */
  onExhausted(fundedSec: number): void;
  /** More money cannot be asked for, and the call goes on: once. */
  onUnfunded(fundedSec: number): void;
  /** More money could not be asked for during the whole grace. */
  onGraceOver(fundedSec: number): void;
  /** For callbacks of timers. */
  guarded(handle: () => void): () => void;
}

/**
 * Extends the hold again and again before it runs out. A hold that could not be asked for is not an empty balance: it is asked for again, and the
 * call goes on for `graceSec` beyond what is paid for. Returns a function that stops.
 */
export function watchFunds(
  funds: CallFunds,
  { answeredAtMs, onExhausted, onUnfunded, onGraceOver, guarded }: FundedConversation,
): () => void {
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  let isTold = false;
  const leftMs = (fundedSec: number): number => answeredAtMs + fundedSec * 1000 - performance.now();
  // an answer may come after the call has ended: no timer is set then
  const after = (ms: number, handle: () => void): void => {
    if (!isStopped) timer = setTimeout(guarded(handle), Math.max(0, ms));
  };
  const watch = (): void => after(leftMs(funds.fundedSec) - extendAheadMs, extend);
  const extend = (): void => {
    const before = funds.fundedSec;
    funds.extend().then(
      guarded(() => {
        if (funds.fundedSec > before) watch();
        else after(leftMs(before), () => onExhausted(before));
      }),
      guarded(() => unanswered(before)),
    );
  };
  const unanswered = (fundedSec: number): void => {
    if (isStopped) return;
    const left = leftMs(fundedSec);
    if (left <= 0 && !isTold) {
      isTold = true;
      onUnfunded(fundedSec);
    }
    if (left <= -funds.graceSec * 1000) onGraceOver(fundedSec);
    else after(Math.min(askAgainMs, Math.max(left, 0) || askAgainMs, left + funds.graceSec * 1000), extend);
  };
  watch();
  return () => {
    isStopped = true;
    clearTimeout(timer);
  };
}
