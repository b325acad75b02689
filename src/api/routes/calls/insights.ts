import { dayMs } from '../../../store/calls/call-counts.js';
import type { Insight, Insights } from '../../../store/calls/call-insights.js';
import type { Store } from '../../../store/store.js';
import { askedDays, type Days, trendDays } from '../../request/days.js';
import { type Route, route } from '../../route.js';
import { insightsQuery } from '../../schemas/insights.js';
import { ref } from '../../schemas/types.js';

export function insightRoutes({ store, now }: { store: Store; now: () => number }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/calls/insights',
      operationId: 'getCallInsights',
      tag: 'Calls',
      summary: 'Get call insights',
      description:
        'The answer rate and the distributions of MOS, agent latency and audio delay, in total, by day, by endpoint and by trunk; for the last 30 days by default, at most 366 days.',
      access: 'member',
      query: insightsQuery,
      answer: { status: 200, description: 'The figures.', schema: ref('CallInsights') },
      handle: async ({ query, caller }) => {
        const days = trendDays(askedDays(query), now());
        await store.calls.flush();
        return presentInsights(days, await store.longReads.ask('insights', caller.scope, days));
      },
    }),
  ];
}

/** `CallInsights` of the API for these days. */
function presentInsights(days: Days, { total, byDay, byEndpoint, byTrunk }: Insights) {
  return {
    start_date: dateOf(days.firstDay),
    end_date: dateOf(days.lastDay),
    ...presentDays(days, { total, byDay }),
    by_endpoint: [...byEndpoint].map(([endpoint_id, insight]) => ({ endpoint_id, ...presentInsight(insight) })),
    by_trunk: [...byTrunk].map(([trunk_id, insight]) => ({ trunk_id, ...presentInsight(insight) })),
  };
}

/** The figures of all calls, in total and for each of the days. */
export function presentDays(days: Days, { total, byDay }: Pick<Insights, 'total' | 'byDay'>) {
  const by_day = [];
  for (let day = days.firstDay; day <= days.lastDay; day += 1)
    by_day.push({ date: dateOf(day), ...presentInsight(byDay.get(day) ?? noCalls) });
  return { total: presentInsight(total), by_day };
}

const noCalls: Insight = {
  ...{ calls: 0, answered: 0, mos: null, responseMs: null },
  ...{ callerNetworkMs: null, gatewayUplinkMs: null, gatewayPlayoutMs: null },
};

function presentInsight(insight: Insight) {
  const { calls, answered, mos, responseMs } = insight;
  return {
    calls,
    answered,
    answer_rate: calls === 0 ? null : Math.round((answered / calls) * 10_000) / 10_000,
    mos,
    turn_latency_ms: responseMs,
    audio_delay: {
      caller_network_ms: insight.callerNetworkMs,
      gateway_uplink_ms: insight.gatewayUplinkMs,
      gateway_playout_ms: insight.gatewayPlayoutMs,
    },
  };
}

function dateOf(day: number): string {
  return new Date(day * dayMs).toISOString().slice(0, 10);
}
