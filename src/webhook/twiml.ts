import {
  type Action,
  type Connect,
  type ConversationRelay,
  type Gather,
  type InterruptedBy,
  interruptSensitivities,
  languageTag,
  maxActions,
  maxHintsLength,
  maxTextLength,
  type Prompt,
  type Record,
  type StartRecording,
  type StartStream,
  type StartTranscription,
  type StreamTarget,
  sentKeys,
} from './actions.js';
import { spokenOf } from './speech-markup.js';
import { dial, enqueue, refer } from './twiml-dial.js';
import { elementsOf, fail, Verb } from './twiml-element.js';
import { parseXml, type XmlElement } from './xml.js';
import { inTwiml, twiml, type XmlDialect } from './xml-dialect.js';

/** Of one document. */
const mostWarnings = 20;

/**
 * Reads a TwiML document, or one of a dialect of it: the verbs that calls use, with the platform's defaults. Everything without effect causes a warning: an attribute that is unknown
 * or malformed, and an element that is unknown, incomplete or in the wrong place, which is skipped. A document that is not XML, or of
 * which no verb can be carried out, is an error. Relative URLs, and an absent `action`, are resolved against `documentUrl`. Throws
 * `InstructionError` with the line.
 */
export function parseTwiml(text: string, documentUrl: string, dialect: XmlDialect = twiml): Action[] {
  const root = parseXml(text);
  if (root.name !== 'Response') fail(root, 'the document must be a <Response>');
  const verbs = elementsOf(root).flatMap((element) => inTwiml(element, dialect));
  if (verbs.length > maxActions) fail(root, `there are more than ${maxActions} verbs`);
  const failures: unknown[] = [];
  let warned = 0;
  const actions = verbs.flatMap((element) => {
    const verb = new Verb(element, documentUrl, dialect);
    let read: Action[] = [];
    try {
      read = actionsOf(verb);
    } catch (error) {
      verb.leftOut(error);
      failures.push(error);
    }
    const warnings = verb.warnings.slice(0, mostWarnings - warned);
    warned += warnings.length;
    return [...warnings.map((message): Action => ({ action: 'warn', message })), ...read];
  });
  if (verbs.length > 0 && failures.length === verbs.length) throw failures[0];
  return actions;
}

function actionsOf(verb: Verb): Action[] {
  switch (verb.element.name) {
    case 'Say':
    case 'Play':
    case 'Pause':
      return verb.element.name === 'Play' && verb.attribute('digits') !== null ? [keys(verb)] : prompts(verb);
    default:
      return [actionOf(verb)];
  }
}

function actionOf(verb: Verb): Action {
  switch (verb.element.name) {
    case 'Gather':
      return gather(verb);
    case 'Record':
      return record(verb);
    case 'Connect':
      return connect(verb);
    case 'Start':
      return start(verb);
    case 'Stop':
      return stop(verb);
    case 'Dial':
      return dial(verb);
    case 'Enqueue':
      return enqueue(verb);
    case 'Leave':
      return { action: 'leave' };
    case 'Redirect':
      return { action: 'redirect', next: { url: verb.resolve(verb.text()), method: verb.method('method') } };
    case 'Reject':
      return { action: 'reject', status: verb.word('reason', ['rejected', 'busy']) === 'busy' ? 486 : 603 };
    case 'Hangup':
      return { action: 'hangup' };
    case 'Refer':
      return { action: 'transfer', to: refer(verb) };
    default:
      return fail(
        verb.element,
        'is no verb of ours; those are Say, Play, Pause, Gather, Record, Dial, Enqueue, Leave, Connect, Start, Stop, Redirect, Refer, Reject and Hangup',
      );
  }
}

function prompts(verb: Verb): Prompt[] {
  if (verb.element.name === 'Pause') return [{ action: 'pause', seconds: verb.number('length', 0, 600, 1) }];
  const loop = Math.round(verb.number('loop', 0, 1000, 1));
  if (verb.element.name === 'Play') return [{ action: 'play', url: verb.resolve(verb.text()), loop }];
  return say(verb, loop);
}

