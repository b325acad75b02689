import {
  type Action,
  type ConferenceJoin,
  type Connect,
  type ConversationRelay,
  clientAddress,
  type DialQueue,
  e164,
  type FollowUp,
  InstructionError,
  type InterruptedBy,
  type InterruptSensitivity,
  keys,
  languageTag,
  maxActions,
  maxHintsLength,
  maxQueueSize,
  maxRedactionSec,
  maxRoomName,
  maxSeats,
  maxTextLength,
  type Prompt,
  sentKeys,
  sipAddress,
  streamProtocols,
  streamSchemes,
  type WaitMusic,
} from './actions.js';

const STREAM_PROTOCOL = new RegExp(`^(${streamProtocols.join('|')})$`);

/**
 * Reads `{"actions": [...]}`. Relative URLs are resolved against `documentUrl`. Throws `InstructionError` with the path of the first
 * thing that is wrong, unknown fields included.
 */
export function parseJsonActions(body: unknown, documentUrl: string): Action[] {
  const document = new Fields(body, '', documentUrl);
  const actions = document.list('actions', maxActions);
  document.end();
  return actions.map((each, index) => actionOf(new Fields(each, `actions[${index}]`, documentUrl)));
}

/** Only the list, as the API takes it. */
export function parseActionList(actions: unknown, documentUrl: string): Action[] {
  return parseJsonActions({ actions }, documentUrl);
}

function actionOf(fields: Fields): Action {
  const action = read(fields);
  fields.end();
  return action;
}

function read(fields: Fields): Action {
  const name = fields.text('action', { required: true });
  switch (name) {
    case 'answer':
    case 'hangup':
    case 'leave':
      return { action: name };
    case 'say':
    case 'play':
    case 'pause':
      return prompt(name, fields);
    case 'gather':
      return gather(fields);
    case 'record':
      return {
        action: 'record',
        maxSec: fields.number('max_s', 1, 14_400) ?? 3600,
        silenceSec: fields.number('silence_s', 0, 600) ?? 5,
        finishOnKey: fields.keys('finish_on_key') ?? '1234567890*#',
        beep: fields.flag('beep') ?? true,
        trim: true,
        next: fields.followUp('url'),
        nextWhenEmpty: true,
        status: null,
        transcription: fields.has('transcribe_url') ? { next: fields.followUp('transcribe_url') } : null,
      };
    case 'dtmf':
      return { action: 'dtmf', digits: fields.text('digits', { required: true, maxLength: 100, pattern: sentKeys }) };
    case 'redact':
      return redact(fields);
    case 'connect':
      return connect(fields);
    case 'relay':
      return relay(fields);
    case 'dial':
      if (fields.has('queue')) return dialQueue(fields);
      return {
        action: 'dial',
        to: [
          {
            to: fields.callee('to'),
            sendDigits: null,
            auth: null,
            screen: fields.followUp('screen_url'),
            status: null,
          },
        ],
        from: fields.text('from', { pattern: e164 }),
        timeoutSec: fields.number('timeout_s', 5, 600) ?? 30,
        timeLimitSec: fields.number('time_limit_s', 1, 86_400) ?? 14_400,
        answerOnBridge: fields.flag('answer_on_bridge') ?? false,
        record: fields.flag('record') ? 'answer' : null,
        recordingStatus: null,
        hangupOnStar: false,
        sequential: false,
        ringTone: 'us',
        refer: fields.followUp('refer_url'),
        next: fields.followUp('url'),
      };
    case 'conference':
      return conference(fields);
    case 'enqueue':
      return {
        action: 'enqueue',
        queue: fields.text('queue', { required: true, maxLength: maxRoomName }),
        wait: waitMusic(fields),
        maxSize: fields.whole('max_size', 1, maxQueueSize),
        next: fields.followUp('url'),
      };
    case 'transfer':
      return { action: 'transfer', to: fields.destination('to') };
    case 'redirect':
      return { action: 'redirect', next: fields.followUp('url') ?? fields.fail('url', 'is required') };
    case 'reject':
      return { action: 'reject', status: fields.whole('status', 400, 699) ?? 603 };
    default:
      return fields.fail('action', `"${name.slice(0, 50)}" is not an action`);
  }
}

