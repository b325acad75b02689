import type { CallDetail } from '../../../store/calls/call-records.js';
import type { Store } from '../../../store/store.js';
import { notFound } from '../../errors.js';
import { explainCall } from '../../present/explain-call.js';
import { presentAccount, presentCall } from '../../present/present.js';
import type { RecordingUrls } from '../../recordings/recording-urls.js';
import { trendDays } from '../../request/days.js';
import { type Route, route } from '../../route.js';
import { insightsOfDays } from '../../schemas/insights.js';
import { idParams, nullable, oneOf, ref, Type, uuid } from '../../schemas/types.js';
import { presentDays } from './insights.js';

const hops = ['caller', 'callee', 'carrier', 'network', 'trunkline', 'routing', 'account', 'agent', 'webhook'] as const;

const explanation = Type.Object(
  {
    summary: Type.String({ description: 'What happened, in one sentence.' }),
    hop: nullable<string>(
      oneOf(hops, {
        description: 'The hop that caused the end; null while the call is in progress, or if nothing went wrong.',
      }),
    ),
    advice: nullable<string>(Type.String({ description: 'What to do about it; null if there is nothing to do.' })),
  },
  { $id: 'CallExplanation', additionalProperties: false },
);

const health = oneOf(['unknown', 'healthy', 'degraded', 'down'], { description: 'The observed health.' });
const member = (more: Record<string, ReturnType<typeof Type.String>>) =>
  Type.Object(
    { id: uuid('The id of the record.'), name: Type.String({ description: 'Its name.' }), ...more, health },
    { additionalProperties: false },
  );

const overview = Type.Object(
  {
    live: Type.Array(
      Type.Object({ call: ref('Call'), explanation: ref('CallExplanation') }, { additionalProperties: false }),
      { description: 'The running calls, newest first, at most 50.' },
    ),
    live_total: Type.Integer({ description: 'The number of running calls.' }),
    days: Type.Unsafe<unknown>({ ...ref('CallTrends'), description: 'The calls by status of the last 30 UTC days.' }),
    insights: Type.Object(insightsOfDays, {
      additionalProperties: false,
      description: 'The figures of the last 30 UTC days.',
    }),
    audio_delay_ms: nullable<object>(
      Type.Object(
        {
          count: Type.Integer({ description: 'The number of calls that measured it.' }),
          p50: Type.Number({ description: 'The median, in milliseconds.' }),
          p95: Type.Number({ description: 'The 95th percentile, in milliseconds.' }),
        },
        {
          additionalProperties: false,
          description:
            'The delay that this server added to the audio, both ways, median of each of the last 200 completed calls; null if never measured.',
        },
      ),
    ),
    failures: Type.Array(
      Type.Object({ call: ref('Call'), explanation: ref('CallExplanation') }, { additionalProperties: false }),
      { description: 'The last failed calls, newest first, at most 8.' },
    ),
    endpoints: Type.Array(
      member({
        type: oneOf(['agent', 'webhook'], { description: 'The type.' }) as never,
        status: oneOf(['active', 'inactive'], { description: 'Whether it is in use.' }) as never,
      }),
      { description: 'The newest 100 endpoints with their health.' },
    ),
    trunks: Type.Array(
      member({ status: oneOf(['active', 'inactive'], { description: 'Whether it is in use.' }) as never }),
      {
        description: 'The newest 100 trunks with their health.',
      },
    ),
    organization: ref('Organization'),
  },
  { $id: 'Overview', additionalProperties: false },
);

export const overviewSchemas = [explanation, overview];

export function overviewRoutes({
  store,
  recordingUrls,
  now,
}: {
  store: Store;
  recordingUrls: RecordingUrls;
  now: () => number;
}): Route[] {
  const explained = (call: CallDetail) => ({ call: presentCall(call, recordingUrls), explanation: explainCall(call) });
  return [
    route({
      method: 'GET',
      path: '/v1/overview',
      operationId: 'getOverview',
      tag: 'Calls',
      summary: 'Get an overview',
      description:
        'How the calls of the organization are doing, in one answer: running calls, calls by day, figures of 30 days, the last failures with their reasons, the health of endpoints and trunks, and the balance.',
      access: 'member',
      answer: { status: 200, description: 'The overview.', schema: ref('Overview') },
      handle: async ({ caller }) => {
        const { scope, organization } = caller;
        const slice = { limit: 100, offset: 0 };
        const days = trendDays(null, now());
        await store.calls.flush();
        const read = await store.longReads.ask('overview', scope, days);
        const { insights } = read;
        return {
          live: read.live.map(explained),
          live_total: read.liveTotal,
          days: read.days,
          insights: presentDays(days, insights),
          audio_delay_ms: spread(read.audioDelaysMs),
          failures: read.failures.map(explained),
          endpoints: (await store.endpoints.list(scope, {}, slice)).data.map(({ id, name, type, status, health }) => ({
            id,
            name,
            type,
            status,
            health,
          })),
          trunks: (await store.trunks.list({ ...scope, shared: caller.user.platformOwner }, {}, slice)).data.map(
            ({ id, name, status, health }) => ({ id, name, status, health }),
          ),
          organization: presentAccount(organization, await store.accounts.balance(organization.id)),
        };
      },
    }),
    route({
      method: 'GET',
      path: '/v1/calls/:id/explanation',
      operationId: 'getCallExplanation',
      tag: 'Calls',
      summary: 'Explain a call',
      description: 'What happened in the call, in one sentence, the hop that caused its end, and what to do about it.',
      access: 'member',
      params: idParams,
      answer: { status: 200, description: 'The explanation.', schema: ref('CallExplanation') },
      handle: async ({ params, caller }) => {
        const call = await store.records.detail(caller.scope, params.id.toLowerCase());
        if (!call) throw notFound('Call');
        return explainCall(call);
      },
    }),
  ];
}

/** Percentiles by nearest rank; null without values. */
function spread(sorted: readonly number[]) {
  if (sorted.length === 0) return null;
  const at = (share: number) => sorted[Math.ceil(share * sorted.length) - 1] ?? 0;
  return { count: sorted.length, p50: at(0.5), p95: at(0.95) };
}
