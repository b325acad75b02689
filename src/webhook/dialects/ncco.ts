/** Call control objects of Vonage (NCCO): https://developer.vonage.com/en/voice/voice-api/ncco-reference */
import {
  type Action,
  type ConferenceJoin,
  type Dial,
  type DialTarget,
  type FollowUp,
  type Gather,
  InstructionError,
  languageTag,
  maxActions,
  maxHintsLength,
  maxRoomName,
  maxSeats,
  maxTextLength,
  type Prompt,
  type Record,
  type StartRecording,
  type StatusCallback,
  sentKeys,
  sipAddress,
} from '../actions.js';
import { spokenOf } from '../speech-markup.js';
import { parseXml } from '../xml.js';
import type { DocumentPlace } from './dialect.js';
import { NccoOptions } from './ncco-options.js';

/**
 * Reads an NCCO, which is a JSON array. What has no effect causes a warning. Throws `InstructionError` with the place, such as
 * `[2].endpoint`.
 */
export function parseNcco(ncco: unknown, where: DocumentPlace): Action[] {
  if (!Array.isArray(ncco)) throw new InstructionError('body', 'must be a list of actions');
  if (ncco.length > maxActions) throw new InstructionError('body', `has more than ${maxActions} actions`);
  const actions: Action[] = [];
  /** Prompts with `bargeIn`, which the input that follows interrupts. */
  let interruptible: Prompt[] = [];
  for (const [index, each] of ncco.entries()) {
    const options = new NccoOptions(each, `[${index}]`, where);
    const name = options.text('action');
    const isPrompt = name === 'talk' || name === 'stream';
    const read = isPrompt ? promptsOf(name, options) : actionOf(name, options);
    if (isPrompt && options.flag('bargeIn', false)) interruptible.push(...(read as Prompt[]));
    else {
      const gather = read.find((action) => action.action === 'gather');
      if (gather === undefined) actions.push(...interruptible);
      else gather.prompts = interruptible;
      interruptible = [];
      actions.push(...read);
    }
    actions.push(...options.warnings().map((message): Action => ({ action: 'warn', message })));
  }
  return [...actions, ...interruptible];
}

function actionOf(name: string | null, options: NccoOptions): Action[] {
  switch (name) {
    case 'input':
      return [input(options)];
    case 'record':
      return [record(options)];
    case 'connect':
      return [connect(options)];
    case 'conversation':
      return [conversation(options)];
    case 'notify':
      return [notify(options)];
    case 'wait':
      return [{ action: 'pause', seconds: options.number('timeout', 0.1, 7200, 10) }];
    default:
      return options.fail(
        'action',
        'is no action of ours; those are talk, stream, input, record, connect, conversation, notify and wait',
      );
  }
}

function promptsOf(name: 'talk' | 'stream', options: NccoOptions): Prompt[] {
  const loop = Math.round(options.number('loop', 0, 1000, 1));
  if (name === 'stream')
    return [{ action: 'play', url: options.address('streamUrl') ?? options.fail('streamUrl', 'is required'), loop }];
  const text = options.text('text') ?? options.fail('text', 'is required');
  if (text.length > maxTextLength) options.fail('text', `has more than ${maxTextLength} characters`);
  const voice = { voice: null, language: options.matching('language', languageTag) };
  return partsOf(text, options).map(
    (part): Prompt =>
      typeof part === 'string'
        ? { action: 'say', text: part, ...voice, loop }
        : { action: 'pause', seconds: part.pauseSec },
  );
}

/** A text may be speech markup, in `<speak>`. */
function partsOf(text: string, options: NccoOptions): ReturnType<typeof spokenOf>['parts'] {
  if (!/^\s*<speak[\s>]/.test(text)) return [text];
  const { parts, unheeded } = spokenOf(parseXml(text));
  for (const { name } of unheeded) options.note('text', `<${name.slice(0, 50)}> has no effect; its words are spoken`);
  return parts;
}