function prompt(name: 'say' | 'play' | 'pause', fields: Fields): Prompt {
  if (name === 'pause')
    return { action: name, seconds: fields.number('seconds', 0, 600) ?? fields.fail('seconds', 'is required') };
  const loop = fields.whole('loop', 0, 1000) ?? 1;
  if (name === 'play')
    return { action: name, url: fields.url('url', ['http', 'https']) ?? fields.fail('url', 'is required'), loop };
  return {
    action: name,
    text: fields.text('text', { required: true, maxLength: maxTextLength }),
    voice: fields.text('voice'),
    language: fields.text('language'),
    loop,
  };
}

function gather(fields: Fields): Action {
  const input = fields.list('input', 2, ['digits']);
  input.forEach((each, index) => {
    if (each !== 'digits' && each !== 'speech') fields.fail(`input[${index}]`, 'must be "digits" or "speech"');
  });
  if (input.length === 0) fields.fail('input', 'must not be empty');
  const prompts = fields.list('prompts', maxActions, []).map((each, index) => {
    const nested = fields.inside(each, `prompts[${index}]`);
    const name = nested.text('action', { required: true });
    if (name !== 'say' && name !== 'play' && name !== 'pause')
      return nested.fail('action', 'must be "say", "play" or "pause" within a gather');
    const made = prompt(name, nested);
    nested.end();
    return made;
  });
  return {
    action: 'gather',
    digits: input.includes('digits'),
    speech: input.includes('speech'),
    speechTimeoutSec: 1,
    language: fields.text('language', { pattern: languageTag }),
    hints: fields.text('hints', { maxLength: maxHintsLength }),
    numDigits: fields.whole('num_digits', 1, 100),
    finishOnKey: fields.keys('finish_on_key') ?? '#',
    timeoutSec: fields.number('timeout_s', 0, 600) ?? 5,
    prompts,
    ...(fields.flag('redact') && { redact: true }),
    next: fields.followUp('url'),
    nextWhenEmpty: true,
  };
}

/** A passage that is not stored begins, or ends. */
function redact(fields: Fields): Action {
  const on = fields.flag('on') ?? fields.fail('on', 'is required');
  const limitSec = fields.number('max_s', 1, maxRedactionSec);
  const transcript = fields.text('transcript', { pattern: /^(numbers|all)$/ }) as 'numbers' | 'all' | null;
  const streams = fields.flag('streams');
  if (!on) return { action: 'redact', change: { on } };
  return {
    action: 'redact',
    change: {
      on,
      ...(limitSec !== null && { limitMs: limitSec * 1000 }),
      ...(streams !== null && { streams }),
      ...(transcript !== null && { transcript }),
    },
  };
}

function conference(fields: Fields): ConferenceJoin {
  const beep = fields.text('beep', { pattern: /^(both|enter|exit|none)$/ }) ?? 'both';
  return {
    action: 'conference',
    name: fields.text('name', { required: true, maxLength: maxRoomName }),
    label: fields.text('label', { maxLength: 128 }),
    startOnEnter: fields.flag('start_on_enter') ?? true,
    endOnExit: fields.flag('end_on_exit') ?? false,
    muted: fields.flag('muted') ?? false,
    beep: { entered: beep === 'both' || beep === 'enter', left: beep === 'both' || beep === 'exit' },
    wait: waitMusic(fields),
    maxParticipants: fields.whole('max_participants', 2, maxSeats) ?? maxSeats,
    record: fields.flag('record') ?? false,
    recordingStatus: null,
    timeLimitSec: fields.number('time_limit_s', 1, 86_400) ?? 14_400,
    hangupOnStar: fields.flag('leave_on_star') ?? false,
    status: null,
    next: fields.followUp('url'),
  };
}

function waitMusic(fields: Fields): WaitMusic {
  const url = fields.urlOrEmpty('wait_url');
  return url === null ? 'tone' : url === '' ? 'silence' : { url, method: 'POST' };
}

