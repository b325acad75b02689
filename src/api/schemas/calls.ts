import { hangupCauses } from '../../../sip/cause.js';
import { body, freeObject, nullable, oneOf, ref, Type, time, uuid } from './types.js';

export const statuses = ['completed', 'failed', 'in_progress', 'no_answer', 'busy'] as const;
const directions = ['inbound', 'outbound'] as const;

const callFields = {
  id: uuid('The id of the call.'),
  from_number: Type.String({
    description: 'Who called, as it came: usually E.164, but `anonymous` and short numbers occur.',
  }),
  to_number: Type.String({ description: 'Who was called.' }),
  direction: oneOf(directions, { description: 'Seen from the organization.' }),
  status: oneOf(statuses, {
    description: '`in_progress` from creation; one of the others once, at the end, for good.',
  }),
  duration: Type.Integer({ description: 'Whole seconds from answer to end; 0 if never answered.' }),
  cost: Type.Number({ description: 'Cents.' }),
  latency_ms: Type.Integer({
    description:
      'Milliseconds from the INVITE until the call was answered and its media path open; 0 if never answered.',
  }),
  phone_number_id: uuid("The organization's number in this call."),
  endpoint_id: nullable<string>(uuid('The endpoint that handled it.')),
  recording_url: nullable<string>(
    Type.String({
      format: 'uri',
      description: 'Where the recording can be had without a key, for an hour or two; null while there is none.',
    }),
  ),
  hangup_cause: nullable<string>(oneOf(hangupCauses, { description: 'Why it ended; null while it runs.' })),
  organization_id: uuid('Whose call it is.'),
  created_at: time('When the INVITE came, or the call was asked for.'),
  answered_at: nullable<string>(time('When it was answered.')),
  completed_at: nullable<string>(time('When it ended.')),
};

const callSchema = Type.Object(callFields, { $id: 'Call', additionalProperties: false });

const callEvent = Type.Object(
  {
    id: uuid('The id of the event.'),
    event_type: Type.String({
      description: 'Such as `call.answered`; dotted, lower case, past tense. "Events" lists all; more may be added.',
    }),
    event_data: Type.Object({}, { additionalProperties: true, description: 'What belongs to this kind of event.' }),
    created_at: time('When it happened. Never runs backwards within a call.'),
    sequence: Type.Integer({ minimum: 1, description: 'Counts the events of a call, without gaps.' }),
  },
  { $id: 'CallEvent', additionalProperties: false },
);

const qualityMetrics = Type.Object(
  {
    mos: Type.Optional(Type.Number({ minimum: 1, maximum: 5, description: 'Mean opinion score.' })),
    jitter_ms: Type.Optional(
      Type.Integer({
        description:
          'Mean of the call, in milliseconds; in a sample: until then. `received.jitter_ms` is the last value of RFC 3550, `received.jitter_max_ms` its maximum.',
      }),
    ),
    packet_loss: Type.Optional(Type.Number({ minimum: 0, maximum: 100, description: 'Percent.' })),
  },
  {
    additionalProperties: true,
    description: 'A figure that could not be measured is absent; more figures may be there.',
  },
);

const callDetail = Type.Object(
  {
    ...callFields,
    quality_metrics: qualityMetrics,
    events: Type.Array(ref('CallEvent'), { description: 'In their order.' }),
    transcript: nullable<string>(Type.String({ description: 'What was said, if it was written down.' })),
    sip_call_id: nullable<string>(Type.String({ description: 'The Call-ID of the SIP dialog.' })),
    hangup_source: nullable<string>(
      oneOf(['caller', 'callee', 'agent', 'api', 'system'], { description: 'Who ended it; null while it runs.' }),
    ),
    ring_seconds: nullable<number>(Type.Integer({ description: 'How long it rang.' })),
    timings: Type.Object(
      {
        setup_ms: Type.Optional(Type.Integer({ description: 'INVITE to final answer.' })),
        post_dial_delay_ms: Type.Optional(Type.Integer({ description: 'INVITE to the first ringing.' })),
        answer_to_first_audio_ms: Type.Optional(
          Type.Integer({ description: 'Answer to the first sound of the agent.' }),
        ),
      },
      { description: 'A time that was not measured is absent.' },
    ),
    turns: Type.Array(
      Type.Object({
        started_at: time('When the speaker began.'),
        speaker: oneOf(['caller', 'agent']),
        duration_ms: Type.Integer({ description: 'How long they spoke.' }),
        response_ms: nullable<number>(Type.Integer({ description: "From the end of the other's words." })),
      }),
      { description: 'Who spoke when.' },
    ),
    metadata: Type.Unsafe<unknown>({
      type: ['object', 'null'],
      additionalProperties: true,
      description: 'As given at the start of the call.',
    }),
  },
  { $id: 'CallDetail', additionalProperties: false },
);