function input(options: NccoOptions): Gather {
  const types = options.texts('type');
  const dtmf = options.inside('dtmf');
  const speech = options.inside('speech');
  // Older documents have no `type`: the settings say what is taken.
  const hears = types.includes('speech') || (types.length === 0 && speech.isGiven);
  const digits = types.includes('dtmf') || (types.length === 0 && (dtmf.isGiven || !hears));
  const keysSec = dtmf.number('timeOut', 0, 10, 3);
  const startSec = speech.number('startTimeout', 1, 60, 10);
  speech.value('uuid'); // the only one who is listened to is the caller
  const hints = speech.texts('context').join(', ').slice(0, maxHintsLength);
  if (options.text('mode') === 'asynchronous') options.note('mode', 'must be synchronous; keys are sent together');
  const next = events(options);
  if (next === null)
    options.note('eventUrl', 'is absent, and the endpoint has no status_callback_url: the input is lost');
  return {
    action: 'gather',
    digits,
    speech: hears,
    speechTimeoutSec: speech.number('endOnSilence', 0.4, 10, 2),
    language: speech.matching('language', languageTag),
    hints: hints === '' ? null : hints,
    numDigits: Math.round(dtmf.number('maxDigits', 1, 20, 4)),
    finishOnKey: dtmf.flag('submitOnHash', false) ? '#' : '',
    timeoutSec: hears ? Math.max(startSec, digits ? keysSec : 0) : keysSec,
    ...(hears && digits && { betweenKeysSec: keysSec }),
    prompts: [],
    next,
    nextWhenEmpty: true,
  };
}

/** Absent: the address for all events of the endpoint. */
function events(options: NccoOptions): FollowUp | null {
  const url = options.address('eventUrl') ?? options.where.eventsUrl;
  const method = options.method('eventMethod');
  return url === null ? null : { url, method };
}

