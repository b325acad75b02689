import { hangupCauses } from '../../../sip/cause.js';
import { maxRedactionSec } from '../../webhook/actions.js';
import { patterns } from './patterns.js';
import { body, freeObject, nullable, oneOf, ref, Type, time, uuid } from './types.js';

export const statuses = ['completed', 'failed', 'in_progress', 'no_answer', 'busy'] as const;
const directions = ['inbound', 'outbound'] as const;

const callFields = {
  id: uuid('The id of the call.'),
  from_number: Type.String({
    description: 'The calling number as received: usually E.164, but `anonymous` and short numbers occur.',
  }),
  to_number: Type.String({ description: 'The called number.' }),
  direction: oneOf(directions, { description: 'The direction, as seen from the organization.' }),
  status: oneOf(statuses, {
    description: '`in_progress` from creation. One of the other values is set once, when the call ends, and is final.',
  }),
  duration: Type.Integer({ description: 'Whole seconds from answer to end; 0 if the call was never answered.' }),
  cost: Type.Number({ description: 'The cost of the call in cents.' }),
  latency_ms: Type.Integer({
    description:
      'Milliseconds from the INVITE until the call was answered and its media path was open; 0 if the call was never answered.',
  }),
  phone_number_id: uuid("The organization's number in this call; only zeros if a name called an address."),
  endpoint_id: nullable<string>(uuid('The endpoint that handled the call.')),
  recording_url: nullable<string>(
    Type.String({
      format: 'uri',
      description:
        'A URL that serves the recording without an API key for one to two hours; null while there is no recording.',
    }),
  ),
  hangup_cause: nullable<string>(
    oneOf(hangupCauses, { description: 'Why the call ended; null while it is in progress.' }),
  ),
  organization_id: uuid('The organization that owns the call.'),
  created_at: time('When the INVITE was received, or when the outbound call was requested.'),
  answered_at: nullable<string>(time('When the call was answered.')),
  completed_at: nullable<string>(time('When the call ended.')),
};

const callSchema = Type.Object(callFields, { $id: 'Call', additionalProperties: false });

const callEvent = Type.Object(
  {
    id: uuid('The id of the event.'),
    event_type: Type.String({
      description:
        'The type, such as `call.answered`; dotted, lower case, past tense. "Events" lists all types; more may be added.',
    }),
    event_data: Type.Object(
      {},
      { additionalProperties: true, description: 'The data of the event; its fields depend on the type.' },
    ),
    created_at: time('When the event happened. Never decreases within a call.'),
    sequence: Type.Integer({ minimum: 1, description: 'The number of the event within its call, without gaps.' }),
  },
  { $id: 'CallEvent', additionalProperties: false },
);

const hopDelay = (description: string) =>
  nullable<object>(
    Type.Object(
      {
        p50_ms: Type.Number({ description: 'The median in milliseconds.' }),
        p95_ms: Type.Number({ description: 'The 95th percentile in milliseconds.' }),
        worst_ms: Type.Number({ description: 'The largest value in milliseconds.' }),
      },
      { description: `${description}; null if not measured.` },
    ),
  );

const tokenCount = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 0, description: `${description}; absent if the provider does not tell.` }));

