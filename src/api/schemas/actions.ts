/** The actions of a webhook response, as OpenAPI describes them; `webhook/json-actions.ts` parses them. */
import {
  interruptSensitivities,
  maxActions,
  maxHintsLength,
  maxQueueSize,
  maxRedactionSec,
  maxRoomName,
  maxSeats,
  maxTextLength,
  streamProtocols,
} from '../../webhook/actions.js';
import { body, oneOf, Type } from './types.js';

const interruptions = ['any', 'speech', 'dtmf', 'none'] as const;
const action = (name: string) => Type.Unsafe<string>({ type: 'string', enum: [name] });
const seconds = (minimum: number, maximum: number, description: string) =>
  Type.Optional(Type.Number({ minimum, maximum, description }));
const flag = (description: string) => Type.Optional(Type.Boolean({ description }));
const text = (description: string, maxLength = 2_048) => Type.String({ minLength: 1, maxLength, description });
const next = Type.Optional(text('An http(s) URL that is requested afterwards, with the result, for the next actions.'));
const loop = Type.Optional(
  Type.Integer({
    minimum: 0,
    maximum: 1_000,
    description: 'The number of repetitions; 0 repeats without end. Default 1.',
  }),
);

const prompts = {
  say: {
    action: action('say'),
    text: text('The text to speak.', maxTextLength),
    voice: Type.Optional(text('A voice of the speech server or of the offline synthesizer.')),
    language: Type.Optional(text('The language, such as `en-US`.')),
    loop,
  },
  play: { action: action('play'), url: text('The http(s) URL of an audio file.'), loop },
  pause: {
    action: action('pause'),
    seconds: Type.Number({ minimum: 0, maximum: 600, description: 'The length of the pause in seconds.' }),
  },
};

