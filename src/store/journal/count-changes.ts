import type { CallStatus } from '../../../sip/cause.js';
import { dayMs, hourMs } from '../calls/call-counts.js';
import type { Turn } from '../calls/call-records.js';
import type { Transaction } from '../database/database.js';
import type { CallInsightRow } from '../database/tables.js';
import type { CountedCall } from './entries.js';

/** An ended call, with what insights are made of. */
export interface InsightCall extends CountedCall {
  endpoint_id: string | null;
  trunk_id: string | null;
  answered_at: number | null;
  /** JSON. */
  quality: string | null;
  /** JSON. */
  turns: string | null;
}

/** Where audio is delayed; the p95 of each hop is counted. */
const hops = ['caller_network', 'gateway_uplink', 'gateway_playout'] as const;

/** What is counted of a call's quality metrics. */
interface CountedQuality {
  mos?: unknown;
  audio_delay?: { [hop in (typeof hops)[number]]?: { p95_ms?: unknown } | null } | null;
}

const statuses = ['completed', 'failed', 'in_progress', 'no_answer', 'busy'] as const satisfies CallStatus[];
type Counts = number[];

/**
 * Changes of the counters that lists, statistics and insights are read from. Collected over a transaction and written at its end, each counter
 * once and in the order of its key, so that two writers never wait for each other.
 */
export class CountChanges {
  private readonly byDay = new Map<string, Counts>();
  private readonly byHour = new Map<string, Counts>();
  private readonly insights = new Map<string, number>();

  begun(call: CountedCall): void {
    this.count(call, 'in_progress', 1);
  }

  ended(call: InsightCall, status: CallStatus): void {
    this.count(call, 'in_progress', -1);
    this.count(call, status, 1);
    this.countInsights(call, 1);
  }

  deleted(call: InsightCall, status: CallStatus): void {
    this.count(call, status, -1);
    if (status !== 'in_progress') this.countInsights(call, -1);
  }

  async write(transaction: Transaction): Promise<void> {
    const changed = (counts: ReadonlyMap<string, Counts>) =>
      inOrder(counts).filter(([, numbers]) => numbers.some((n) => n !== 0));
    const days = changed(this.byDay).map(([key, counts]) => [...JSON.parse(key), ...counts]);
    await transaction.insertAll('call_days', columnsOf('day'), days, adding('call_days', 'day'));
    const hours = changed(this.byHour).map(([key, counts]) => [...JSON.parse(key), ...counts]);
    await transaction.insertAll('call_hours', columnsOf('hour'), hours, adding('call_hours', 'hour'));
    const insights = inOrder(this.insights).filter(([, n]) => n !== 0);
    const rows = insights.map(([key, n]) => [...JSON.parse(key), n]);
    await transaction.insertAll('call_insights', [...insightKey, 'n'], rows, addingInsights);
  }

  /** Once for its number, and once under '' for all numbers together. */
  private count(call: CountedCall, status: CallStatus, change: number): void {
    const index = statuses.indexOf(status);
    const { organization_id, mode, direction, created_at } = call;
    for (const number of ['', call.phone_number_id]) {
      const day = JSON.stringify([organization_id, mode, number, Math.floor(created_at / dayMs), direction]);
      const hour = JSON.stringify([organization_id, mode, number, Math.floor(created_at / hourMs), direction]);
      countsOf(this.byDay, day)[index]! += change;
      countsOf(this.byHour, hour)[index]! += change;
    }
  }

  private countInsights(call: InsightCall, sign: 1 | -1): void {
    const day = Math.floor(call.created_at / dayMs);
    const groups: [CallInsightRow['grouped_by'], string | null][] = [
      ['all', ''],
      ['endpoint', call.endpoint_id],
      ['trunk', call.trunk_id],
    ];
    for (const [groupedBy, groupId] of groups) {
      if (groupId === null) continue;
      for (const [figure, bucket] of figuresOf(call)) {
        const key = JSON.stringify([call.organization_id, call.mode, day, groupedBy, groupId, figure, bucket]);
        this.insights.set(key, (this.insights.get(key) ?? 0) + sign);
      }
    }
  }
}

function* figuresOf(call: InsightCall): Generator<[CallInsightRow['figure'], bucket: number]> {
  yield ['ended', 0];
  if (call.answered_at !== null) yield ['answered', 0];
  const { mos, audio_delay: delays } = call.quality === null ? {} : (JSON.parse(call.quality) as CountedQuality);
  if (typeof mos === 'number') yield ['mos', Math.round(mos * 100)];
  for (const hop of hops) {
    const ms = delays?.[hop]?.p95_ms;
    if (typeof ms === 'number') yield [`${hop}_ms`, delayBucket(Math.round(ms))];
  }
  const turns = call.turns === null ? [] : (JSON.parse(call.turns) as Turn[]);
  for (const { speaker, responseMs } of turns)
    if (speaker === 'agent' && responseMs !== null) yield ['response_ms', responseBucket(Math.trunc(responseMs))];
}

/** Exact to 1 ms below 100 ms, to 10 ms below 1 s, then to 250 ms, up to a minute. */
function delayBucket(ms: number): number {
  const step = ms < 100 ? 1 : ms < 1_000 ? 10 : ms < 60_000 ? 250 : 0;
  return step === 0 ? 60_000 : Math.trunc((ms + Math.trunc(step / 2)) / step) * step;
}

/** The middle of the step that a time falls in: within 2.5 % of it, or 5 ms. Times above a minute are a minute. */
function responseBucket(ms: number): number {
  const step = ms < 1_000 ? 10 : ms < 5_000 ? 50 : ms < 60_000 ? 250 : 0;
  return step === 0 ? 60_000 : Math.trunc((ms + step / 2) / step) * step;
}

function countsOf(counts: Map<string, Counts>, key: string): Counts {
  let found = counts.get(key);
  if (!found) {
    found = statuses.map(() => 0);
    counts.set(key, found);
  }
  return found;
}

function inOrder<V>(changes: ReadonlyMap<string, V>): [string, V][] {
  return changes.size < 2 ? [...changes] : [...changes].sort(([a], [b]) => (a < b ? -1 : 1));
}

function keyOf(bucket: 'day' | 'hour'): string[] {
  return ['organization_id', 'mode', 'phone_number_id', bucket, 'direction'];
}

function columnsOf(bucket: 'day' | 'hour'): string[] {
  return [...keyOf(bucket), ...statuses];
}

function adding(table: 'call_days' | 'call_hours', bucket: 'day' | 'hour'): string {
  const added = statuses.map((status) => `${status} = ${table}.${status} + excluded.${status}`).join(', ');
  return `on conflict (${keyOf(bucket).join(', ')}) do update set ${added}`;
}

const insightKey = ['organization_id', 'mode', 'day', 'grouped_by', 'group_id', 'figure', 'bucket'];
const addingInsights = `on conflict (${insightKey.join(', ')}) do update set n = call_insights.n + excluded.n`;