const qualityMetrics = Type.Object(
  {
    mos: Type.Optional(Type.Number({ minimum: 1, maximum: 5, description: 'Mean opinion score.' })),
    jitter_ms: Type.Optional(
      Type.Integer({
        description:
          'Mean jitter of the call in milliseconds; in a sample, the mean up to that time. `received.jitter_ms` is the last interarrival jitter (RFC 3550), `received.jitter_max_ms` its maximum.',
      }),
    ),
    packet_loss: Type.Optional(Type.Number({ minimum: 0, maximum: 100, description: 'Packet loss in percent.' })),
    late_packets: Type.Optional(
      Type.Object(
        {
          garbage_collection: Type.Integer({ description: 'The thread collected garbage.' }),
          waiting_for_core: Type.Integer({ description: 'Other threads or processes had the cores.' }),
          own_work: Type.Integer({ description: 'The thread was busy with other calls.' }),
          stopped: Type.Integer({ description: 'The process or the machine stood still.' }),
          agent: Type.Optional(Type.Integer({ description: "The agent's audio came late, and was waited for." })),
          unknown: Type.Optional(Type.Integer({ description: 'None of these.' })),
        },
        {
          description:
            'Packets that the gateway sent 19 ms late or later, which is a gap of 40 ms, by cause: because its media thread was late, or the agent. Absent if there were none.',
        },
      ),
    ),
    echo: Type.Optional(
      Type.Object(
        {
          delay_ms: Type.Integer({
            description: "From the gateway's packet with the agent's audio to the phone's packet with its echo.",
          }),
          return_loss_db: Type.Integer({ description: 'By how much the echo is softer than what was sent (G.168).' }),
          suppressed: Type.Integer({ description: "How often it would have been taken for the caller's speech." }),
          removed_db: Type.Optional(
            Type.Integer({
              description:
                'By how much softer the agent heard it than it arrived (G.168, ERLE), with `remove_echo` of the endpoint. Absent if none was removed.',
            }),
          ),
        },
        { description: "The agent's own voice in the caller's audio. Absent if none was found." },
      ),
    ),
    tokens: Type.Optional(
      Type.Array(
        Type.Object({
          provider: Type.String({ description: 'The provider of the agent.' }),
          input: tokenCount('All of the input, with what was read again for each answer'),
          input_text: tokenCount('Text of the input'),
          input_audio: tokenCount('Audio of the input'),
          cached: tokenCount('The part of the input that was cached'),
          output: tokenCount('All of the output'),
          output_text: tokenCount('Text of the output'),
          output_audio: tokenCount('Audio of the output'),
          thoughts: tokenCount('The part of the output that nobody heard'),
        }),
        {
          description:
            'Tokens that the providers of the call counted, one entry for each. Only in the record of an ended call; absent if no provider told any.',
        },
      ),
    ),
    audio_delay: Type.Optional(
      Type.Object(
        {
          caller_network: hopDelay("Round trip between the gateway and the caller's phone, from RTCP"),
          gateway_uplink: hopDelay(
            "From the arrival of the caller's packet until its audio goes to the agent: reordering and a late thread",
          ),
          agent_thinking: hopDelay("From the caller's last word to the agent's first, over all turns"),
          gateway_playout: hopDelay(
            "From the arrival of the agent's audio until it is sent; of agents that send ahead only the first audio of each utterance",
          ),
          blame: nullable<string>(
            Type.String({
              description:
                'One sentence that names the hop with the largest excess at p95 (limits: network 300 ms, uplink 40 ms, thinking 1500 ms, playout 40 ms); null when no limit was passed.',
            }),
          ),
        },
        { description: 'Where the delay of the conversation comes from. Only in the record of an ended call.' },
      ),
    ),
  },
  {
    additionalProperties: true,
    description: 'A metric that could not be measured is absent; additional metrics may be present.',
  },
);

