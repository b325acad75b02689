/** The price of a minute of conversation and its billing increments. Money is in whole micro-cents, a millionth of a cent. */
export interface Rate {
  microcentsPerMinute: number;
  /** The minimum number of seconds charged. */
  initialIncrementSec: number;
  /** The billing increment in seconds after that. */
  incrementSec: number;
}

export const microcentsPerCent = 1_000_000;

/** Above this a week of conversation would no longer be a safe integer. */
export const maxCentsPerMinute = 100_000;

/** The seconds charged; 0 for a call that was never answered. */
export function billedSec(rate: Rate, durationSec: number): number {
  if (durationSec <= 0) return 0;
  const beyond = Math.max(0, Math.ceil(durationSec) - rate.initialIncrementSec);
  return rate.initialIncrementSec + Math.ceil(beyond / rate.incrementSec) * rate.incrementSec;
}

/** The cost in micro-cents, rounded up once at the end. */
export function costOf(rate: Rate, durationSec: number): number {
  return Math.ceil((billedSec(rate, durationSec) * rate.microcentsPerMinute) / 60);
}

/** The longest conversation that the amount covers, in whole increments; 0 if it does not cover the first. Only for rates above 0. */
export function affordableSec(rate: Rate, microcents: number): number {
  const seconds = Math.floor((microcents * 60) / rate.microcentsPerMinute);
  if (seconds < rate.initialIncrementSec) return 0;
  return (
    rate.initialIncrementSec + Math.floor((seconds - rate.initialIncrementSec) / rate.incrementSec) * rate.incrementSec
  );
}