function record(options: NccoOptions): Record | StartRecording {
  const next = events(options);
  const isBounded = ['endOnSilence', 'endOnKey', 'timeOut'].some((name) => options.has(name));
  const silenceSec = options.number('endOnSilence', 3, 10, 0);
  const maxSec = options.number('timeOut', 3, 7200, 7200);
  const key = options.text('endOnKey') ?? '';
  const beep = options.flag('beepStart', false);
  const isSplit = options.text('split') === 'conversation' || options.number('channels', 1, 32, 1) > 1;
  const format = options.text('format');
  if (format !== null && format !== 'wav') options.note('format', 'must be "wav"; that is made');
  if (!isBounded) {
    if (beep) options.note('beepStart', 'has no effect without endOnSilence, endOnKey or timeOut');
    const status: StatusCallback | null = next === null ? null : { to: next, events: ['completed'] };
    return { action: 'start_recording', channels: 2, status };
  }
  if (isSplit) options.note('split', 'has no effect on a recording of the caller alone');
  return {
    action: 'record',
    maxSec,
    silenceSec,
    finishOnKey: /^[0-9*#]$/.test(key) ? key : '',
    beep,
    trim: false,
    next: next && { ...next, answerIgnored: true },
    nextWhenEmpty: true,
    status: null,
    transcription: null,
  };
}

/** Of one `connect`. */
const mostTargets = 10;

function connect(options: NccoOptions): Action {
  const endpoints = options.list('endpoint').map((each, index) => options.nested(each, `endpoint[${index}]`));
  const [first] = endpoints;
  if (first === undefined) return options.fail('endpoint', 'must have one endpoint');
  const next = events(options);
  const isSynchronous = options.text('eventType') === 'synchronous';
  if (first.text('type') === 'websocket') return stream(first, isSynchronous ? next : null);
  const status: StatusCallback | null =
    next === null ? null : { to: next, events: ['initiated', 'ringing', 'answered', 'completed'] };
  const from = options.text('from');
  const dial: Dial = {
    action: 'dial',
    to: endpoints.slice(0, mostTargets).map((endpoint) => dialTarget(endpoint, status)),
    from: from === null ? null : withPlus(from),
    timeoutSec: options.number('timeout', 5, 600, 60),
    timeLimitSec: options.number('limit', 1, 86_400, 7200),
    answerOnBridge: false,
    record: null,
    recordingStatus: null,
    hangupOnStar: false,
    sequential: false,
    refer: null,
    ringTone: 'us',
    next: isSynchronous ? next : null,
  };
  return dial;
}

/** Vonage writes numbers without `+`. */
function withPlus(number: string): string {
  return /^[1-9]\d{6,14}$/.test(number) ? `+${number}` : number;
}

function dialTarget(endpoint: NccoOptions, status: StatusCallback | null): DialTarget {
  const type = endpoint.text('type');
  const keys = endpoint.text('dtmfAnswer')?.replace(/p/gi, 'w') ?? null;
  const onAnswer = endpoint.inside('onAnswer');
  const screen = onAnswer.address('url');
  return {
    to: addressOf(type, endpoint),
    sendDigits: keys !== null && sentKeys.test(keys) ? keys : null,
    auth: null,
    screen: screen === null ? null : { url: screen, method: 'GET' },
    status,
  };
}

function addressOf(type: string | null, endpoint: NccoOptions): string {
  if (type === 'phone') return withPlus(endpoint.text('number') ?? endpoint.fail('number', 'is required'));
  if (type === 'app') return `client:${endpoint.text('user') ?? endpoint.fail('user', 'is required')}`;
  if (type !== 'sip') return endpoint.fail('type', 'must be phone, sip, app or websocket');
  const uri = endpoint.text('uri') ?? endpoint.fail('uri', 'is required');
  if (!sipAddress.test(uri)) endpoint.fail('uri', 'must be a SIP address');
  const headers = new URLSearchParams(
    Object.entries(endpoint.texted('headers')).map(([name, value]): [string, string] => [
      `X-${name.replace(/^x-/i, '')}`,
      value,
    ]),
  ).toString();
  return headers === '' ? uri : `${uri}${uri.includes('?') ? '&' : '?'}${headers}`;
}

function stream(endpoint: NccoOptions, next: FollowUp | null): Action {
  const url = endpoint.address('uri', ['ws', 'wss']) ?? endpoint.fail('uri', 'is required');
  const rate = /^audio\/l16\s*;\s*rate=(8000|16000|24000)$/i.exec(
    endpoint.text('content-type') ?? 'audio/l16;rate=16000',
  );
  if (rate === null) endpoint.fail('content-type', 'must be audio/l16;rate=8000, 16000 or 24000');
  const audio = { encoding: 'l16' as const, sample_rate: Number(rate?.[1]) };
  const target = { url, protocol: 'vonage', name: null, custom: endpoint.texted('headers'), status: null, audio };
  return { action: 'connect', to: { kind: 'stream', ...target }, next };
}

function conversation(options: NccoOptions): ConferenceJoin {
  const name = options.text('name') ?? options.fail('name', 'is required');
  if (name.length > maxRoomName) options.fail('name', `has more than ${maxRoomName} characters`);
  const music = options.address('musicOnHoldUrl');
  const next = events(options);
  return {
    action: 'conference',
    name,
    label: null,
    startOnEnter: options.flag('startOnEnter', true),
    endOnExit: options.flag('endOnExit', false),
    muted: options.flag('mute', false),
    beep: { entered: false, left: false },
    wait: music === null ? 'silence' : { url: music, method: 'GET' },
    maxParticipants: maxSeats,
    record: options.flag('record', false),
    recordingStatus: next && { to: next, events: ['completed'] },
    timeLimitSec: 86_400,
    hangupOnStar: false,
    status: null,
    next: null,
  };
}

function notify(options: NccoOptions): Action {
  const payload = options.value('payload') ?? {};
  return { action: 'notify', next: events(options) ?? options.fail('eventUrl', 'is required'), payload };
}
