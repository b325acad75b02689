import { body, nullable, oneOf, Type } from './types.js';

const share = (description: string) => Type.Optional(Type.Number({ minimum: 0, maximum: 100, description }));

export const simulatedCallBody = body({
  to: Type.String({ maxLength: 64, description: "One of the organization's phone numbers, in E.164." }),
  from: Type.String({ maxLength: 64, default: '+15005550001', description: 'The caller id.' }),
  duration_ms: Type.Integer({
    minimum: 100,
    maximum: 60_000,
    default: 5_000,
    description: 'The caller hangs up this long after the answer.',
  }),
  ring_timeout_ms: Type.Integer({
    minimum: 1_000,
    maximum: 60_000,
    default: 30_000,
    description: 'The caller gives up when nobody answers for this long.',
  }),
  codec: Type.Optional(
    oneOf(['PCMU', 'PCMA', 'G722', 'OPUS'], { description: 'The only one offered. Absent: PCMU and PCMA.' }),
  ),
  digits: Type.Optional(
    Type.String({
      pattern: '^[0-9A-Da-d*#w]{1,64}$',
      description: 'Keys pressed one second after the answer; `w` is a pause of half a second.',
    }),
  ),
  loss_percent: share("How many of the caller's packets are lost, at random."),
  jitter_ms: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 1_000, description: 'Each packet is held back by a random time up to this.' }),
  ),
  reorder_percent: share('How many packets are overtaken by the next.'),
  duplicate_percent: share('How many packets are sent twice.'),
  seed: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 2 ** 31,
      description: 'Of the random choices: the same seed, the same faults.',
    }),
  ),
});

const figure = (description: string) => nullable<number>(Type.Number({ description }));

const report = Type.Object(
  {
    ok: Type.Boolean({ description: 'Answered, and heard well.' }),
    problems: Type.Array(Type.String(), { description: 'Why not, in sentences.' }),
    answered: Type.Boolean({ description: 'Whether the call was answered.' }),
    sip_status: nullable<number>(Type.Integer({ description: 'The final status of a call that was not answered.' })),
    sip_call_id: nullable<string>(Type.String({ description: 'The Call-ID; the record of the call has the same.' })),
    cause: Type.String({ description: 'Why it ended, as the caller saw it.' }),
    setup_ms: figure('INVITE to answer.'),
    duration_ms: Type.Number({ description: 'Answer to end.' }),
    codec: nullable<string>(Type.String({ description: 'Of the audio.' })),
    sent: Type.Object(
      {},
      { additionalProperties: true, description: 'What the caller sent, and which faults it made.' },
    ),
    received: Type.Object({}, { additionalProperties: true, description: 'What arrived at the caller.' }),
    round_trip: Type.Unsafe<unknown>({
      type: ['object', 'null'],
      additionalProperties: true,
      description: 'Of the audio itself, from mouth to ear and back; null when no echo came.',
    }),
  },
  { $id: 'SimulatedCall', additionalProperties: true },
);

export const simulatorSchemas = [report];
