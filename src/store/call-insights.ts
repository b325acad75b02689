import type { Database } from './database.js';
import type { Scope } from './scope.js';
import type { CallInsightRow } from './tables.js';

/** How a figure was spread, at these shares of its measurements from the least to the most. */
export interface Spread {
  count: number;
  p5: number;
  p50: number;
  p95: number;
  p99: number;
}

/** What ended calls say together. */
export interface Insight {
  /** That have ended. */
  calls: number;
  answered: number;
  /** null: not measured in any call. */
  mos: Spread | null;
  /** From the caller's last word to the agent's first, of every turn. */
  responseMs: Spread | null;
}

export interface Insights {
  total: Insight;
  /** Only days with calls, ascending. */
  byDay: ReadonlyMap<number, Insight>;
  byEndpoint: ReadonlyMap<string, Insight>;
  byTrunk: ReadonlyMap<string, Insight>;
}

/** Figures over many calls, from counts that triggers keep: no call is looked at. */
export class CallInsights {
  constructor(private readonly database: Database) {}

  /** Days are inclusive, counted from 1970-01-01. */
  read(scope: Scope, { firstDay, lastDay }: { firstDay: number; lastDay: number }): Insights {
    const total = new Tally();
    const byDay = new Map<number, Insight>();
    const byEndpoint = new Map<string, Tally>();
    const byTrunk = new Map<string, Tally>();
    for (let day = firstDay; day <= lastDay; day += 1) {
      const ofDay = new Tally();
      for (const row of this.rows(scope, day)) {
        if (row.grouped_by === 'all') {
          ofDay.add(row);
          total.add(row);
        } else tallyOf(row.grouped_by === 'endpoint' ? byEndpoint : byTrunk, row.group_id).add(row);
      }
      if (ofDay.insight.calls > 0) byDay.set(day, ofDay.insight);
    }
    return { total: total.insight, byDay, byEndpoint: insights(byEndpoint), byTrunk: insights(byTrunk) };
  }

  private rows(
    scope: Scope,
    day: number,
  ): Pick<CallInsightRow, 'grouped_by' | 'group_id' | 'figure' | 'bucket' | 'n'>[] {
    return this.database.all(
      this.database.sql
        .selectFrom('call_insights')
        .select(['grouped_by', 'group_id', 'figure', 'bucket', 'n'])
        .where('organization_id', '=', scope.organizationId)
        .where('mode', '=', scope.mode)
        .where('day', '=', day)
        .where('n', '>', 0),
    );
  }
}

class Tally {
  private ended = 0;
  private answered = 0;
  private readonly mos = new Map<number, number>();
  private readonly responseMs = new Map<number, number>();

  add({ figure, bucket, n }: Pick<CallInsightRow, 'figure' | 'bucket' | 'n'>): void {
    if (figure === 'ended') this.ended += n;
    else if (figure === 'answered') this.answered += n;
    else {
      const counts = figure === 'mos' ? this.mos : this.responseMs;
      counts.set(bucket, (counts.get(bucket) ?? 0) + n);
    }
  }

  get insight(): Insight {
    return {
      calls: this.ended,
      answered: this.answered,
      mos: spread(this.mos, (hundredths) => hundredths / 100),
      responseMs: spread(this.responseMs, (ms) => ms),
    };
  }
}

function tallyOf(tallies: Map<string, Tally>, id: string): Tally {
  let tally = tallies.get(id);
  if (!tally) {
    tally = new Tally();
    tallies.set(id, tally);
  }
  return tally;
}

/** Most calls first. */
function insights(tallies: ReadonlyMap<string, Tally>): Map<string, Insight> {
  const all = [...tallies].map(([id, tally]) => [id, tally.insight] as const).filter(([, { calls }]) => calls > 0);
  return new Map(all.sort(([, a], [, b]) => b.calls - a.calls));
}

/** By nearest rank: the least value that so many measurements do not pass. */
function spread(counts: ReadonlyMap<number, number>, value: (bucket: number) => number): Spread | null {
  const sorted = [...counts].sort(([a], [b]) => a - b);
  const count = sorted.reduce((sum, [, n]) => sum + n, 0);
  if (count === 0) return null;
  const at = (share: number): number => {
    let left = Math.ceil(share * count);
    for (const [bucket, n] of sorted) {
      left -= n;
      if (left <= 0) return value(bucket);
    }
    return value(sorted.at(-1)?.[0] ?? 0);
  };
  return { count, p5: at(0.05), p50: at(0.5), p95: at(0.95), p99: at(0.99) };
}
