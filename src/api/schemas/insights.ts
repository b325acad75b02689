import { body, nullable, Type, uuid } from './types.js';

const spread = (description: string, unit: string) =>
  nullable<object>(
    Type.Object(
      {
        count: Type.Integer({ description: 'How often it was measured.' }),
        p5: Type.Number({ description: `One in twenty is no more than this, ${unit}.` }),
        p50: Type.Number({ description: `Half are no more than this, ${unit}.` }),
        p95: Type.Number({ description: `19 of 20 are no more than this, ${unit}.` }),
        p99: Type.Number({ description: `99 of 100 are no more than this, ${unit}.` }),
      },
      { additionalProperties: false, description: `${description} null: never measured.` },
    ),
  );

const figures = {
  calls: Type.Integer({ description: 'Calls that have ended.' }),
  answered: Type.Integer({ description: 'Of these, how many were answered.' }),
  answer_rate: nullable<number>(
    Type.Number({ minimum: 0, maximum: 1, description: '`answered` of `calls`; null without calls.' }),
  ),
  mos: spread('Mean opinion score of calls.', 'from 1 to 5'),
  turn_latency_ms: spread(
    "From the caller's last word to the agent's first, of every turn, within 2.5 % or 5 ms.",
    'in milliseconds',
  ),
};
const insight = (of: object) => Type.Object({ ...of, ...figures }, { additionalProperties: false });

const callInsights = Type.Object(
  {
    start_date: Type.String({ format: 'date', description: 'First UTC day of `created_at`.' }),
    end_date: Type.String({ format: 'date', description: 'Last UTC day.' }),
    total: Type.Object(figures, { additionalProperties: false, description: 'All calls of these days.' }),
    by_day: Type.Array(insight({ date: Type.String({ format: 'date', description: 'A UTC day.' }) }), {
      description: 'One item per day, ascending, also for days without calls.',
    }),
    by_endpoint: Type.Array(insight({ endpoint_id: uuid('The endpoint that handled the calls.') }), {
      description: 'Most calls first; calls that reached no endpoint are in `total` alone.',
    }),
    by_trunk: Type.Array(insight({ trunk_id: uuid('The trunk that carried the calls.') }), {
      description: 'Most calls first; calls without a trunk are in `total` alone.',
    }),
  },
  { $id: 'CallInsights', additionalProperties: false },
);

export const insightSchemas = [callInsights];

export const insightsQuery = body({
  start_date: Type.Optional(
    Type.String({ format: 'date', description: 'First UTC day of `created_at`. Alone, it begins a span of 30 days.' }),
  ),
  end_date: Type.Optional(
    Type.String({ format: 'date', description: 'Last UTC day of `created_at`. Alone, it ends a span of 30 days.' }),
  ),
});
