import { body, freeObject, oneOf, Type, uuid } from './types.js';

const number = (description: string) => Type.String({ maxLength: 64, description });

export const outboundCallBody = body({
  to_number: number('Whom to call, in E.164; spaces and `-.()` are stripped.'),
  from_number: number(
    "The caller id: one of the organization's phone numbers. A test key may always use `+15005550006`.",
  ),
  endpoint_id: uuid('The endpoint that talks once the far side has answered.'),
  ring_timeout: Type.Integer({
    minimum: 5,
    maximum: 600,
    default: 60,
    description: 'How many seconds it may ring before the call ends as `no_answer`.',
  }),
  max_duration: Type.Integer({
    minimum: 1,
    maximum: 86_400,
    default: 14_400,
    description: 'How many seconds after the answer the call ends by itself.',
  }),
  machine_detection: oneOf(['off', 'detect', 'detect_message_end'], {
    default: 'off',
    description:
      'Whether to find out who answered: a person, a machine or a fax. Nothing waits for it: the agent talks from the answer on, and the result is the event `amd.completed` (`result`, `reason`, `decided_ms` from the answer). With `detect_message_end` the event of a machine comes when its greeting is over: `message_end` is `beep`, `silence` or `timeout`. `answered_by` is the same in the words of Twilio (`human`, `machine_start`, `machine_end_beep`, …).',
  }),
  on_machine: oneOf(['talk', 'hang_up'], {
    default: 'talk',
    description:
      'What happens once `machine_detection` knows that a machine answered: the agent goes on, or the call is hung up, so that nobody talks to a voicemail.',
  }),
  metadata: Type.Optional(
    freeObject('Your own words about the call, at most 8 KiB of JSON: in its detail, in webhooks and for the agent.'),
  ),
  record: Type.Optional(Type.Boolean({ description: 'Records the call. Absent: as the endpoint says.' })),
});
