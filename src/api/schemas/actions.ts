/** The actions that a webhook answers with, as the API's description shows them; `webhook/json-actions.ts` is what reads them. */
import { maxActions, maxHintsLength, maxRoomName, maxSeats, maxTextLength } from '../../webhook/actions.js';
import { body, oneOf, Type } from './types.js';

const action = (name: string) => Type.Unsafe<string>({ type: 'string', enum: [name] });
const seconds = (minimum: number, maximum: number, description: string) =>
  Type.Optional(Type.Number({ minimum, maximum, description }));
const flag = (description: string) => Type.Optional(Type.Boolean({ description }));
const text = (description: string, maxLength = 2_048) => Type.String({ minLength: 1, maxLength, description });
const next = Type.Optional(text('An http(s) URL that is asked afterwards, with the result, for the next actions.'));
const loop = Type.Optional(
  Type.Integer({ minimum: 0, maximum: 1_000, description: 'How often; 0 without end; 1 when absent.' }),
);

const prompts = {
  say: {
    action: action('say'),
    text: text('What is spoken.', maxTextLength),
    voice: Type.Optional(text('Of the speech server, or of the offline voice.')),
    language: Type.Optional(text('Such as `en-US`.')),
    loop,
  },
  play: { action: action('play'), url: text('An audio file behind an http(s) URL.'), loop },
  pause: { action: action('pause'), seconds: Type.Number({ minimum: 0, maximum: 600, description: 'How long.' }) },
};

/** The fields of each action, by its name; `connect` has two forms. */
export const actionFields = {
  answer: { action: action('answer') },
  ...prompts,
  gather: {
    action: action('gather'),
    input: Type.Optional(
      Type.Array(oneOf(['digits', 'speech']), { minItems: 1, maxItems: 2, description: '`["digits"]` when absent.' }),
    ),
    num_digits: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, description: 'Done after so many keys.' })),
    finish_on_key: Type.Optional(Type.String({ description: 'Keys that end it; `#` when absent, empty for none.' })),
    timeout_s: seconds(0, 600, 'How long the next key is waited for; 5 when absent.'),
    language: Type.Optional(text('Of the speech.')),
    hints: Type.Optional(text('Words that are likely, for speech.', maxHintsLength)),
    prompts: Type.Optional(
      Type.Array(Type.Unsafe<unknown>({ anyOf: Object.values(prompts).map((fields) => body(fields)) }), {
        maxItems: maxActions,
        description: 'Said or played meanwhile.',
      }),
    ),
    url: next,
  },
  record: {
    action: action('record'),
    max_s: seconds(1, 14_400, 'How long at most; 3600 when absent.'),
    silence_s: seconds(0, 600, 'How much silence ends it; 5 when absent, 0 for none.'),
    finish_on_key: Type.Optional(Type.String({ description: 'Keys that end it; any when absent.' })),
    beep: flag('A tone before it begins; true when absent.'),
    url: next,
  },
  dtmf: { action: action('dtmf'), digits: text('Keys; `w` waits half a second.', 100) },
  connect_endpoint: {
    action: action('connect'),
    endpoint_id: Type.String({ format: 'uuid', description: 'The endpoint that takes the call over.' }),
    url: next,
  },
  connect_stream: {
    action: action('connect'),
    url: text('A ws(s) URL that the call is streamed to.'),
    protocol: Type.Optional(
      oneOf(['twilio', 'telnyx', 'plivo', 'vonage', 'raw'], { description: '`twilio` when absent.' }),
    ),
    custom: Type.Optional(
      Type.Record(Type.String(), Type.String(), { description: 'Told to the stream at its start.' }),
    ),
    result_url: next,
  },
  dial: {
    action: action('dial'),
    to: text('An E.164 number, a SIP URI, or `client:` and a user who registers with us.'),
    from: Type.Optional(text("The caller id: a number of the organization; the caller's own when absent.")),
    timeout_s: seconds(5, 600, 'How long it rings; 30 when absent.'),
    time_limit_s: seconds(1, 86_400, 'How long they may talk; 14400 when absent.'),
    answer_on_bridge: flag('The caller hears ringing until somebody answers; false when absent.'),
    record: flag('Record both sides; false when absent.'),
    refer_url: Type.Optional(text('Asked when the callee hands the call on.')),
    url: next,
  },
  conference: {
    action: action('conference'),
    name: text('The room.', maxRoomName),
    label: Type.Optional(text('The name of this participant.', 128)),
    start_on_enter: flag('The conference begins with them; true when absent.'),
    end_on_exit: flag('It ends when they leave; false when absent.'),
    muted: flag('They are not heard; false when absent.'),
    beep: Type.Optional(oneOf(['both', 'enter', 'exit', 'none'], { description: '`both` when absent.' })),
    wait_url: Type.Optional(
      Type.String({ maxLength: 2_048, description: 'Music until it begins; empty for silence.' }),
    ),
    max_participants: Type.Optional(Type.Integer({ minimum: 2, maximum: maxSeats, description: 'The most at once.' })),
    record: flag('Record the room; false when absent.'),
    leave_on_star: flag('The star key leaves; false when absent.'),
    time_limit_s: seconds(1, 86_400, 'How long they may stay; 14400 when absent.'),
    url: next,
  },
  transfer: { action: action('transfer'), to: text('An E.164 number or a SIP URI.') },
  redirect: { action: action('redirect'), url: text('An http(s) URL that is asked for the next actions.') },
  reject: {
    action: action('reject'),
    status: Type.Optional(
      Type.Integer({ minimum: 400, maximum: 699, description: 'The SIP answer; 603 when absent.' }),
    ),
  },
  hangup: { action: action('hangup') },
} as const;

/** One action. */
export const actionSchema = Type.Unsafe<object>({
  description: 'One action; the fields that are not listed for it are refused.',
  anyOf: Object.values(actionFields).map((fields) => body(fields)),
});