const counts = Object.fromEntries(
  statuses.map((status) => [status, Type.Integer({ description: `Calls with status \`${status}\`.` })]),
);

const callStats = Type.Object(counts, { $id: 'CallStats', additionalProperties: false });

const callTrends = Type.Array(
  Type.Object(
    { date: Type.String({ format: 'date', description: 'A UTC day.' }), ...counts },
    { additionalProperties: false },
  ),
  { $id: 'CallTrends', description: 'One item per day, ascending, also for days without calls.' },
);

const callList = Type.Object(
  {
    data: Type.Array(ref('Call'), { description: 'Newest first.' }),
    total: Type.Integer({ description: 'How many calls fit the filters.' }),
    page: Type.Integer({ description: 'As asked.' }),
    limit: Type.Integer({ description: 'As asked.' }),
    total_pages: Type.Integer({ description: '0 when there are no calls.' }),
  },
  { $id: 'CallList', additionalProperties: false },
);

const callTrace = Type.Object(
  {
    call_id: uuid('The call.'),
    sip_call_id: nullable<string>(Type.String({ description: 'The Call-ID of its SIP dialog.' })),
    messages: Type.Array(
      Type.Object({
        at: time('When it passed.'),
        direction: oneOf(['received', 'sent'], { description: 'Seen from this server.' }),
        peer: Type.Unsafe<unknown>({
          type: ['object', 'null'],
          properties: { transport: { type: 'string' }, address: { type: 'string' }, port: { type: 'integer' } },
          description: 'The other side.',
        }),
        message: Type.String({ description: 'The message as on the wire; credentials are blanked.' }),
      }),
      { description: 'Oldest first.' },
    ),
  },
  { $id: 'CallTrace' },
);

const callQuality = Type.Object(
  {
    call_id: uuid('The call.'),
    samples: Type.Array(
      Type.Object(
        { at: time('When the figures were read.') },
        { additionalProperties: true, description: 'Figures as in `quality_metrics`, from the start of the call.' },
      ),
      { description: 'Every 5 seconds, oldest first; empty while the call runs.' },
    ),
  },
  { $id: 'CallQuality', additionalProperties: false },
);

export const callSchemas = [callQuality, callSchema, callEvent, callDetail, callStats, callTrends, callList, callTrace];

export const callsQuery = body({
  page: Type.Integer({ minimum: 1, default: 1, description: 'Which page, from 1. A page past the end is empty.' }),
  limit: Type.Integer({ minimum: 1, maximum: 100, default: 20, description: 'How many calls on a page.' }),
  action: Type.Optional(
    oneOf(['stats', 'trends'], { description: 'Counts by status, or counts by day and status, instead of the list.' }),
  ),
  status: Type.Optional(oneOf(statuses, { description: 'Only calls of this status.' })),
  direction: Type.Optional(oneOf(directions, { description: 'Only calls of this direction.' })),
  phone_number_id: Type.Optional(uuid('Only calls of this number.')),
  start_date: Type.Optional(
    Type.String({ format: 'date', description: 'First UTC day of `created_at`. Alone, it begins a span of 30 days.' }),
  ),
  end_date: Type.Optional(
    Type.String({ format: 'date', description: 'Last UTC day of `created_at`. Alone, it ends a span of 30 days.' }),
  ),
});

export const dtmfBody = body({
  digits: Type.String({
    pattern: '^[0-9A-Da-d*#w]{1,64}$',
    description: 'Keys `0-9 A-D * #`; `w` is a pause of half a second.',
  }),
});

export const transferBody = body({
  to: Type.String({
    minLength: 1,
    maxLength: 256,
    description: 'A phone number in E.164, or a `sip:`, `sips:` or `tel:` URI.',
  }),
});

export const redirectBody = body({
  url: Type.Optional(
    Type.String({ maxLength: 2048, description: 'An http(s) URL that is asked what to do next, as the webhook is.' }),
  ),
  actions: Type.Optional(
    Type.Array(freeObject('An action, as in the answer of a webhook; URLs absolute.'), {
      maxItems: 100,
      description: 'What to do instead, in order.',
    }),
  ),
});

export const traceQuery = body({
  format: oneOf(['json', 'text', 'pcap'], {
    default: 'json',
    description: 'A list of messages, a page to read, or a capture file for Wireshark.',
  }),
});
