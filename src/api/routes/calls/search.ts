import { Readable } from 'node:stream';
import { hangupCauses } from '../../../../sip/cause.js';
import { dayMs } from '../../../store/calls/call-counts.js';
import type { CallSummary } from '../../../store/calls/call-records.js';
import type { CallPlace, CallSearchFilter } from '../../../store/calls/call-search.js';
import type { Store } from '../../../store/store.js';
import type { Scope } from '../../../store/tenants/scope.js';
import { invalid } from '../../errors.js';
import { presentCall } from '../../present/present.js';
import type { RecordingUrls } from '../../recordings/recording-urls.js';
import { askedDays } from '../../request/days.js';
import { type Route, route } from '../../route.js';
import { callsQuery, statuses } from '../../schemas/calls.js';
import { patterns } from '../../schemas/patterns.js';
import { body, nullable, oneOf, ref, Type, uuid } from '../../schemas/types.js';

const clock = (description: string) => Type.Optional(Type.String({ pattern: patterns.clock, description }));
const seconds = (description: string) => Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000, description }));

const filters = {
  status: Type.Optional(oneOf(statuses, { description: 'Only calls with this status.' })),
  direction: callsQuery.properties.direction,
  phone_number_id: callsQuery.properties.phone_number_id,
  endpoint_id: Type.Optional(uuid('Only calls of this endpoint.')),
  hangup_cause: Type.Optional(oneOf(hangupCauses, { description: 'Only calls that ended for this reason.' })),
  number: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 64,
      description:
        'The beginning of the calling or of the called number. The plus sign may be left out, and spaces, dots, hyphens and parentheses between digits are ignored.',
    }),
  ),
  text: Type.Optional(
    Type.String({ minLength: 2, maxLength: 200, description: 'A part of the transcript, in any case.' }),
  ),
  min_duration: seconds('Only calls that lasted at least this many seconds.'),
  max_duration: seconds('Only calls that lasted at most this many seconds.'),
  start_date: callsQuery.properties.start_date,
  end_date: callsQuery.properties.end_date,
  from_time: clock('Only calls from this time of the UTC day on, as `HH:MM`.'),
  until_time: clock('Only calls before this time of the UTC day, as `HH:MM`; a period may pass midnight.'),
};

const searchQuery = body({
  ...filters,
  limit: Type.Integer({
    minimum: 1,
    maximum: 500,
    default: 100,
    description: 'The maximum number of calls to return.',
  }),
  cursor: Type.Optional(
    Type.String({ maxLength: 128, description: 'The `next_cursor` of the page before; absent for the first page.' }),
  ),
});
const exportQuery = body(filters);

const page = Type.Object(
  {
    data: Type.Array(ref('Call'), { description: 'Newest first.' }),
    next_cursor: nullable<string>(Type.String({ description: 'Leads to the next page; null after the last.' })),
  },
  { $id: 'CallPage', additionalProperties: false },
);
export const searchSchemas = [page];

const exportedAtMost = 100_000;
const exportedAtOnce = 1_000;
const columns = [
  ...['id', 'created_at', 'answered_at', 'completed_at', 'direction', 'from_number', 'to_number', 'status', 'duration'],
  ...['cost', 'latency_ms', 'hangup_cause', 'phone_number_id', 'endpoint_id'],
] as const;

