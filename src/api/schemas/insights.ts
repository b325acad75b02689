import { body, nullable, Type, uuid } from './types.js';

const spread = (description: string, unit: string) =>
  nullable<object>(
    Type.Object(
      {
        count: Type.Integer({ description: 'The number of measurements.' }),
        p5: Type.Number({ description: `The 5th percentile, ${unit}.` }),
        p50: Type.Number({ description: `The median, ${unit}.` }),
        p95: Type.Number({ description: `The 95th percentile, ${unit}.` }),
        p99: Type.Number({ description: `The 99th percentile, ${unit}.` }),
      },
      { additionalProperties: false, description: `${description} null if never measured.` },
    ),
  );

const figures = {
  calls: Type.Integer({ description: 'The number of calls that have ended.' }),
  answered: Type.Integer({ description: 'The number of these calls that were answered.' }),
  answer_rate: nullable<number>(
    Type.Number({ minimum: 0, maximum: 1, description: '`answered` divided by `calls`; null without calls.' }),
  ),
  mos: spread('Distribution of the mean opinion score of calls.', 'from 1 to 5'),
  turn_latency_ms: spread(
    "Distribution of the time from the caller's last word to the agent's first, over all turns, accurate to 2.5 % or 5 ms.",
    'in milliseconds',
  ),
  audio_delay: Type.Object(
    {
      caller_network_ms: spread("Distribution of the calls' p95 of the round trip to the phone.", 'in milliseconds'),
      gateway_uplink_ms: spread(
        "Distribution of the calls' p95 of the gateway's delay to the agent.",
        'in milliseconds',
      ),
      gateway_playout_ms: spread(
        "Distribution of the calls' p95 of the gateway's delay to the phone.",
        'in milliseconds',
      ),
    },
    {
      additionalProperties: false,
      description:
        "Where calls are delayed, from `quality_metrics.audio_delay`; the agent's part is `turn_latency_ms`.",
    },
  ),
};
const insight = (of: object) => Type.Object({ ...of, ...figures }, { additionalProperties: false });

/** The figures of all calls of a period. */
export const insightsOfDays = {
  total: Type.Object(figures, {
    additionalProperties: false,
    description: 'The figures of all calls of the period.',
  }),
  by_day: Type.Array(insight({ date: Type.String({ format: 'date', description: 'A UTC day.' }) }), {
    description: 'One item per day, in ascending order, including days without calls.',
  }),
};

const callInsights = Type.Object(
  {
    start_date: Type.String({ format: 'date', description: 'The first UTC day of `created_at`.' }),
    end_date: Type.String({ format: 'date', description: 'The last UTC day of `created_at`.' }),
    ...insightsOfDays,
    by_endpoint: Type.Array(insight({ endpoint_id: uuid('The endpoint that handled the calls.') }), {
      description: 'Endpoints with the most calls first; calls that reached no endpoint count in `total` only.',
    }),
    by_trunk: Type.Array(insight({ trunk_id: uuid('The trunk that carried the calls.') }), {
      description: 'Trunks with the most calls first; calls without a trunk count in `total` only.',
    }),
  },
  { $id: 'CallInsights', additionalProperties: false },
);

export const insightSchemas = [callInsights];

export const insightsQuery = body({
  start_date: Type.Optional(
    Type.String({
      format: 'date',
      description: 'The first UTC day of `created_at`. Without `end_date`, it begins a period of 30 days.',
    }),
  ),
  end_date: Type.Optional(
    Type.String({
      format: 'date',
      description: 'The last UTC day of `created_at`. Without `start_date`, it ends a period of 30 days.',
    }),
  ),
});