const callDetail = Type.Object(
  {
    ...callFields,
    quality_metrics: qualityMetrics,
    events: Type.Array(ref('CallEvent'), { description: 'The events of the call, in order.' }),
    transcript: nullable<string>(Type.String({ description: 'The transcript; null if the call was not transcribed.' })),
    sip_call_id: nullable<string>(Type.String({ description: 'The Call-ID of the SIP dialog.' })),
    hangup_source: nullable<string>(
      oneOf(['caller', 'callee', 'agent', 'api', 'system'], {
        description: 'The party that ended the call; null while it is in progress.',
      }),
    ),
    ring_seconds: nullable<number>(Type.Integer({ description: 'How many seconds the call rang.' })),
    timings: Type.Object(
      {
        setup_ms: Type.Optional(Type.Integer({ description: 'Milliseconds from the INVITE to the final response.' })),
        post_dial_delay_ms: Type.Optional(
          Type.Integer({ description: 'Milliseconds from the INVITE to the first ringing.' }),
        ),
        answer_to_first_audio_ms: Type.Optional(
          Type.Integer({ description: 'Milliseconds from the answer to the first audio of the agent.' }),
        ),
      },
      { description: 'The timings of the call; a time that was not measured is absent.' },
    ),
    turns: Type.Array(
      Type.Object({
        started_at: time('When the speaker began to speak.'),
        speaker: oneOf(['caller', 'agent']),
        duration_ms: Type.Integer({ description: 'The duration of the turn in milliseconds.' }),
        response_ms: nullable<number>(
          Type.Integer({
            description:
              'Milliseconds from the end of speech of the other party to the start of this turn; null if not measured.',
          }),
        ),
      }),
      { description: 'The turns of the conversation, by speaker.' },
    ),
    metadata: Type.Unsafe<unknown>({
      type: ['object', 'null'],
      additionalProperties: true,
      description: 'The metadata given at the start of the call.',
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
  { $id: 'CallTrends', description: 'One item per day, in ascending order, including days without calls.' },
);

const callList = Type.Object(
  {
    data: Type.Array(ref('Call'), { description: 'Newest first.' }),
    total: Type.Integer({ description: 'The number of calls that match the filters.' }),
    page: Type.Integer({ description: 'The requested page.' }),
    limit: Type.Integer({ description: 'The requested page size.' }),
    total_pages: Type.Integer({ description: 'The number of pages; 0 if there are no calls.' }),
  },
  { $id: 'CallList', additionalProperties: false },
);

const callTrace = Type.Object(
  {
    call_id: uuid('The call.'),
    sip_call_id: nullable<string>(Type.String({ description: 'The Call-ID of the SIP dialog of the call.' })),
    messages: Type.Array(
      Type.Object({
        at: time('When the message was sent or received.'),
        direction: oneOf(['received', 'sent'], { description: 'The direction, as seen from this server.' }),
        peer: Type.Unsafe<unknown>({
          type: ['object', 'null'],
          properties: { transport: { type: 'string' }, address: { type: 'string' }, port: { type: 'integer' } },
          description: 'The remote peer.',
        }),
        message: Type.String({ description: 'The message as on the wire; credentials are masked.' }),
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
        {
          at: time('When the sample was taken.'),
          recent_audio_delay: Type.Optional(
            Type.Object(
              {
                caller_network: hopDelay("Round trip between the gateway and the caller's phone"),
                gateway_uplink: hopDelay("From the arrival of the caller's packet until its audio goes to the agent"),
                gateway_playout: hopDelay("From the arrival of the agent's audio until it is sent"),
              },
              { description: 'Delay by hop since the sample before. Absent if none was measured.' },
            ),
          ),
        },
        {
          additionalProperties: true,
          description:
            'The metrics of `quality_metrics`, cumulative from the start of the call, and the delay since the sample before.',
        },
      ),
      { description: 'One sample every 5 seconds, oldest first; empty while the call is in progress.' },
    ),
  },
  { $id: 'CallQuality', additionalProperties: false },
);

export const callSchemas = [callQuality, callSchema, callEvent, callDetail, callStats, callTrends, callList, callTrace];

export const callsQuery = body({
  page: Type.Integer({ minimum: 1, default: 1, description: 'The page number, from 1. A page past the end is empty.' }),
  limit: Type.Integer({ minimum: 1, maximum: 100, default: 20, description: 'The number of calls per page.' }),
  action: Type.Optional(
    oneOf(['stats', 'trends'], {
      description: 'Returns counts by status (`stats`), or by day and status (`trends`), instead of the list.',
    }),
  ),
  status: Type.Optional(oneOf(statuses, { description: 'Only calls with this status.' })),
  direction: Type.Optional(oneOf(directions, { description: 'Only calls in this direction.' })),
  phone_number_id: Type.Optional(uuid('Only calls of this number.')),
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

export const dtmfBody = body({
  digits: Type.String({
    pattern: patterns.keys,
    description: 'The keys to send: `0-9 A-D * #`; `w` is a pause of half a second.',
  }),
});

export const redactBody = body({
  on: Type.Boolean({ description: 'Whether the passage begins or ends.' }),
  max_s: Type.Optional(
    Type.Number({
      minimum: 1,
      maximum: maxRedactionSec,
      description: 'The passage ends by itself after this many seconds. Default 300.',
    }),
  ),
  transcript: Type.Optional(
    oneOf(['numbers', 'all'], {
      description: 'Whether the transcript loses numbers, as digits and as words, or all words. Default `numbers`.',
    }),
  ),
  streams: Type.Optional(
    Type.Boolean({
      description: 'Whether streams that only listen (`<Start><Stream>`) get silence too. Default false.',
    }),
  ),
});

export const transferBody = body({
  to: Type.String({
    minLength: 1,
    maxLength: 256,
    description: 'The transfer target: a phone number in E.164, or a `sip:`, `sips:` or `tel:` URI.',
  }),
});

export const redirectBody = body({
  url: Type.Optional(
    Type.String({
      maxLength: 2048,
      description: 'An http(s) URL that is requested for the next actions, in the same way as the webhook.',
    }),
  ),
  actions: Type.Optional(
    Type.Array(freeObject('An action, as in a webhook response; its URLs must be absolute.'), {
      maxItems: 100,
      description: 'The new actions, in order.',
    }),
  ),
});

export const traceQuery = body({
  format: oneOf(['json', 'text', 'pcap'], {
    default: 'json',
    description: 'The format: a JSON list of messages, plain text, or a capture file for Wireshark.',
  }),
});