/** `dial` with `queue` instead of `to`. */
function dialQueue(fields: Fields): DialQueue {
  return {
    action: 'dial_queue',
    queue: fields.text('queue', { required: true, maxLength: maxRoomName }),
    whisper: fields.followUp('whisper_url'),
    timeoutSec: fields.number('timeout_s', 5, 600) ?? 30,
    timeLimitSec: fields.number('time_limit_s', 1, 86_400) ?? 14_400,
    hangupOnStar: false,
    record: fields.flag('record') ?? false,
    recordingStatus: null,
    ringTone: 'us',
    next: fields.followUp('url'),
  };
}

/** An application that reads and writes text, as TwiML's `<ConversationRelay>`. */
function relay(fields: Fields): ConversationRelay {
  const interrupted = (name: string): InterruptedBy =>
    (fields.text(name, { pattern: /^(any|speech|dtmf|none)$/ }) as InterruptedBy | null) ?? 'any';
  const welcome = fields.text('welcome', { maxLength: maxTextLength });
  const welcomeInterruptible = interrupted('welcome_interruptible');
  const language = fields.text('language', { pattern: languageTag });
  const events = fields.list('events', relayEvents.length, []);
  events.forEach((each, index) => {
    if (!relayEvents.includes(String(each)))
      fields.fail(`events[${index}]`, `must be ${relayEvents.map((event) => `"${event}"`).join(' or ')}`);
  });
  return {
    action: 'conversation_relay',
    url: fields.url('url', ['ws', 'wss']) ?? fields.fail('url', 'is required'),
    custom: fields.texts('custom'),
    welcome: welcome === null ? null : { text: welcome, interruptible: welcomeInterruptible },
    interruptible: interrupted('interruptible'),
    preemptible: fields.flag('preemptible') ?? false,
    language: { spoken: language, heard: language },
    voice: fields.text('voice'),
    voices: fields.texts('voices'),
    hints: fields.text('hints', { maxLength: maxHintsLength }),
    dtmf: fields.flag('dtmf') ?? false,
    reports: { speakers: events.includes('speakers'), played: events.includes('played') },
    reportsDuringSpeech: fields.has('report_during_speech') ? interrupted('report_during_speech') : 'none',
    partialPrompts: fields.flag('partial_prompts') ?? false,
    interruptSensitivity:
      (fields.text('interrupt_sensitivity', { pattern: /^(high|medium|low)$/ }) as InterruptSensitivity | null) ??
      'high',
    ignoreBackchannel: fields.flag('ignore_backchannel') ?? false,
    pauseSec: fields.number('speech_timeout_s', 0.5, 5),
    next: fields.followUp('result_url'),
  };
}

/** Of `relay`: who speaks when, and which words were heard. */
const relayEvents = ['speakers', 'played'];

/** With `endpoint_id`, `url` is asked afterwards; without, `url` is the stream and `result_url` is asked. */
function connect(fields: Fields): Connect {
  const endpointId = fields.text('endpoint_id', { pattern: /^[0-9a-f-]{36}$/i });
  if (endpointId !== null)
    return { action: 'connect', to: { kind: 'endpoint', endpointId }, next: fields.followUp('url') };
  const protocol = fields.text('protocol', { pattern: STREAM_PROTOCOL }) ?? 'twilio';
  const url = fields.url('url', streamSchemes(protocol)) ?? fields.fail('url', 'or endpoint_id is required');
  const custom = fields.texts('custom');
  const to = { kind: 'stream' as const, url, protocol, custom, name: null, status: null };
  return { action: 'connect', to, next: fields.followUp('result_url') };
}

/** The fields of one object: each is read once, and what was not read is unknown. */
class Fields {
  private readonly object: { [name: string]: unknown };
  private readonly known = new Set<string>();

  constructor(
    value: unknown,
    private readonly path: string,
    private readonly base: string,
  ) {
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw new InstructionError(path === '' ? 'body' : path, 'must be an object');
    this.object = value as { [name: string]: unknown };
  }

  inside(value: unknown, name: string): Fields {
    return new Fields(value, this.at(name), this.base);
  }

  fail(name: string, problem: string): never {
    throw new InstructionError(this.at(name), problem);
  }

