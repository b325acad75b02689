import { answerActions, machineDetections } from '../../call/core/outbound-request.js';
import { patterns } from './patterns.js';
import { body, freeObject, oneOf, Type, uuid } from './types.js';

const number = (description: string) => Type.String({ maxLength: 64, description });

const reaction = (to: string, what: string) =>
  Type.Optional(
    oneOf(answerActions, {
      description: `The reaction to ${to}. ${what} Default: as the endpoint says, else \`talk\`.`,
    }),
  );

export const outboundCallBody = body({
  to_number: Type.String({
    maxLength: 500,
    description:
      'The number to call, in E.164; spaces and `-.()` are stripped. Or an address, which no trunk carries: `client:` and the user name of a registered phone of the organization, or a SIP address such as `sip:alice@example.com`, which at an address of this server is a registered phone too; `?X-Name=value` become header fields.',
  }),
  from_number: number(
    "The caller id: one of the organization's phone numbers. A test key may always use `+15005550006`.",
  ),
  sip_username: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description: 'The user name that answers the challenge of a SIP address.',
    }),
  ),
  sip_password: Type.Optional(
    Type.String({ maxLength: 255, description: 'The password for `sip_username`. It is not stored.' }),
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
  machine_detection: Type.Optional(
    oneOf(machineDetections, {
      description:
        'Whether to detect if a person, a machine, a call screening assistant, a fax or an announcement of the network answered. The result is the event `amd.completed` (`result`, `reason`, `decided_ms` from the answer). With `detect_message_end` the event for a machine is sent at the end of its greeting; `message_end` is then `beep`, `silence` or `timeout`. `answered_by` has the same result as a Twilio value (`human`, `machine_start`, `machine_end_beep`, …). Default: as `provider_config` of the endpoint says, else `detect` if one of the reactions below is not `talk`, else `off`.',
    }),
  ),
  wait_for_detection: Type.Optional(
    Type.Boolean({
      description:
        'Whether the agent begins, and a webhook is requested, only when it is known who answered. Default: as the endpoint says, else whether a reaction is `leave_message` or `press`. Without it the agent talks from the answer on.',
    }),
  ),
  on_machine: reaction(
    'a machine',
    'The agent talks, talks after the beep (or the end of the greeting), the call is hung up, or `press_keys` are pressed and detection begins anew.',
  ),
  on_screening: reaction('a screening assistant', 'As for a machine; it asks for a name and a reason.'),
  on_operator: reaction(
    'an announcement of the network',
    'As for a machine. Before the answer anything but `talk` gives the call up.',
  ),
  on_fax: Type.Optional(
    oneOf(['talk', 'hang_up'], { description: 'The reaction to a fax. Default: as the endpoint says, else `talk`.' }),
  ),
  press_keys: Type.Optional(
    Type.String({
      pattern: patterns.keys,
      maxLength: 32,
      description: 'The keys of the reaction `press`. Default: as the endpoint says, else `1`.',
    }),
  ),
  metadata: Type.Optional(
    freeObject(
      'Your own data about the call, at most 8 KiB of JSON; it appears in the call detail and in webhooks, and is passed to the agent.',
    ),
  ),
  record: Type.Optional(
    Type.Boolean({ description: 'Whether the call is recorded. Default: the setting of the endpoint.' }),
  ),
});
