import {
  type Action,
  type Conference,
  type Connect,
  clientAddress,
  type Dial,
  type DialTarget,
  e164,
  type FollowUp,
  type Gather,
  languageTag,
  maxActions,
  maxHintsLength,
  maxRoomName,
  maxSeats,
  maxTextLength,
  type Prompt,
  type Record,
  type StartStream,
  type StreamTarget,
  sentKeys,
  sipAddress,
  type WaitMusic,
} from './instructions.js';
import { elementsOf, fail, textOf, Verb } from './verb.js';
import { parseXml, type XmlElement } from './xml.js';

/** Of one document. */
const mostWarnings = 20;

/**
 * Reads a TwiML document: the verbs that calls use, with Twilio's defaults. Attributes that have no effect are warned of; an unknown verb,
 * or one in the wrong place, is an error. Relative URLs, and an absent `action`, are resolved against `documentUrl`. Throws `InstructionError` with the line.
 */
export function parseTwiml(text: string, documentUrl: string): Action[] {
  const root = parseXml(text);
  if (root.name !== 'Response') fail(root, 'the document must be a <Response>');
  const verbs = elementsOf(root);
  if (verbs.length > maxActions) fail(root, `there are more than ${maxActions} verbs`);
  let warned = 0;
  return verbs.flatMap((element) => {
    const read: Verb[] = [];
    const action = actionOf(new Verb(element, documentUrl, read));
    const unread = read.flatMap((verb) => verb.unread.map((name) => ({ verb, name })));
    const warnings = unread.slice(0, Math.max(0, mostWarnings - warned)).map(({ verb: { element: at }, name }) => ({
      action: 'warn' as const,
      message: `line ${at.line}: ${name} of <${at.name}> has no effect`,
    }));
    warned += warnings.length;
    return [...warnings, action];
  });
}

function actionOf(verb: Verb): Action {
  switch (verb.element.name) {
    case 'Say':
    case 'Play':
    case 'Pause':
      return verb.element.name === 'Play' && verb.attribute('digits') !== null ? keys(verb) : prompt(verb);
    case 'Gather':
      return gather(verb);
    case 'Record':
      return record(verb);
    case 'Connect':
      return connect(verb);
    case 'Start':
      return start(verb);
    case 'Stop':
      return { action: 'stop_stream', name: streamOf(verb).attribute('name') };
    case 'Dial':
      return dial(verb);
    case 'Redirect':
      return { action: 'redirect', next: { url: verb.resolve(verb.text()), method: verb.method('method') } };
    case 'Reject':
      return { action: 'reject', status: verb.word('reason', ['rejected', 'busy']) === 'busy' ? 486 : 603 };
    case 'Hangup':
      return { action: 'hangup' };
    case 'Refer':
      return { action: 'transfer', to: refer(verb) };
    default:
      return fail(verb.element, 'is no verb of ours');
  }
}

function prompt(verb: Verb): Prompt {
  if (verb.element.name === 'Pause') return { action: 'pause', seconds: verb.number('length', 0, 600, 1) };
  const loop = verb.number('loop', 0, 1000, 1);
  if (verb.element.name === 'Play') return { action: 'play', url: verb.resolve(verb.text()), loop };
  const text = verb.allText();
  if (text === '') fail(verb.element, 'has no text');
  if (text.length > maxTextLength) fail(verb.element, 'has too much text');
  return { action: 'say', text, voice: verb.attribute('voice'), language: verb.attribute('language'), loop };
}

/** `<Play digits>` sends keys. */
function keys(verb: Verb): Action {
  const digits = (verb.attribute('digits') ?? '').replace(/W/g, 'ww').replace(/[a-d]/g, (key) => key.toUpperCase());
  return sentKeys.test(digits) ? { action: 'dtmf', digits } : verb.bad('digits', 'must be keys of a phone');
}