export function searchRoutes({ store, recordingUrls }: { store: Store; recordingUrls: RecordingUrls }): Route[] {
  const find = async (scope: Scope, filter: CallSearchFilter, after: CallPlace | null, limit: number) => {
    await store.calls.flush();
    return store.longReads.ask('search', scope, filter, after, limit);
  };
  return [
    route({
      method: 'GET',
      path: '/v1/calls/search',
      operationId: 'searchCalls',
      tag: 'Calls',
      summary: 'Search calls',
      description:
        'Calls that meet all conditions, newest first, page by page with a cursor. Calls that begin meanwhile do not shift the pages. Use `GET /v1/calls` for totals.',
      access: 'member',
      query: searchQuery,
      answer: { status: 200, description: 'One page.', schema: ref('CallPage') },
      handle: async ({ query, caller }) => {
        const { limit, cursor } = query;
        const calls = await find(
          caller.scope,
          filterOf(query),
          cursor === undefined ? null : placeOf(cursor),
          limit + 1,
        );
        const shown = calls.slice(0, limit);
        const last = calls.length > limit ? shown.at(-1) : undefined;
        return {
          data: shown.map((call) => presentCall(call, recordingUrls)),
          next_cursor: last ? cursorOf(last) : null,
        };
      },
    }),
    route({
      method: 'GET',
      path: '/v1/calls/export',
      operationId: 'exportCalls',
      tag: 'Calls',
      summary: 'Export calls',
      description:
        'The calls that meet all conditions as CSV (RFC 4180), newest first, at most 100,000. A text that a spreadsheet would run as a formula has an apostrophe before it.',
      access: 'member',
      query: exportQuery,
      answer: {
        status: 200,
        description: 'The file.',
        schema: Type.String({ description: 'CSV.' }),
        contentType: 'text/csv',
      },
      handle: async ({ query, caller, reply }) => {
        const filter = filterOf(query);
        const first = await find(caller.scope, filter, null, exportedAtOnce); // a refusal must come before the first byte
        async function* lines() {
          yield `${columns.join(',')}\r\n`;
          let calls = first;
          for (let sent = 0; calls.length > 0; ) {
            yield calls.map((call) => sampleFormatOf(presentCall(call, recordingUrls))).join('');
            sent += calls.length;
            const last = calls.at(-1);
            if (!last || calls.length < exportedAtOnce || sent >= exportedAtMost) return;
            calls = await find(
              caller.scope,
              filter,
              { createdMs: last.createdAt.getTime(), id: last.id },
              exportedAtOnce,
            );
          }
        }
        reply
          .type('text/csv; charset=utf-8')
          .header('content-disposition', 'attachment; filename="calls.csv"')
          .send(Readable.from(lines()));
        return reply;
      },
    }),
  ];
}

interface AskedFilter {
  status?: CallSearchFilter['status'];
  direction?: CallSearchFilter['direction'];
  phone_number_id?: string;
  endpoint_id?: string;
  hangup_cause?: CallSearchFilter['hangupCause'];
  number?: string;
  text?: string;
  min_duration?: number;
  max_duration?: number;
  start_date?: string;
  end_date?: string;
  from_time?: string;
  until_time?: string;
}

/** Throws 400. */
function filterOf(asked: AskedFilter): CallSearchFilter {
  const days = askedDays(asked);
  return {
    status: asked.status,
    direction: asked.direction,
    phoneNumberId: asked.phone_number_id?.toLowerCase(),
    endpointId: asked.endpoint_id?.toLowerCase(),
    hangupCause: asked.hangup_cause,
    number: asked.number && numberOf(asked.number),
    text: asked.text,
    minDurationSec: asked.min_duration,
    maxDurationSec: asked.max_duration,
    fromMs: days?.firstDay === undefined ? undefined : days.firstDay * dayMs,
    beforeMs: days?.lastDay === undefined ? undefined : (days.lastDay + 1) * dayMs,
    fromMinute: minuteOf(asked.from_time),
    untilMinute: minuteOf(asked.until_time),
  };
}

/** The beginning of a phone number without what people write between its digits; other texts stay as they are. */
function numberOf(asked: string): string {
  const bare = asked.replace(/[ .()-]/g, '');
  return /^\+?\d+$/.test(bare) ? bare : asked;
}

function minuteOf(time: string | undefined): number | undefined {
  if (time === undefined) return undefined;
  const [hours = 0, minutes = 0] = time.split(':').map(Number);
  return hours * 60 + minutes;
}

function cursorOf({ createdAt, id }: CallSummary): string {
  return Buffer.from(`${createdAt.getTime()} ${id}`).toString('base64url');
}

/** Throws 400. */
function placeOf(cursor: string): CallPlace {
  const [, createdMs, id] = /^(\d{1,15}) ([0-9a-f-]{36})$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? [];
  if (createdMs === undefined || id === undefined)
    throw invalid({ path: 'cursor', message: 'must be the next_cursor of the page before' });
  return { createdMs: Number(createdMs), id };
}

function sampleFormatOf(call: ReturnType<typeof presentCall>): string {
  return `${columns.map((name) => cellOf(call[name])).join(',')}\r\n`;
}

/** A cell of RFC 4180. Phone numbers keep their plus; other texts that begin like a formula get an apostrophe. */
function cellOf(value: string | number | null): string {
  if (value === null) return '';
  const text = String(value);
  const harmless = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) && !/^\+\d+$/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}
