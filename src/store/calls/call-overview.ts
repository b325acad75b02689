import type { Database } from '../database/database.js';
import type { Scope } from '../tenants/scope.js';
import type { DayCounts } from './call-counts.js';
import { CallInsights, type Insights } from './call-insights.js';
import { CallReads } from './call-reads.js';
import type { CallDetail, CallSummary } from './call-records.js';

/** How calls are doing, and what failed last. */
export interface CallOverview {
  /** The newest running calls, with their events, and how many there are. */
  live: CallDetail[];
  liveTotal: number;
  days: DayCounts[];
  insights: Pick<Insights, 'total' | 'byDay'>;
  /** The last calls that failed, with their events. */
  failures: CallDetail[];
  /** Milliseconds that the gateway added to the audio of the last completed calls, both ways, median per call; ascending. */
  audioDelaysMs: number[];
}

/** The part of `audio_delay` in a call's quality metrics that is due to this server. */
type AudioDelay = { [hop in 'gateway_uplink' | 'gateway_playout']?: { p50_ms: number } | null };

const mostLive = 50;
const mostFailures = 8;
const sampledCalls = 200;

/** Reads everything that the overview shows at once; costs the same for a hundred calls and for millions. */
export class CallOverviews {
  private readonly calls: CallReads;
  private readonly insights: CallInsights;

  constructor(private readonly database: Database) {
    this.calls = new CallReads(database, () => Promise.resolve()); // the caller flushes queued writes first
    this.insights = new CallInsights(database);
  }

  read(scope: Scope, days: { firstDay: number; lastDay: number }): Promise<CallOverview> {
    return this.database.snapshot(async () => {
      const live = await this.calls.list(scope, { status: 'in_progress' }, { limit: mostLive, offset: 0 });
      const failed = await this.calls.list(scope, { status: 'failed' }, { limit: mostFailures, offset: 0 });
      const answered = await this.calls.list(scope, { status: 'completed' }, { limit: sampledCalls, offset: 0 });
      return {
        live: await this.whole(scope, live.data),
        liveTotal: live.total,
        days: await this.calls.trends(scope, days),
        insights: await this.insights.byDay(scope, days),
        failures: await this.whole(scope, failed.data),
        audioDelaysMs: await this.delays(answered.data.map(({ id }) => id)),
      };
    });
  }

  private async whole(scope: Scope, calls: CallSummary[]): Promise<CallDetail[]> {
    const whole: CallDetail[] = [];
    for (const { id } of calls) {
      const detail = await this.calls.detail(scope, id);
      if (detail) whole.push(detail);
    }
    return whole;
  }

  private async delays(ids: string[]): Promise<number[]> {
    if (ids.length === 0) return [];
    const query = this.database.sql.selectFrom('calls').select('quality').where('id', 'in', ids);
    const delays = (await this.database.all(query)).flatMap(({ quality }) => {
      const { audio_delay: delay } = JSON.parse(quality ?? '{}') as { audio_delay?: AudioDelay };
      const uplinkMs = delay?.gateway_uplink?.p50_ms;
      const playoutMs = delay?.gateway_playout?.p50_ms;
      return uplinkMs === undefined && playoutMs === undefined ? [] : [(uplinkMs ?? 0) + (playoutMs ?? 0)];
    });
    return delays.sort((a, b) => a - b);
  }
}
