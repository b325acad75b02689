import { body, freeObject, oneOf, Type, uuid } from './types.js';

const number = (description: string) => Type.String({ maxLength: 64, description });

export const outboundCallBody = body({
  to_number: number('The number to call, in E.164; spaces and `-.()` are stripped.'),
  from_number: number(
    "The caller id: one of the organization's phone numbers. A test key may always use `+15005550006`.",
  ),
  endpoint_id: uuid('The endpoint that is connected once the callee has answered.'),
  ring_timeout: Type.Integer({
    minimum: 5,
    maximum: 600,
    default: 60,
    description: 'The ring timeout in seconds, after which the call ends as `no_answer`.',
  }),
  max_duration: Type.Integer({
    minimum: 1,
    maximum: 86_400,
    default: 14_400,
    description: 'The maximum duration in seconds from the answer, after which the call is ended.',
  }),
  machine_detection: oneOf(['off', 'detect', 'detect_message_end'], {
    default: 'off',
    description:
      'Whether to detect if a person, a machine or a fax answered. Detection runs in parallel: the agent talks from the answer on, and the result is the event `amd.completed` (`result`, `reason`, `decided_ms` from the answer). With `detect_message_end` the event for a machine is sent at the end of its greeting; `message_end` is then `beep`, `silence` or `timeout`. `answered_by` has the same result as a Twilio value (`human`, `machine_start`, `machine_end_beep`, …).',
  }),
  on_machine: oneOf(['talk', 'hang_up'], {
    default: 'talk',
    description:
      'The reaction when `machine_detection` reports a machine: the agent continues, or the call is hung up so that the agent does not talk to a voicemail.',
  }),
  metadata: Type.Optional(
    freeObject(
      'Your own data about the call, at most 8 KiB of JSON; it appears in the call detail and in webhooks, and is passed to the agent.',
    ),
  ),
  record: Type.Optional(
    Type.Boolean({ description: 'Whether the call is recorded. Default: the setting of the endpoint.' }),
  ),
});
