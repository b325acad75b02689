/** How many calls a server carries before they are bad. */
import { type Result, wasLate } from './rig.js';

const steps = [1, 1.5, 2, 2.5, 3, 4, 5];
/** The last good number and the first bad one come this close together, as a share of the calls that were asked for. */
const closeness = 0.25;
/** What was bad, or during what the load generator was late, is tried again: so often in all. */
const tries = 2;
/**
 * Calls are no longer good with so much more round trip at the ear (p95) than half of the pulses had with the fewest calls, with this share of
 * lost packets, or of packets more than 40 ms after the one before.
 */
const [goodEarMs, goodLoss, goodGaps] = [50, 0.001, 0.0001];

export interface Knee {
  /** So many calls were good. */
  good: number;
  /** So many were bad in each try; null when none were. */
  bad: number | null;
  /** The load generator was late in each try with so many, or null: what would have been good is not known. */
  lateWith: number | null;
}

/** More and more calls until they are bad, then numbers in between. */
export async function findKnee(calls: number, run: (calls: number) => Promise<Result>): Promise<Knee> {
  const knee: Knee = { good: 0, bad: null, lateWith: null };
  let usualMs = Number.NaN;
  const isGood = async (count: number): Promise<boolean> => {
    let late = true;
    for (let attempt = 0; attempt < tries; attempt++) {
      const result = await run(count);
      if (Number.isNaN(usualMs)) usualMs = result.ear?.p50 ?? Number.NaN;
      if (good(result, count, usualMs)) return true;
      late &&= wasLate(result);
    }
    if (late) knee.lateWith = count;
    return false;
  };
  for (const step of steps) {
    const count = Math.round(calls * step);
    if (!(await isGood(count))) {
      knee.bad = count;
      break;
    }
    knee.good = count;
  }
  while (knee.bad !== null && knee.bad - knee.good > Math.max(1, calls * closeness)) {
    const count = Math.round((knee.good + knee.bad) / 2);
    if (await isGood(count)) knee.good = count;
    else knee.bad = count;
  }
  return knee;
}

export function kneeText(name: string, { good, bad, lateWith }: Knee): string {
  const more = bad === null ? 'more were not tried' : `${bad} are not`;
  const doubt = lateWith === null ? '' : `; the load generator was late itself in each try with ${lateWith}`;
  return `the knee of ${name}: ${good} calls at once are good, ${more}${doubt}`;
}

function good({ answered, figures, ear }: Result, count: number, usualMs: number): boolean {
  const isLate = !(ear !== null && ear.p95 <= usualMs + goodEarMs);
  const { received, lost, gaps } = figures;
  return answered === count && !isLate && lost <= received * goodLoss && gaps <= received * goodGaps;
}
