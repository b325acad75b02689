import { sql } from 'kysely';
import type { CallStatus, HangupCause } from '../../../sip/cause.js';
import type { Database } from '../database/database.js';
import type { CallRow, Direction } from '../database/tables.js';
import type { Scope } from '../tenants/scope.js';
import { type CallSummary, toCall } from './call-records.js';
import { toPowerOfTwo } from './calls-by-id.js';

/** What a search asks of calls; an absent condition lets every call through. */
export interface CallSearchFilter {
  status?: CallStatus;
  direction?: Direction;
  phoneNumberId?: string;
  endpointId?: string;
  hangupCause?: HangupCause;
  /** The beginning of the calling or the called number; the plus sign may be left out. */
  number?: string;
  /** The whole number or address. */
  fromNumber?: string;
  toNumber?: string;
  isAnswered?: boolean;
  /** Of outbound calls without an answer: whether we gave up. */
  isCanceled?: boolean;
  /** The call that dialled it. */
  parentCallId?: string;
  /** Of `completed_at`, milliseconds since 1970: from the first, before the second. */
  endedFromMs?: number;
  endedBeforeMs?: number;
  /** A part of the transcript, in any case. */
  text?: string;
  minDurationSec?: number;
  maxDurationSec?: number;
  /** Of `created_at`, milliseconds since 1970: from the first, before the second. */
  fromMs?: number;
  beforeMs?: number;
  /** Minutes of the UTC day, the second exclusive; a period may pass midnight. */
  fromMinute?: number;
  untilMinute?: number;
}

/** A call with what is not in its own columns. */
export interface ListedCall extends CallSummary {
  parentCallId: string | null;
  /** The result of machine detection. */
  answeredBy: string | null;
}

/** The last call of the page before. */
export interface CallPlace {
  createdMs: number;
  id: string;
}

const canceled = 'originator_cancel';
const minuteMs = 60_000;
const minutesPerDay = 1_440;
/** With more calls of such numbers than this, the newest calls are read one by one: a page of them is found soon. */
const mostCallsByNumber = 5_000;

/** Finds calls, newest first, by conditions for which there are no counters; so it pages by place and tells no total. */
export class CallSearch {
  constructor(
    private readonly database: Database,
    private readonly mostByNumber = mostCallsByNumber,
  ) {}

  async find(scope: Scope, filter: CallSearchFilter, after: CallPlace | null, limit: number): Promise<CallSummary[]> {
    return (await this.rows(scope, filter, after, limit)).map(toCall);
  }

  /** As `find`, with what is elsewhere in the records. */
  async findListed(
    scope: Scope,
    filter: CallSearchFilter,
    after: CallPlace | null,
    limit: number,
  ): Promise<ListedCall[]> {
    const rows = await this.rows(scope, filter, after, limit);
    const answeredBy = await this.answeredBy(rows.map(({ id }) => id));
    return rows.map((row) => {
      const metadata = row.metadata === null ? null : (JSON.parse(row.metadata) as Record<string, unknown> | null);
      const parent = metadata?.parent_call_id;
      return {
        ...toCall(row),
        parentCallId: typeof parent === 'string' ? parent : null,
        answeredBy: answeredBy.get(row.id) ?? null,
      };
    });
  }

