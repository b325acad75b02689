import type { Database } from '../database/database.js';
import type { Scope } from '../tenants/scope.js';
import type { DayCounts } from './call-counts.js';
import { CallInsights } from './call-insights.js';
import { CallReads } from './call-reads.js';
import type { CallDetail, CallSummary } from './call-records.js';

/** How calls are doing, and what failed last. */
export interface CallOverview {
  /** The newest running calls, with their events, and how many there are. */
  live: CallDetail[];
  liveTotal: number;
  days: DayCounts[];
  insights: ReturnType<CallInsights['byDay']>;
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
    this.calls = new CallReads(database, () => {}); // the caller flushes queued writes first
    this.insights = new CallInsights(database);
  }

  read(scope: Scope, days: { firstDay: number; lastDay: number }): CallOverview {
    return this.database.read(() => {
      const live = this.calls.list(scope, { status: 'in_progress' }, { limit: mostLive, offset: 0 });
      const failed = this.calls.list(scope, { status: 'failed' }, { limit: mostFailures, offset: 0 });
      const answered = this.calls.list(scope, { status: 'completed' }, { limit: sampledCalls, offset: 0 }).data;
      const whole = (calls: CallSummary[]) => calls.flatMap(({ id }) => this.calls.detail(scope, id) ?? []);
      return {
        live: whole(live.data),
        liveTotal: live.total,
        days: this.calls.trends(scope, days),
        insights: this.insights.byDay(scope, days),
        failures: whole(failed.data),
        audioDelaysMs: this.delays(answered.map(({ id }) => id)),
      };
    });
  }

  private delays(ids: string[]): number[] {
    if (ids.length === 0) return [];
    const rows = this.database.all(this.database.sql.selectFrom('calls').select('quality').where('id', 'in', ids));
    const delays = rows.flatMap(({ quality }) => {
      const { audio_delay: delay } = JSON.parse(quality ?? '{}') as { audio_delay?: AudioDelay };
      const uplinkMs = delay?.gateway_uplink?.p50_ms;
      const playoutMs = delay?.gateway_playout?.p50_ms;
      return uplinkMs === undefined && playoutMs === undefined ? [] : [(uplinkMs ?? 0) + (playoutMs ?? 0)];
    });
    return delays.sort((a, b) => a - b);
  }
}