function gather(verb: Verb): Gather {
  const input = (verb.attribute('input') ?? 'dtmf').trim().split(/[\s,]+/);
  for (const each of input) if (each !== 'dtmf' && each !== 'speech') verb.bad('input', 'must be dtmf, speech or both');
  const prompts = elementsOf(verb.element).map((nested) =>
    nested.name === 'Say' || nested.name === 'Play' || nested.name === 'Pause'
      ? prompt(verb.inside(nested))
      : fail(nested, 'cannot stand in <Gather>'),
  );
  const timeoutSec = verb.attribute('timeout') === 'auto' ? 5 : verb.number('timeout', 0, 600, 5);
  const speechTimeout = verb.attribute('speechTimeout');
  const language = verb.attribute('language');
  if (language !== null && !languageTag.test(language)) verb.bad('language', 'must be a language code');
  return {
    action: 'gather',
    digits: input.includes('dtmf'),
    speech: input.includes('speech'),
    // Absent it is the timeout of keys, as Twilio has it; `auto` ends with the sentence.
    speechTimeoutSec: speechTimeout === 'auto' ? 1 : verb.number('speechTimeout', 0, 600, timeoutSec),
    language,
    hints: verb.attribute('hints')?.slice(0, maxHintsLength) ?? null,
    numDigits: verb.attribute('numDigits') === null ? null : verb.number('numDigits', 1, 1000, 1),
    finishOnKey: verb.keys('finishOnKey', '#'),
    timeoutSec,
    prompts,
    next: verb.followUp('action', ''),
    nextWhenEmpty: verb.flag('actionOnEmptyResult', false),
  };
}

function record(verb: Verb): Record {
  return {
    action: 'record',
    maxSec: verb.number('maxLength', 1, 14_400, 3600),
    silenceSec: verb.number('timeout', 0, 600, 5),
    finishOnKey: verb.keys('finishOnKey', '1234567890*#'),
    beep: verb.flag('playBeep', true),
    trim: verb.word('trim', ['trim-silence', 'do-not-trim']) === 'trim-silence',
    next: verb.followUp('action', ''),
    nextWhenEmpty: false,
    status: verb.statusCallback('recordingStatusCallback', ['completed']),
  };
}

function connect(verb: Verb): Connect {
  const stream = streamTarget(streamOf(verb));
  const next = nextOf(verb);
  return { action: 'connect', to: { kind: 'stream', protocol: 'twilio', ...stream }, next };
}

const tracks = { inbound_track: 'inbound', outbound_track: 'outbound', both_tracks: 'both' } as const;

function start(verb: Verb): StartStream {
  const stream = streamOf(verb);
  const track = tracks[stream.word('track', ['inbound_track', 'outbound_track', 'both_tracks'])];
  return { action: 'start_stream', stream: streamTarget(stream), track };
}

/** The one `<Stream>` of `<Connect>`, `<Start>` and `<Stop>`. */
function streamOf(verb: Verb): Verb {
  const [stream, more] = elementsOf(verb.element);
  if (stream?.name !== 'Stream') return fail(stream ?? verb.element, `needs one <Stream> in <${verb.element.name}>`);
  if (more) fail(more, 'cannot stand beside <Stream>');
  return verb.inside(stream);
}

function streamTarget(stream: Verb): StreamTarget {
  const custom: { [name: string]: string } = {};
  for (const parameter of elementsOf(stream.element)) {
    const { name, value } = parameter.attributes;
    if (parameter.name !== 'Parameter') fail(parameter, 'cannot stand in <Stream>');
    if (name === undefined || value === undefined) return fail(parameter, 'needs name and value');
    custom[name] = value;
  }
  return {
    url: stream.resolve(stream.attribute('url') ?? '', ['ws', 'wss']),
    name: stream.attribute('name'),
    custom,
    status: stream.statusCallback('statusCallback', ['stream-started', 'stream-stopped', 'stream-error']),
  };
}

const recordWords = [
  'do-not-record',
  'record-from-answer',
  'record-from-answer-dual',
  'record-from-ringing',
  'record-from-ringing-dual',
  'true',
  'false',
] as const;