  private async rows(
    scope: Scope,
    filter: CallSearchFilter,
    after: CallPlace | null,
    limit: number,
  ): Promise<CallRow[]> {
    const { fromNumber, toNumber, isAnswered, isCanceled, parentCallId, endedFromMs, endedBeforeMs } = filter;
    const { status, direction, phoneNumberId, endpointId, hangupCause, text } = filter;
    const number = filter.number ?? toNumber ?? fromNumber;
    const { minDurationSec, maxDurationSec, fromMs, beforeMs, fromMinute, untilMinute } = filter;
    let query = this.database.sql.selectFrom('calls').selectAll().where('mode', '=', scope.mode);
    let isById = false;
    if (status !== undefined) query = query.where('status', '=', status);
    if (direction !== undefined) query = query.where('direction', '=', direction);
    if (phoneNumberId !== undefined) query = query.where('phone_number_id', '=', phoneNumberId);
    if (endpointId !== undefined) query = query.where('endpoint_id', '=', endpointId);
    if (hangupCause !== undefined) query = query.where('hangup_cause', '=', hangupCause);
    if (fromNumber !== undefined) query = query.where('from_number', '=', fromNumber);
    if (toNumber !== undefined) query = query.where('to_number', '=', toNumber);
    if (isAnswered !== undefined) query = query.where('answered_at', isAnswered ? 'is not' : 'is', null);
    if (isCanceled === true) query = query.where('direction', '=', 'outbound').where('hangup_cause', '=', canceled);
    if (isCanceled === false)
      query = query.where((is) => is.or([is('direction', '=', 'inbound'), is('hangup_cause', '!=', canceled)]));
    if (parentCallId !== undefined) query = query.where('metadata', 'like', `%"parent_call_id":"${parentCallId}"%`);
    if (endedFromMs !== undefined) query = query.where('completed_at', '>=', endedFromMs);
    if (endedBeforeMs !== undefined) query = query.where('completed_at', '<', endedBeforeMs);
    if (minDurationSec !== undefined) query = query.where('duration_sec', '>=', minDurationSec);
    if (maxDurationSec !== undefined) query = query.where('duration_sec', '<=', maxDurationSec);
    if (fromMs !== undefined) query = query.where('created_at', '>=', fromMs);
    if (beforeMs !== undefined) query = query.where('created_at', '<', beforeMs);
    if (number !== undefined) {
      const few = await this.callsOfNumbers(number);
      if (few?.length === 0) return [];
      if (few) query = query.where('id', 'in', toPowerOfTwo(few, few[0] ?? ''));
      else
        query = query.where(sql<boolean>`(${beginsWith('from_number', number)} or ${beginsWith('to_number', number)})`);
      isById = few !== null;
    }
    // Few calls by their ids are sorted; any index that begins with the organization would read all its calls instead.
    const organization = isById ? sql<string>`organization_id || ''` : sql<string>`organization_id`;
    query = query.where(organization, '=', scope.organizationId);
    if (text !== undefined)
      query = query.where(sql<boolean>`lower(transcript) like ${`%${literal(text.toLowerCase())}%`} escape '\\'`);
    if (fromMinute !== undefined || untilMinute !== undefined) {
      const minute = sql<number>`(created_at / ${sql.lit(minuteMs)}) % ${sql.lit(minutesPerDay)}`;
      const [from, until] = [fromMinute ?? 0, untilMinute ?? minutesPerDay];
      query = query.where(
        from < until
          ? sql<boolean>`${minute} >= ${from} and ${minute} < ${until}`
          : sql<boolean>`(${minute} >= ${from} or ${minute} < ${until})`,
      );
    }
    if (after !== null) {
      const { createdMs, id } = after;
      query = query.where(sql<boolean>`(created_at < ${createdMs} or (created_at = ${createdMs} and id < ${id}))`);
      query = query.where('created_at', '<=', createdMs); // covered by the index
    }
    return this.database.all(query.orderBy('created_at', 'desc').orderBy('id', 'desc').limit(limit));
  }

  private async answeredBy(callIds: readonly string[]): Promise<Map<string, string>> {
    if (callIds.length === 0) return new Map();
    const query = this.database.sql
      .selectFrom('call_events')
      .select(['call_id', 'event_data'])
      .where('call_id', 'in', toPowerOfTwo(callIds, callIds[0] ?? ''))
      .where('event_type', '=', 'amd.completed');
    const events = await this.database.all(query);
    return new Map(
      events.map(({ call_id: id, event_data: data }) => [
        id,
        (JSON.parse(data) as { answered_by: string }).answered_by,
      ]),
    );
  }

  /** The calls of all organizations from or to such numbers, in no order; null if there are too many. */
  private async callsOfNumbers(beginning: string): Promise<string[] | null> {
    const ids = new Set<string>();
    for (const column of ['from_number', 'to_number'] as const)
      for (const from of beginnings(beginning)) {
        const found = this.database.sql.selectFrom('calls').select('id').where(column, '>=', from);
        const before = `${from}\u{10ffff}`; // the index compares UTF-8 bytes, and no character comes after this one
        const rows = await this.database.all(found.where(column, '<', before).limit(this.mostByNumber + 1));
        for (const { id } of rows) ids.add(id);
        if (ids.size > this.mostByNumber) return null;
      }
    return [...ids];
  }
}

/** As it was asked; digits also with a plus sign before them. */
function beginnings(asked: string): string[] {
  return /^\d/.test(asked) ? [asked, `+${asked}`] : [asked];
}

/** Without the help of an index. */
function beginsWith(column: 'from_number' | 'to_number', asked: string) {
  const each = beginnings(asked).map((text) => sql`substr(${sql.ref(column)}, 1, ${[...text].length}) = ${text}`);
  return sql.join(each, sql` or `);
}

/** The text without a meaning for `like`. */
function literal(text: string): string {
  return text.replace(/[\\%_]/g, (character) => `\\${character}`);
}
