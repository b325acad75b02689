import { patterns } from './patterns.js';
import { body, nullable, oneOf, Type } from './types.js';

const share = (description: string) => Type.Optional(Type.Number({ minimum: 0, maximum: 100, description }));

export const simulatedCallBody = body({
  to: Type.String({ maxLength: 64, description: "One of the organization's phone numbers, in E.164." }),
  from: Type.String({ maxLength: 64, default: '+15005550001', description: 'The caller id.' }),
  duration_ms: Type.Integer({
    minimum: 100,
    maximum: 60_000,
    default: 5_000,
    description: 'The caller hangs up this many milliseconds after the answer.',
  }),
  ring_timeout_ms: Type.Integer({
    minimum: 1_000,
    maximum: 60_000,
    default: 30_000,
    description: 'The caller cancels the call if it is not answered within this many milliseconds.',
  }),
  codec: Type.Optional(
    oneOf(['PCMU', 'PCMA', 'G722', 'OPUS'], {
      description: 'The only codec offered. Default: PCMU and PCMA are offered.',
    }),
  ),
  digits: Type.Optional(
    Type.String({
      pattern: patterns.keys,
      description: 'The keys pressed one second after the answer; `w` is a pause of half a second.',
    }),
  ),
  speech: oneOf(['tone', 'talk', 'silence', 'noise'], {
    default: 'tone',
    description:
      'What the caller says: a `tone` with markers that measure an echo; `talk`, the rhythm of questions with pauses for answers; `silence`; or `noise` of a street.',
  }),
  loss_percent: share("The percentage of the caller's packets that are lost, at random."),
  jitter_ms: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 1_000,
      description: 'Each packet is delayed by a random time of at most this many milliseconds.',
    }),
  ),
  reorder_percent: share('The percentage of packets that arrive after their successor.'),
  duplicate_percent: share('The percentage of packets that are sent twice.'),
  seed: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 2 ** 31,
      description: 'The seed of the random generator; the same seed reproduces the same faults.',
    }),
  ),
});

const figure = (description: string) => nullable<number>(Type.Number({ description }));

const report = Type.Object(
  {
    ok: Type.Boolean({ description: 'Whether the call was answered and its audio was received well.' }),
    problems: Type.Array(Type.String(), { description: 'The reasons why `ok` is false, one sentence each.' }),
    answered: Type.Boolean({ description: 'Whether the call was answered.' }),
    sip_status: nullable<number>(
      Type.Integer({ description: 'The final SIP status of a call that was not answered.' }),
    ),
    sip_call_id: nullable<string>(Type.String({ description: 'The Call-ID, which the record of the call has too.' })),
    cause: Type.String({ description: 'Why the call ended, as seen by the caller.' }),
    setup_ms: figure('Milliseconds from the INVITE to the answer.'),
    duration_ms: Type.Number({ description: 'Milliseconds from the answer to the end.' }),
    codec: nullable<string>(Type.String({ description: 'The codec of the audio.' })),
    sent: Type.Object(
      {},
      { additionalProperties: true, description: 'What the caller sent, and the faults it applied.' },
    ),
    received: Type.Object({}, { additionalProperties: true, description: 'What the caller received.' }),
    round_trip: Type.Unsafe<unknown>({
      type: ['object', 'null'],
      additionalProperties: true,
      description: 'The mouth-to-ear round trip of the audio; null if no echo was received.',
    }),
  },
  { $id: 'SimulatedCall', additionalProperties: true },
);

export const simulatorSchemas = [report];