  has(name: string): boolean {
    return Object.hasOwn(this.object, name);
  }

  /** Throws if a field was not read. */
  end(): void {
    for (const name of Object.keys(this.object)) {
      if (!this.known.has(name)) this.fail(name.slice(0, 50), 'is not a field of this action');
    }
  }

  text(name: string, rules: { required: true; maxLength?: number; pattern?: RegExp }): string;
  text(name: string, rules?: { maxLength?: number; pattern?: RegExp }): string | null;
  text(name: string, rules: { required?: true; maxLength?: number; pattern?: RegExp } = {}): string | null {
    const value = this.take(name);
    if (value === undefined) return rules.required ? this.fail(name, 'is required') : null;
    if (typeof value !== 'string' || value === '') return this.fail(name, 'must be a text');
    if (value.length > (rules.maxLength ?? 2048)) return this.fail(name, 'is too long');
    if (rules.pattern && !rules.pattern.test(value)) return this.fail(name, 'is malformed');
    return value;
  }

  keys(name: string): string | null {
    const value = this.take(name);
    if (value === undefined) return null;
    return typeof value === 'string' && keys.test(value) ? value : this.fail(name, 'must be keys of a phone');
  }

  number(name: string, minimum: number, maximum: number): number | null {
    const value = this.take(name);
    if (value === undefined) return null;
    if (typeof value !== 'number' || !(value >= minimum && value <= maximum))
      return this.fail(name, `must be a number from ${minimum} to ${maximum}`);
    return value;
  }

  whole(name: string, minimum: number, maximum: number): number | null {
    const value = this.number(name, minimum, maximum);
    return value === null || Number.isInteger(value) ? value : this.fail(name, 'must be a whole number');
  }

  flag(name: string): boolean | null {
    const value = this.take(name);
    if (value === undefined) return null;
    return typeof value === 'boolean' ? value : this.fail(name, 'must be true or false');
  }

  list(name: string, maximum: number, absent?: unknown[]): unknown[] {
    const value = this.take(name) ?? absent;
    if (!Array.isArray(value)) return this.fail(name, 'must be a list');
    return value.length > maximum ? this.fail(name, `must not have more than ${maximum} entries`) : value;
  }

  /** An object of texts. */
  texts(name: string): { [name: string]: string } {
    const value = this.take(name) ?? {};
    if (typeof value !== 'object' || Array.isArray(value)) return this.fail(name, 'must be an object');
    for (const [key, each] of Object.entries(value as object))
      if (typeof each !== 'string') this.fail(`${name}.${key.slice(0, 50)}`, 'must be a text');
    return value as { [name: string]: string };
  }

  url(name: string, schemes: readonly string[]): string | null {
    const value = this.text(name);
    if (value === null) return null;
    if (!URL.canParse(value, this.base)) return this.fail(name, 'is not a URL');
    const url = new URL(value, this.base);
    if (!schemes.includes(url.protocol.slice(0, -1)))
      return this.fail(name, `must be a URL of ${schemes.map((scheme) => `${scheme}:`).join(' or ')}`);
    return url.href;
  }

  /** `''` stands for itself. */
  urlOrEmpty(name: string): string | null {
    if (this.object[name] !== '') return this.url(name, ['http', 'https']);
    this.known.add(name);
    return '';
  }

  followUp(name: string): FollowUp | null {
    const url = this.url(name, ['http', 'https']);
    return url === null ? null : { url, method: 'POST' };
  }

  destination(name: string): string {
    const value = this.text(name, { required: true });
    return e164.test(value) || sipAddress.test(value)
      ? value
      : this.fail(name, 'must be an E.164 number or a SIP address');
  }

  /** As `destination`, or a registered user. */
  callee(name: string): string {
    const value = this.object[name];
    if (typeof value !== 'string' || !clientAddress.test(value)) return this.destination(name);
    this.known.add(name);
    return value;
  }

  private take(name: string): unknown {
    this.known.add(name);
    return Object.hasOwn(this.object, name) ? this.object[name] : undefined;
  }

  private at(name: string): string {
    return this.path === '' ? name : `${this.path}.${name}`;
  }
}