/** A text with breaks becomes several texts with silence between them. */
function say(verb: Verb, loop: number): Prompt[] {
  const voice = { voice: verb.attribute('voice'), language: verb.attribute('language') };
  const { parts, unheeded } = spokenOf(verb.element);
  for (const { name, line } of unheeded)
    verb.note(`<${name.slice(0, 50)}> in line ${line} has no effect; its words are spoken as they are`);
  const length = parts.reduce((sum, part) => sum + (typeof part === 'string' ? part.length : 0), 0);
  if (length > maxTextLength) fail(verb.element, `has more than ${maxTextLength} characters`);
  if (length === 0) verb.note('has no text; nothing is said');
  if (parts.length === 0) return [];
  const texts = parts.filter((part) => typeof part === 'string');
  // A single text can be repeated without a gap, and without end.
  if (texts.length === parts.length) return [{ action: 'say', text: texts.join(' '), ...voice, loop }];
  if (loop === 0 || parts.length * loop > maxActions) {
    verb.note(`<break> has no effect in a text that is repeated ${loop === 0 ? 'without end' : 'so often'}`);
    return [{ action: 'say', text: texts.join(' '), ...voice, loop }];
  }
  const once = parts.map(
    (part): Prompt =>
      typeof part === 'string'
        ? { action: 'say', text: part, ...voice, loop: 1 }
        : { action: 'pause', seconds: part.pauseSec },
  );
  return Array.from({ length: loop }, () => once).flat();
}

/** `<Play digits>` sends keys. */
function keys(verb: Verb): Action {
  const digits = (verb.attribute('digits') ?? '').replace(/W/g, 'ww').replace(/[a-d]/g, (key) => key.toUpperCase());
  return sentKeys.test(digits)
    ? { action: 'dtmf', digits }
    : fail(verb.element, 'digits must be keys of a phone (0-9 A-D * # w W)');
}

function gather(verb: Verb): Gather {
  const nested = verb.each(elementsOf(verb.element), (inside) =>
    /^(Say|Play|Pause)$/.test(inside.element.name) ? prompts(inside) : fail(inside.element, 'cannot stand in <Gather>'),
  );
  const timeoutSec = verb.attribute('timeout') === 'auto' ? 5 : verb.number('timeout', 0, 600, 5);
  const betweenKeysSec = verb.number('betweenKeys', 0, 600, timeoutSec); // of dialects only
  return {
    action: 'gather',
    ...inputOf(verb),
    // Absent: the timeout of keys, as at Twilio; `auto`: the end of the sentence.
    speechTimeoutSec: verb.attribute('speechTimeout') === 'auto' ? 1 : verb.number('speechTimeout', 0, 600, timeoutSec),
    language: verb.matching('language', languageTag, 'a language code such as en-US'),
    hints: verb.attribute('hints')?.slice(0, maxHintsLength) ?? null,
    numDigits: verb.number('numDigits', 1, 1000, null),
    finishOnKey: verb.keys('finishOnKey', '#'),
    timeoutSec,
    prompts: nested.flat(),
    ...(betweenKeysSec !== timeoutSec && { betweenKeysSec }),
    ...(!verb.flag('log', true) && { redact: true }),
    next: verb.followUp('action'),
    nextWhenEmpty: verb.flag('actionOnEmptyResult', false),
  };
}

function inputOf(verb: Verb): Pick<Gather, 'digits' | 'speech'> {
  const words = (verb.attribute('input') ?? 'dtmf').trim().split(/[\s,]+/);
  const [digits, speech] = [words.includes('dtmf'), words.includes('speech')];
  if (words.some((word) => word !== 'dtmf' && word !== 'speech'))
    verb.note(`input must be dtmf, speech or both; ${digits || speech ? 'the rest has no effect' : '"dtmf" is used'}`);
  return { digits: digits || !speech, speech };
}

function record(verb: Verb): Record {
  const transcribed = verb.optionalFollowUp('transcribeCallback', 'transcribeCallbackMethod');
  return {
    action: 'record',
    maxSec: verb.number('maxLength', 1, 14_400, 3600),
    silenceSec: verb.number('timeout', 0, 600, 5),
    finishOnKey: verb.keys('finishOnKey', '1234567890*#'),
    beep: verb.flag('playBeep', true),
    trim: verb.word('trim', ['trim-silence', 'do-not-trim']) === 'trim-silence',
    next: verb.followUp('action'),
    nextWhenEmpty: false,
    status: verb.statusCallback('recordingStatusCallback', ['completed']),
    transcription: verb.flag('transcribe', transcribed !== null) ? { next: transcribed } : null,
  };
}

