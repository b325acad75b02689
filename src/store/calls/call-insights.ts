import type { Reads } from '../database/database.js';
import type { CallInsightRow } from '../database/tables.js';
import type { Scope } from '../tenants/scope.js';

/** The percentiles of a metric. */
export interface Spread {
  count: number;
  p5: number;
  p50: number;
  p95: number;
  p99: number;
}

/** Aggregated metrics of ended calls. */
export interface Insight {
  /** The number of ended calls. */
  calls: number;
  answered: number;
  /** null if not measured in any call. */
  mos: Spread | null;
  /** The time from the caller's last word to the agent's first, over all turns. */
  responseMs: Spread | null;
  /** The calls' p95 of the delay of each hop, in milliseconds. */
  callerNetworkMs: Spread | null;
  gatewayUplinkMs: Spread | null;
  gatewayPlayoutMs: Spread | null;
}

export interface Insights {
  total: Insight;
  /** Only days with calls, ascending. */
  byDay: ReadonlyMap<number, Insight>;
  byEndpoint: ReadonlyMap<string, Insight>;
  byTrunk: ReadonlyMap<string, Insight>;
}

/** Aggregates over many calls, from the counters of `CountChanges`, without reading the calls. */
export class CallInsights {
  constructor(private readonly reads: Reads) {}

  /** Days are inclusive, counted from 1970-01-01. */
  async read(scope: Scope, days: { firstDay: number; lastDay: number }): Promise<Insights> {
    const { firstDay, lastDay } = days;
    const byEndpoint = new Map<string, Tally>();
    const byTrunk = new Map<string, Tally>();
    for (const counted of await this.ofGroups(scope, firstDay, lastDay))
      tallyOf(counted.grouped_by === 'endpoint' ? byEndpoint : byTrunk, counted.group_id).add(counted);
    return { ...(await this.byDay(scope, days)), byEndpoint: insights(byEndpoint), byTrunk: insights(byTrunk) };
  }

  /** Of all calls, without the groups, which take most of the time. */
  async byDay(
    scope: Scope,
    { firstDay, lastDay }: { firstDay: number; lastDay: number },
  ): Promise<Pick<Insights, 'total' | 'byDay'>> {
    const total = new Tally();
    const byDay = new Map<number, Insight>();
    for (let day = firstDay; day <= lastDay; day += 1) {
      const ofDay = new Tally();
      for (const counted of await this.ofDay(scope, day)) {
        ofDay.add(counted);
        total.add(counted);
      }
      if (ofDay.insight.calls > 0) byDay.set(day, ofDay.insight);
    }
    return { total: total.insight, byDay };
  }

  private ofDay(scope: Scope, day: number): Promise<Counted[]> {
    return this.reads.rows<Counted>(
      `select figure, bucket, n from call_insights
       where organization_id = ? and mode = ? and day = ? and grouped_by = 'all' and n > 0`,
      ...[scope.organizationId, scope.mode, day],
    );
  }

  /** Sums in SQL, because a year has very many counters. */
  private ofGroups(scope: Scope, ...days: [first: number, last: number]) {
    return this.reads.rows<Counted & Pick<CallInsightRow, 'grouped_by' | 'group_id'>>(
      `select grouped_by, group_id, figure, bucket, sum(n) as n from call_insights
       where organization_id = ? and mode = ? and day between ? and ? and grouped_by <> 'all'
       group by grouped_by, group_id, figure, bucket having sum(n) > 0`,
      ...[scope.organizationId, scope.mode, ...days],
    );
  }
}

type Counted = Pick<CallInsightRow, 'figure' | 'bucket' | 'n'>;
type Measured = Exclude<CallInsightRow['figure'], 'ended' | 'answered'>;

class Tally {
  private ended = 0;
  private answered = 0;
  private readonly counts: Record<Measured, Map<number, number>> = {
    mos: new Map(),
    response_ms: new Map(),
    caller_network_ms: new Map(),
    gateway_uplink_ms: new Map(),
    gateway_playout_ms: new Map(),
  };

  add({ figure, bucket, n }: Counted): void {
    if (figure === 'ended') this.ended += n;
    else if (figure === 'answered') this.answered += n;
    else {
      const counts = this.counts[figure];
      counts.set(bucket, (counts.get(bucket) ?? 0) + n);
    }
  }

  get insight(): Insight {
    return {
      calls: this.ended,
      answered: this.answered,
      mos: spread(this.counts.mos, (hundredths) => hundredths / 100),
      responseMs: spread(this.counts.response_ms),
      callerNetworkMs: spread(this.counts.caller_network_ms),
      gatewayUplinkMs: spread(this.counts.gateway_uplink_ms),
      gatewayPlayoutMs: spread(this.counts.gateway_playout_ms),
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

/** Percentiles by nearest rank. */
function spread(counts: ReadonlyMap<number, number>, value = (bucket: number): number => bucket): Spread | null {
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
