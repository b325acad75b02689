/** The verbs of TwiML that connect a caller with others: `<Dial>` and its nouns, `<Enqueue>`, `<Refer>`. */
import {
  type ConferenceJoin,
  clientAddress,
  type Dial,
  type DialQueue,
  type DialTarget,
  type Enqueue,
  maxQueueSize,
  maxRoomName,
  maxSeats,
  sipAddress,
  type WaitMusic,
} from './actions.js';
import { elementsOf, fail, textOf, type Verb } from './twiml-element.js';
import type { XmlElement } from './xml.js';
import { twiml } from './xml-dialect.js';

const recordWords = [
  'do-not-record',
  'record-from-answer',
  'record-from-answer-dual',
  'record-from-ringing',
  'record-from-ringing-dual',
  'true',
  'false',
] as const;

/** Of one `<Dial>`. */
const mostTargets = 10;

export function dial(verb: Verb): Dial | DialQueue | ConferenceJoin {
  const nouns = elementsOf(verb.element);
  // A caller is in one room, or in one queue, and nowhere else.
  const room = nouns.find(({ name }) => name === 'Conference' || name === 'Queue');
  if (room !== undefined) {
    for (const { name } of nouns)
      if (name !== room.name) verb.note(`<${name.slice(0, 50)}> cannot stand beside <${room.name}>; it is left out`);
    return room.name === 'Queue' ? dialQueue(verb, verb.inside(room)) : conference(verb, verb.inside(room));
  }
  const to =
    nouns.length === 0
      ? [{ to: international(verb), sendDigits: null, auth: null, screen: null, status: null }]
      : verb.each(nouns, (noun) => dialTarget(noun));
  if (to.length === 0) dialTarget(verb.inside(nouns[0] as XmlElement)); // throws the reason
  if (to.length > mostTargets)
    verb.note(`has more than ${mostTargets} destinations; the first ${mostTargets} are called`);
  return {
    action: 'dial',
    to: to.slice(0, mostTargets),
    from: withPlus(verb, verb.attribute('callerId')?.trim() ?? '') || null,
    timeoutSec: verb.number('timeout', 5, 600, 30),
    timeLimitSec: verb.number('timeLimit', 1, 86_400, 14_400),
    answerOnBridge: verb.flag('answerOnBridge', false),
    record: recordFrom(verb),
    recordingStatus: verb.statusCallback('recordingStatusCallback', ['completed']),
    hangupOnStar: verb.flag('hangupOnStar', false),
    sequential: verb.flag('sequential', false),
    refer: verb.optionalFollowUp('referUrl', 'referMethod'),
    ringTone: (verb.attribute('ringTone') ?? 'us').toLowerCase(),
    next: verb.optionalFollowUp('action'),
  };
}

function recordFrom(verb: Verb): Dial['record'] {
  const word = verb.word('record', recordWords);
  return word === 'do-not-record' || word === 'false' ? null : word.includes('ringing') ? 'ringing' : 'answer';
}

export function enqueue(verb: Verb): Enqueue {
  return {
    action: 'enqueue',
    queue: nameOf(verb),
    wait: waitMusic(verb, 'waitUrlMethod'),
    maxSize: wholeOrNull(verb.number('maxQueueSize', 1, maxQueueSize, null)),
    next: verb.optionalFollowUp('action'),
  };
}

function dialQueue(verb: Verb, noun: Verb): DialQueue {
  return {
    action: 'dial_queue',
    queue: nameOf(noun),
    whisper: noun.optionalFollowUp('url'),
    timeoutSec: verb.number('timeout', 5, 600, 30),
    timeLimitSec: verb.number('timeLimit', 1, 86_400, 14_400),
    hangupOnStar: verb.flag('hangupOnStar', false),
    record: recordFrom(verb) !== null,
    recordingStatus: verb.statusCallback('recordingStatusCallback', ['completed']),
    ringTone: (verb.attribute('ringTone') ?? 'us').toLowerCase(),
    next: verb.optionalFollowUp('action'),
  };
}

function wholeOrNull(value: number | null): number | null {
  return value === null ? null : Math.round(value);
}