function dial(verb: Verb): Dial | Conference {
  const nouns = elementsOf(verb.element);
  const room = nouns.find(({ name }) => name === 'Conference');
  if (room !== undefined && nouns.length > 1) fail(room, 'cannot stand beside others');
  if (room !== undefined) return conference(verb, verb.inside(room));
  const to = nouns.map((noun) => dialTarget(verb.inside(noun)));
  if (nouns.length === 0) {
    const number = verb.text().replace(/[ ().-]/g, '');
    if (!e164.test(number)) fail(verb.element, 'needs an E.164 number');
    to.push({ to: number, sendDigits: null, auth: null, status: null });
  }
  if (to.length > 10) fail(verb.element, 'has more than 10 destinations');
  const record = verb.word('record', recordWords);
  const from = verb.attribute('callerId');
  if (from !== null && !callerId.test(from)) verb.bad('callerId', 'must be a number or a SIP user');
  return {
    action: 'dial',
    to,
    from,
    timeoutSec: verb.number('timeout', 5, 600, 30),
    timeLimitSec: verb.number('timeLimit', 1, 86_400, 14_400),
    answerOnBridge: verb.flag('answerOnBridge', false),
    record: record === 'do-not-record' || record === 'false' ? null : record.includes('ringing') ? 'ringing' : 'answer',
    recordingStatus: verb.statusCallback('recordingStatusCallback', ['completed']),
    hangupOnStar: verb.flag('hangupOnStar', false),
    sequential: verb.flag('sequential', false),
    refer: verb.attribute('referUrl') === null ? null : verb.followUp('referUrl', '', 'referMethod'),
    ringTone: (verb.attribute('ringTone') ?? 'us').toLowerCase(),
    next: nextOf(verb),
  };
}

/** What is asked afterwards, if anything. */
function nextOf(verb: Verb): FollowUp | null {
  return verb.attribute('action') === null ? null : verb.followUp('action', '');
}

const beeps = {
  true: { entered: true, left: true },
  false: { entered: false, left: false },
  onEnter: { entered: true, left: false },
  onExit: { entered: false, left: true },
} as const;

function conference(verb: Verb, noun: Verb): Conference {
  const record = noun.word('record', ['do-not-record', 'record-from-start', 'false', 'true']);
  const name = noun.text();
  if (name.length > maxRoomName) fail(noun.element, `has a name of more than ${maxRoomName} characters`);
  return {
    action: 'conference',
    name,
    label: noun.attribute('participantLabel')?.slice(0, 128) || null,
    startOnEnter: noun.flag('startConferenceOnEnter', true),
    endOnExit: noun.flag('endConferenceOnExit', false),
    muted: noun.flag('muted', false),
    beep: beeps[noun.word('beep', ['true', 'false', 'onEnter', 'onExit'])],
    wait: waitMusic(noun),
    maxParticipants: Math.round(noun.number('maxParticipants', 2, maxSeats, maxSeats)),
    record: record === 'record-from-start' || record === 'true',
    recordingStatus: noun.statusCallback('recordingStatusCallback', ['completed']),
    timeLimitSec: verb.number('timeLimit', 1, 86_400, 14_400),
    hangupOnStar: verb.flag('hangupOnStar', false),
    status: noun.statusCallback('statusCallback', ['start', 'end']),
    next: nextOf(verb),
  };
}

function waitMusic(noun: Verb): WaitMusic {
  const url = noun.attribute('waitUrl');
  const method = noun.method('waitMethod');
  if (url === null) return 'tone';
  return url.trim() === '' ? 'silence' : { url: noun.resolve(url), method };
}

const callerId = /^[\w+.-]{1,64}$/;

function dialTarget(noun: Verb): DialTarget {
  const sendDigits = noun.attribute('sendDigits')?.replace(/W/g, 'ww') ?? null;
  if (sendDigits !== null && !sentKeys.test(sendDigits)) noun.bad('sendDigits', 'must be keys of a phone');
  const username = noun.attribute('username');
  return {
    to: destination(noun.element),
    sendDigits: noun.element.name === 'Number' ? sendDigits : null,
    auth: username === null ? null : { username, password: noun.attribute('password') ?? '' },
    status: noun.statusCallback('statusCallback', ['completed']),
  };
}

function destination(noun: XmlElement): string {
  const text = textOf(noun);
  if (noun.name === 'Number') {
    const number = text.replace(/[ ().-]/g, '');
    return e164.test(number) ? number : fail(noun, 'needs an E.164 number');
  }
  if (noun.name === 'Client') {
    const [identity] = elementsOf(noun).filter(({ name }) => name === 'Identity');
    const to = `client:${textOf(identity ?? noun)}`;
    return clientAddress.test(to) ? to : fail(noun, 'needs the name of a user');
  }
  if (noun.name !== 'Sip') return fail(noun, 'cannot be dialled here');
  const uri = /^sips?:/i.test(text) ? text : `sip:${text}`;
  return sipAddress.test(uri) ? uri : fail(noun, 'needs a SIP address');
}

function refer(verb: Verb): string {
  const [sip] = elementsOf(verb.element);
  return sip ? destination(sip) : fail(verb.element, 'needs a <Sip>');
}