function connect(verb: Verb): Connect | ConversationRelay {
  const noun = oneOf(verb, ['Stream', 'ConversationRelay']);
  if (noun.element.name === 'ConversationRelay') return conversationRelay(noun, verb);
  const stream = streamTarget(noun);
  const next = verb.optionalFollowUp('action');
  return { action: 'connect', to: { kind: 'stream', ...stream }, next };
}

const interruptions = ['any', 'speech', 'dtmf', 'none', 'true', 'false'] as const;

function interruptedBy(noun: Verb, name: string, absent: InterruptedBy): InterruptedBy {
  if (noun.attribute(name) === null) return absent;
  const word = noun.word(name, interruptions);
  return word === 'true' ? 'any' : word === 'false' ? 'none' : word;
}

const relayEvents = ['speaker-events', 'tokens-played'];

/** `debug` is the older name of `events`. */
function relayReports(noun: Verb): ConversationRelay['reports'] {
  const words = ['events', 'debug'].flatMap((name) => {
    const named = (noun.attribute(name) ?? '').split(/[\s,]+/).filter(Boolean);
    if (named.some((word) => !relayEvents.includes(word)))
      noun.note(`${name} must be ${relayEvents.join(' or ')}; the rest has no effect`);
    return named;
  });
  return { speakers: words.includes('speaker-events'), played: words.includes('tokens-played') };
}

/** `speechTimeout` is in milliseconds, or `auto`. */
function relayPause(noun: Verb): number | null {
  if (noun.attribute('speechTimeout')?.trim() === 'auto' || noun.attribute('speechTimeout') === null) return null;
  return noun.number('speechTimeout', 500, 5000, 700) / 1000;
}

function conversationRelay(noun: Verb, verb: Verb): ConversationRelay {
  const languages = elementsOf(noun.element).filter(({ name }) => name === 'Language');
  const voices = noun.each(languages, (each) => {
    const [code, voice] = [each.attribute('code'), each.attribute('voice')];
    return code === null ? fail(each.element, 'needs a code') : ([code, voice] as const);
  });
  const language = noun.matching('language', languageTag, 'a language code such as en-US');
  const tag = (name: string) => noun.matching(name, languageTag, 'a language code such as en-US') ?? language;
  const welcome = noun.attribute('welcomeGreeting')?.trim().slice(0, maxTextLength) ?? '';
  const interruptible = interruptedBy(noun, 'welcomeGreetingInterruptible', 'any');
  return {
    action: 'conversation_relay',
    url: noun.resolve(noun.attribute('url') ?? '', ['ws', 'wss']),
    custom: parametersOf(
      noun,
      elementsOf(noun.element).filter(({ name }) => name !== 'Language'),
    ),
    welcome: welcome === '' ? null : { text: welcome, interruptible },
    interruptible: interruptedBy(noun, 'interruptible', 'any'),
    preemptible: noun.flag('preemptible', false),
    language: { spoken: tag('ttsLanguage'), heard: tag('transcriptionLanguage') },
    voice: noun.attribute('voice'),
    voices: Object.fromEntries(voices.flatMap(([code, voice]) => (voice === null ? [] : [[code, voice]]))),
    hints: noun.attribute('hints')?.slice(0, maxHintsLength) ?? null,
    dtmf: noun.flag('dtmfDetection', false),
    reports: relayReports(noun),
    reportsDuringSpeech: interruptedBy(noun, 'reportInputDuringAgentSpeech', 'none'),
    partialPrompts: noun.flag('partialPrompts', false),
    interruptSensitivity: noun.word('interruptSensitivity', interruptSensitivities),
    ignoreBackchannel: noun.flag('ignoreBackchannel', false),
    pauseSec: relayPause(noun),
    next: verb.optionalFollowUp('action'),
  };
}

const tracks = { inbound_track: 'inbound', outbound_track: 'outbound', both_tracks: 'both' } as const;

function start(verb: Verb): StartStream | StartRecording | StartTranscription {
  const noun = oneOf(verb, ['Stream', 'Recording', 'Transcription']);
  if (noun.element.name === 'Recording') return startRecording(noun);
  if (noun.element.name === 'Transcription') return startTranscription(noun);
  const stream = noun;
  const track = tracks[stream.word('track', ['inbound_track', 'outbound_track', 'both_tracks'])];
  return { action: 'start_stream', stream: streamTarget(stream), track };
}