/** The name of a conference or a queue. */
function nameOf(noun: Verb): string {
  const name = noun.text();
  return name.length > maxRoomName ? fail(noun.element, `has a name of more than ${maxRoomName} characters`) : name;
}

const beeps = {
  true: { entered: true, left: true },
  false: { entered: false, left: false },
  onEnter: { entered: true, left: false },
  onExit: { entered: false, left: true },
} as const;

function conference(verb: Verb, noun: Verb): ConferenceJoin {
  const record = noun.word('record', ['do-not-record', 'record-from-start', 'false', 'true']);
  return {
    action: 'conference',
    name: nameOf(noun),
    label: noun.attribute('participantLabel')?.slice(0, 128) || null,
    startOnEnter: noun.flag('startConferenceOnEnter', true),
    endOnExit: noun.flag('endConferenceOnExit', false),
    muted: noun.flag('muted', false),
    beep: beeps[noun.word('beep', ['true', 'false', 'onEnter', 'onExit'])],
    wait: waitMusic(noun, 'waitMethod'),
    maxParticipants: Math.round(noun.number('maxParticipants', 2, maxSeats, maxSeats)),
    record: record === 'record-from-start' || record === 'true',
    recordingStatus: noun.statusCallback('recordingStatusCallback', ['completed']),
    timeLimitSec: verb.number('timeLimit', 1, 86_400, 14_400),
    hangupOnStar: verb.flag('hangupOnStar', false),
    status: noun.statusCallback('statusCallback', ['start', 'end']),
    next: verb.optionalFollowUp('action'),
  };
}

function waitMusic(noun: Verb, method: string): WaitMusic {
  noun.attribute(method); // without a URL it has no effect
  if (noun.attribute('waitUrl')?.trim() === '') return 'silence';
  return noun.optionalFollowUp('waitUrl', method) ?? 'tone';
}

function dialTarget(noun: Verb): DialTarget {
  const sent = noun.matching('sendDigits', /^[0-9A-DwW*#]+$/, 'keys of a phone (0-9 A-D * # w W)');
  const username = noun.attribute('username');
  return {
    to: noun.element.name === 'Number' ? international(noun) : destination(noun.element),
    sendDigits: noun.element.name === 'Number' ? (sent?.replace(/W/g, 'ww') ?? null) : null,
    auth: username === null ? null : { username, password: noun.attribute('password') ?? '' },
    screen: noun.optionalFollowUp('url'),
    ...(noun.dialect !== twiml && acceptedBy(noun)),
    status: noun.statusCallback('statusCallback', ['completed']),
  };
}

/** Of a dialect: the key that the phone must press. */
function acceptedBy(noun: Verb): Pick<DialTarget, 'acceptedBy'> {
  const keys = noun.attribute('acceptKey');
  const timeoutSec = noun.number('acceptTimeout', 1, 600, 120);
  return keys === null || !/^[0-9*#]+$/.test(keys) ? {} : { acceptedBy: { keys, timeoutSec } };
}

/** A number is kept as it is written, and its country is that of the call, unless the platform writes all numbers with their country. */
function international(noun: Verb): string {
  return withPlus(noun, noun.text());
}

function withPlus({ dialect }: Verb, number: string): string {
  return dialect.numbersWithoutPlus && /^[1-9]\d{7,14}$/.test(number) ? `+${number}` : number;
}

function destination(noun: XmlElement): string {
  const text = textOf(noun);
  if (noun.name === 'Client') {
    const [identity] = elementsOf(noun).filter(({ name }) => name === 'Identity');
    const to = `client:${textOf(identity ?? noun)}`;
    return clientAddress.test(to) ? to : fail(noun, 'needs the name of a user');
  }
  if (noun.name !== 'Sip') return fail(noun, 'cannot be dialled here; Number, Sip, Client, Conference and Queue can');
  const uri = /^sips?:/i.test(text) ? text : `sip:${text}`;
  return sipAddress.test(uri) ? uri : fail(noun, 'needs a SIP address');
}

export function refer(verb: Verb): string {
  const [sip] = elementsOf(verb.element);
  return sip?.name === 'Sip' ? destination(sip) : fail(verb.element, 'needs a <Sip>');
}