/** The fields of each action, by its name; `connect` has two forms. */
export const actionFields = {
  answer: { action: action('answer') },
  ...prompts,
  gather: {
    action: action('gather'),
    input: Type.Optional(
      Type.Array(oneOf(['digits', 'speech']), {
        minItems: 1,
        maxItems: 2,
        description: 'The accepted input. Default `["digits"]`.',
      }),
    ),
    num_digits: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 100, description: 'The number of keys that completes the input.' }),
    ),
    finish_on_key: Type.Optional(
      Type.String({ description: 'The keys that end the input; empty for none. Default `#`.' }),
    ),
    timeout_s: seconds(0, 600, 'How many seconds to wait for the next key. Default 5.'),
    language: Type.Optional(text('The language of the speech.')),
    hints: Type.Optional(text('Words that are likely in the speech.', maxHintsLength)),
    prompts: Type.Optional(
      Type.Array(Type.Unsafe<unknown>({ anyOf: Object.values(prompts).map((fields) => body(fields)) }), {
        maxItems: maxActions,
        description: 'Prompts that are spoken or played while the input is awaited.',
      }),
    ),
    redact: flag('Whether the input is kept out of the record, recordings and events; `url` gets it. Default false.'),
    url: next,
  },
  record: {
    action: action('record'),
    max_s: seconds(1, 14_400, 'The maximum length in seconds. Default 3600.'),
    silence_s: seconds(0, 600, 'How many seconds of silence end the recording; 0 for no limit. Default 5.'),
    finish_on_key: Type.Optional(Type.String({ description: 'The keys that end the recording. Default: any key.' })),
    beep: flag('Whether a tone is played before the recording begins. Default true.'),
    transcribe_url: Type.Optional(
      text('The URL that gets the words of the recording, as `call.transcribed`, while the call goes on.'),
    ),
    url: next,
  },
  dtmf: { action: action('dtmf'), digits: text('The keys to send; `w` is a pause of half a second.', 100) },
  connect_endpoint: {
    action: action('connect'),
    endpoint_id: Type.String({ format: 'uuid', description: 'The endpoint that takes over the call.' }),
    url: next,
  },
  connect_stream: {
    action: action('connect'),
    url: text('The ws(s) URL that the call is streamed to.'),
    protocol: Type.Optional(oneOf(streamProtocols, { description: 'The stream protocol. Default `twilio`.' })),
    custom: Type.Optional(
      Type.Record(Type.String(), Type.String(), { description: 'Custom parameters, sent to the stream at its start.' }),
    ),
    result_url: next,
  },
  dial: {
    action: action('dial'),
    to: text('An E.164 number, a SIP URI, or `client:` and the name of a user registered with this server.'),
    from: Type.Optional(text("The caller id: a number of the organization. Default: the caller's number.")),
    timeout_s: seconds(5, 600, 'The ring timeout in seconds. Default 30.'),
    time_limit_s: seconds(1, 86_400, 'The maximum duration of the connection in seconds. Default 14400.'),
    answer_on_bridge: flag('Whether the caller hears ringing until the callee answers. Default false.'),
    record: flag('Whether both sides are recorded. Default false.'),
    screen_url: Type.Optional(
      text(
        'The URL whose actions the phone that answers runs, while the caller hears ringback, before both are connected.',
      ),
    ),
    refer_url: Type.Optional(text('The URL that is requested when the callee transfers the call by REFER.')),
    url: next,
  },
  dial_queue: {
    action: action('dial'),
    queue: text('The queue whose longest waiting call is connected.', maxRoomName),
    whisper_url: Type.Optional(text('The http(s) URL of prompts that the waiting caller hears before the connection.')),
    timeout_s: seconds(5, 600, 'How many seconds to wait for a call. Default 30.'),
    time_limit_s: seconds(1, 86_400, 'The maximum duration of the connection in seconds. Default 14400.'),
    record: flag('Whether both sides are recorded. Default false.'),
    url: next,
  },
  enqueue: {
    action: action('enqueue'),
    queue: text('The name of the queue.', maxRoomName),
    wait_url: Type.Optional(
      Type.String({ maxLength: 2_048, description: 'The URL of the hold music; empty for silence.' }),
    ),
    max_size: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: maxQueueSize,
        description: 'The number of waiting calls at which the caller does not enter. Default: the size of the queue.',
      }),
    ),
    url: next,
  },
  leave: { action: action('leave') },
  conference: {
    action: action('conference'),
    name: text('The name of the conference.', maxRoomName),
    label: Type.Optional(text('The label of this participant.', 128)),
    start_on_enter: flag('Whether the conference starts when this participant enters. Default true.'),
    end_on_exit: flag('Whether the conference ends when this participant leaves. Default false.'),
    muted: flag('Whether the participant is muted. Default false.'),
    beep: Type.Optional(
      oneOf(['both', 'enter', 'exit', 'none'], {
        description: 'When a beep is played to the conference. Default `both`.',
      }),
    ),
    wait_url: Type.Optional(
      Type.String({
        maxLength: 2_048,
        description: 'The URL of the hold music until the conference starts; empty for silence.',
      }),
    ),
    max_participants: Type.Optional(
      Type.Integer({ minimum: 2, maximum: maxSeats, description: 'The maximum number of participants.' }),
    ),
    record: flag('Whether the conference is recorded. Default false.'),
    leave_on_star: flag('Whether the participant leaves by the star key. Default false.'),
    time_limit_s: seconds(1, 86_400, 'The maximum stay in seconds. Default 14400.'),
    url: next,
  },
  relay: {
    action: action('relay'),
    url: text('The ws(s) URL of an application that reads and writes text, with the messages of ConversationRelay.'),
    welcome: Type.Optional(text('Spoken at the beginning.', maxTextLength)),
    welcome_interruptible: Type.Optional(oneOf(interruptions, { description: 'What interrupts it. Default `any`.' })),
    interruptible: Type.Optional(
      oneOf(interruptions, { description: "What interrupts the application's speech. Default `any`." }),
    ),
    preemptible: flag('Whether later speech of the application takes the place of earlier. Default false.'),
    language: Type.Optional(text('The language that is spoken and heard, such as en-US.')),
    voice: Type.Optional(text('The voice.')),
    voices: Type.Optional(
      Type.Record(Type.String(), Type.String(), { description: 'The voices of other languages, by language.' }),
    ),
    hints: Type.Optional(text('Words that are likely to be said.', maxHintsLength)),
    dtmf: flag('Whether keys are reported. Default false.'),
    events: Type.Optional(
      Type.Array(oneOf(['speakers', 'played']), {
        description: '`speakers`: who speaks when; `played`: which words were heard.',
      }),
    ),
    partial_prompts: flag('Whether the words of an utterance are sent while it goes on, too. Default false.'),
    interrupt_sensitivity: Type.Optional(
      oneOf(interruptSensitivities, {
        description: '`high` (default): any speech interrupts; `medium`, `low`: 0.3 s or 0.7 s of it, or known words.',
      }),
    ),
    ignore_backchannel: flag(
      'Whether words such as "uh-huh" while the application speaks neither interrupt it nor are reported. Default false.',
    ),
    report_during_speech: Type.Optional(
      oneOf(interruptions, { description: 'What is reported of a caller who may not interrupt. Default `none`.' }),
    ),
    speech_timeout_s: seconds(0.5, 5, 'The silence that ends an utterance. Default 0.7.'),
    custom: Type.Optional(Type.Record(Type.String(), Type.String(), { description: 'Sent in `setup`.' })),
    result_url: next,
  },
  redact: {
    action: action('redact'),
    on: Type.Boolean({ description: 'Whether a passage that is not stored begins or ends.' }),
    max_s: seconds(1, maxRedactionSec, 'The passage ends by itself after this many seconds. Default 300.'),
    transcript: Type.Optional(
      oneOf(['numbers', 'all'], {
        description: 'Whether the transcript loses numbers or all words. Default `numbers`.',
      }),
    ),
    streams: flag('Whether streams that only listen get silence too. Default false.'),
  },
  transfer: { action: action('transfer'), to: text('The transfer target: an E.164 number or a SIP URI.') },
  redirect: { action: action('redirect'), url: text('The http(s) URL that is requested for the next actions.') },
  reject: {
    action: action('reject'),
    status: Type.Optional(
      Type.Integer({ minimum: 400, maximum: 699, description: 'The SIP response status. Default 603.' }),
    ),
  },
  hangup: { action: action('hangup') },
} as const;

/** One action. */
export const actionSchema = Type.Unsafe<object>({
  description: 'One action; fields that are not listed for it are rejected.',
  anyOf: Object.values(actionFields).map((fields) => body(fields)),
});
