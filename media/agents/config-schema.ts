/** The fields of `provider_config` as JSON Schema, in plain objects. */

/** One field. */
export type ConfigField = { readonly [keyword: string]: unknown };
export type ConfigProperties = { readonly [field: string]: ConfigField };

/** A non-empty string. */
export const textField = (maxLength: number): ConfigField => ({ type: 'string', minLength: 1, maxLength });

export const choiceField = (...values: readonly (string | number)[]): ConfigField => ({
  type: typeof values[0] === 'number' ? 'integer' : 'string',
  enum: values,
});

const anyObject: ConfigField = { type: 'object', properties: {}, additionalProperties: true };

const answerAction = choiceField('talk', 'leave_message', 'hang_up', 'press');

/** What an endpoint says about outbound calls that not a person answers. */
export const answeringConfig: ConfigProperties = {
  machine_detection: choiceField('off', 'detect', 'detect_message_end'),
  wait_for_detection: { type: 'boolean' },
  on_machine: answerAction,
  on_screening: answerAction,
  on_operator: answerAction,
  on_fax: choiceField('talk', 'hang_up'),
  press_keys: { type: 'string', maxLength: 32, pattern: '^[0-9A-Da-d*#w]{1,64}$' },
};

/** The fields that all providers accept. */
export const commonConfig: ConfigProperties = {
  api_key: textField(4096),
  model: textField(256),
  voice: textField(256),
  instructions: { type: 'string', maxLength: 200_000 },
  greeting: { type: 'string', maxLength: 10_000 },
  language: textField(64),
  temperature: { type: 'number', minimum: 0, maximum: 2 },
  tools: { type: 'array', items: anyObject, maxItems: 128 },
  base_url: textField(2048),
  headers: {
    type: 'object',
    patternProperties: {
      "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$": { type: 'string', maxLength: 4096, pattern: '^[\\x20-\\x7e]*$' },
    },
    additionalProperties: false,
  },
  sample_rate: choiceField(8000, 16000, 24000, 48000),
  encoding: choiceField('l16', 'ulaw', 'alaw'),
  /** No key of the call is stored. */
  redact_dtmf: { type: 'boolean' },
  /** Of outbound calls: who answered, and what follows (`AnsweringPlan` of the calls). */
  ...answeringConfig,
  /** Milliseconds of caller audio in one message. */
  frame_ms: choiceField(20, 40),
  /** The longest that a jitter buffer in front of the agent holds the caller's audio; 0, the default: no buffer. */
  jitter_buffer_ms: { type: 'integer', minimum: 0, maximum: 500 },
  /** The agent does not hear the echo of its own voice. */
  remove_echo: { type: 'boolean' },
  /** Whether Trunkline writes the transcript when the provider gives none; absent: the setting `transcribe_calls`. */
  transcribe: { type: 'boolean' },
  first_audio_timeout_s: { type: 'number', minimum: 0, maximum: 600 },
  override: anyObject,
  /** Name → template over the call (`variables.ts`). */
  variables: {
    type: 'object',
    patternProperties: { '^[A-Za-z_][A-Za-z0-9_]{0,63}$': { type: 'string', maxLength: 1024 } },
    additionalProperties: false,
    maxProperties: 50,
  },
  /** Asked before the agent is connected. */
  pre_connect_url: textField(2048),
  pre_connect_secret: { type: 'string', maxLength: 256, pattern: '^whsec_[A-Za-z0-9+/]{16,}={0,2}$' },
  /** For the digest challenge of a SIP target. */
  sip_username: { type: 'string', minLength: 1, maxLength: 128, pattern: '^[\\x21-\\x7e]+$' },
  sip_password: textField(256),
  /** Encryption of audio towards a SIP target. */
  srtp: choiceField('off', 'allow', 'require'),
  /** Whether a REFER of the SIP target transfers the call. */
  allow_refer: { type: 'boolean' },
};

/** The schema of one provider's `provider_config`: every field is optional, other fields are refused. */
export function configSchema(own: ConfigProperties): ConfigField {
  return { type: 'object', properties: { ...commonConfig, ...own }, additionalProperties: false };
}