function stop(verb: Verb): Action {
  const noun = oneOf(verb, ['Stream', 'Transcription']);
  const name = noun.attribute('name');
  return { action: noun.element.name === 'Stream' ? 'stop_stream' : 'stop_transcription', name };
}

function startRecording(noun: Verb): StartRecording {
  const track = noun.word('track', ['both', 'inbound', 'outbound']);
  const channels = noun.word('channels', ['dual', 'mono']);
  if (track === 'outbound') noun.note('track "outbound" cannot be recorded alone; both are');
  else if (track === 'both' && channels === 'mono') noun.note('channels "mono" needs track "inbound"; there are two');
  return {
    action: 'start_recording',
    channels: track === 'inbound' ? 1 : 2,
    status: noun.statusCallback('recordingStatusCallback', ['completed']),
  };
}

function startTranscription(noun: Verb): StartTranscription {
  if (noun.word('track', ['both_tracks', 'inbound_track', 'outbound_track']) !== 'inbound_track')
    noun.note('only the inbound track is transcribed: what the caller says');
  noun.attribute('outboundTrackLabel');
  return {
    action: 'start_transcription',
    name: noun.attribute('name'),
    language: noun.matching('languageCode', languageTag, 'a language code such as en-US'),
    hints: noun.attribute('hints')?.slice(0, maxHintsLength) ?? null,
    label: noun.attribute('inboundTrackLabel'),
    status: noun.optionalFollowUp('statusCallbackUrl', 'statusCallbackMethod'),
  };
}

/** The first nested element with one of these names. */
function oneOf(verb: Verb, names: readonly [string, ...string[]]): Verb {
  const nested = elementsOf(verb.element);
  const noun = nested.find(({ name }) => names.includes(name));
  const wanted = names.map((name) => `<${name}>`).join(' or ');
  if (noun === undefined) return fail(nested[0] ?? verb.element, `needs one ${wanted} in <${verb.element.name}>`);
  for (const other of nested)
    if (other !== noun) verb.note(`<${other.name.slice(0, 50)}> cannot stand beside <${noun.name}>; it is left out`);
  return verb.inside(noun);
}

/** The values of `<Parameter>`. */
function parametersOf(noun: Verb, elements: readonly XmlElement[]): { [name: string]: string } {
  const pairs = noun.each(elements, (parameter) => {
    if (parameter.element.name !== 'Parameter') fail(parameter.element, `cannot stand in <${noun.element.name}>`);
    const [name, value] = [parameter.attribute('name'), parameter.attribute('value')];
    return name === null || value === null ? fail(parameter.element, 'needs name and value') : [name, value];
  });
  return Object.fromEntries(pairs);
}

const encodings: { [name: string]: NonNullable<StreamTarget['audio']>['encoding'] } = {
  pcmu: 'ulaw',
  'x-mulaw': 'ulaw',
  pcma: 'alaw',
  l16: 'l16',
  'x-l16': 'l16',
};

/** In a dialect, `audio/x-l16;rate=16000`, or `L16 16000`. Without a rate that of G.711. */
function streamAudio(stream: Verb): StreamTarget['audio'] | null {
  if (stream.dialect === twiml) return null;
  const written = stream.attribute('audio');
  if (written === null) return null;
  const [, name = '', rate = '8000'] = /^(?:audio\/)?([\w-]+)(?:[;\s]+(?:rate=)?(\d+))?[;\s]*$/i.exec(written) ?? [];
  const encoding = encodings[name.toLowerCase()];
  if (encoding !== undefined) return { encoding, sample_rate: Number(rate) };
  stream.note(`the audio "${written.trim().slice(0, 50)}" is not available; that of the protocol is used`);
  return null;
}

function streamTarget(stream: Verb): StreamTarget {
  const audio = streamAudio(stream);
  return {
    url: stream.resolve(stream.attribute('url') ?? '', ['ws', 'wss']),
    protocol: stream.dialect.streams,
    name: stream.attribute('name'),
    custom: parametersOf(stream, elementsOf(stream.element)),
    ...(audio !== null && { audio }),
    status: stream.statusCallback('statusCallback', ['stream-started', 'stream-stopped', 'stream-error']),
  };
}
