/** Plivo XML: https://www.plivo.com/docs/voice/xml/overview */
import type { XmlElement } from '../xml.js';
import type { ElementRule, XmlDialect } from '../xml-dialect.js';

/** `none` and the empty text: no key. */
const finishOnKey = (value: string) => ({ finishOnKey: value === 'none' ? '' : value });
/** Plivo's `auto` is two seconds. */
const autoSec = (name: string) => (value: string) => ({ [name]: value === 'auto' ? '2' : value });
/** Sounds of a conference: `beep:1`, `beep:2`, or an address. */
const sound = (entered: boolean) => (value: string, all: { [name: string]: string }) => {
  const [enter, exit] = [all.enterSound ?? '', all.exitSound ?? ''].map((each) => each.startsWith('beep'));
  if (!value.startsWith('beep')) return null;
  return { beep: enter && exit ? 'true' : entered ? 'onEnter' : 'onExit' };
};
const statusCallback = (events: string) => (value: string) => ({ statusCallback: value, statusCallbackEvent: events });

const conference: ElementRule = {
  as: 'Conference',
  same: ['action', 'method', 'timeLimit', 'hangupOnStar', 'muted', 'startConferenceOnEnter', 'endConferenceOnExit'],
  attributes: {
    waitSound: 'waitUrl',
    waitMethod: 'waitMethod',
    maxMembers: 'maxParticipants',
    record: (value) => ({ record: value === 'true' ? 'record-from-start' : 'do-not-record' }),
    callbackUrl: statusCallback('start end join leave'),
    callbackMethod: 'statusCallbackMethod',
    enterSound: sound(true),
    exitSound: sound(false),
  },
  harmless: ['redirect', 'recordFileFormat', 'stayAlone'],
  defaults: { waitUrl: '', beep: 'false', maxParticipants: '200' },
  rebuild: (read) => [inDial(read, ['action', 'method', 'timeLimit', 'hangupOnStar'])],
};

export const plivoXml: XmlDialect = {
  streams: 'plivo',
  actionWhenAbsent: 'nobody',
  isComplete: true,
  numbersWithoutPlus: true,
  elements: {
    Response: { same: [] },
    Speak: { as: 'Say', same: ['voice', 'language', 'loop'] },
    Play: { same: ['loop'] },
    Wait: { as: 'Pause', same: ['length'] },
    DTMF: {
      as: 'Play',
      same: [],
      harmless: ['async'],
      rebuild: (read) => [{ ...read, attributes: { digits: textOf(read) }, children: [] }],
    },
    PreAnswer: {
      same: [],
      rebuild: (read) => {
        const children = read.children.filter((child) => typeof child !== 'string');
        const note = `line ${read.line}: <PreAnswer> has no effect; the call is answered before anything is heard`;
        const [first] = children;
        if (first?.written !== undefined) first.written.notes.push(note);
        return children;
      },
    },
    GetDigits: {
      as: 'Gather',
      same: ['action', 'method', 'timeout', 'numDigits', 'log'],
      attributes: { finishOnKey, digitTimeout: 'betweenKeys' },
      harmless: ['redirect', 'retries'],
      defaults: { betweenKeys: '2', numDigits: '99' },
      rebuild: repeated,
    },
    GetInput: {
      as: 'Gather',
      same: ['action', 'method', 'numDigits', 'hints', 'language', 'speechModel', 'profanityFilter', 'log'],
      attributes: {
        finishOnKey,
        inputType: 'input',
        executionTimeout: 'timeout',
        digitEndTimeout: autoSec('betweenKeys'),
        speechEndTimeout: autoSec('speechTimeout'),
        interimSpeechResultsCallback: 'partialResultCallback',
        interimSpeechResultsCallbackMethod: 'partialResultCallbackMethod',
      },
      harmless: ['redirect'],
      defaults: { timeout: '15', betweenKeys: '2', speechTimeout: '2', numDigits: '32' },
    },
    Record: {
      same: ['action', 'method', 'timeout', 'maxLength', 'playBeep'],
      attributes: {
        finishOnKey,
        transcriptionUrl: 'transcribeCallback',
        transcriptionMethod: 'transcribeCallbackMethod',
        transcriptionType: () => ({ transcribe: 'true' }),
        callbackUrl: 'recordingStatusCallback',
        callbackMethod: 'recordingStatusCallbackMethod',
        recordSession: () => ({}),
        // Recordings are WAV.
        fileFormat: (value) => (value === 'wav' ? {} : null),
      },
      harmless: ['redirect'],
      defaults: { timeout: '15', maxLength: '60', finishOnKey: '#', trim: 'do-not-trim' },
      rebuild: (read, written) => (written.attributes.recordSession === 'true' ? [inBackground(read)] : [read]),
    },
    Dial: {
      same: ['action', 'method', 'timeout', 'timeLimit', 'hangupOnStar', 'callerId'],
      attributes: {
        callbackUrl: () => ({}),
        callbackMethod: () => ({}),
        confirmSound: () => ({}),
        confirmKey: () => ({}),
        confirmTimeout: () => ({}),
        dialMusic: (value) => (value === 'real' ? {} : null),
      },
      harmless: ['redirect'],
      defaults: { timeout: '120' },
      rebuild: (read, { attributes }) => [
        { ...read, children: read.children.map((child) => callee(child, attributes)) },
      ],
    },
    Number: { same: ['sendDigits'] },
    User: { as: 'Sip', same: [] },
    Conference: conference,
    MultiPartyCall: {
      ...conference,
      same: [],
      attributes: {
        mute: 'muted',
        startMpcOnEnter: 'startConferenceOnEnter',
        endMpcOnExit: 'endConferenceOnExit',
        maxDuration: 'timeLimit',
        maxParticipants: 'maxParticipants',
        waitMusicUrl: 'waitUrl',
        waitMusicMethod: 'waitMethod',
        onExitActionUrl: 'action',
        onExitActionMethod: 'method',
        statusCallbackUrl: statusCallback('start end join leave'),
        statusCallbackMethod: 'statusCallbackMethod',
        recordingCallbackUrl: 'recordingStatusCallback',
        recordingCallbackMethod: 'recordingStatusCallbackMethod',
        record: (value) => ({ record: value === 'true' ? 'record-from-start' : 'do-not-record' }),
        enterSound: sound(true),
        exitSound: sound(false),
      },
      // The SDKs write all of them into each element.
      harmless: [
        ...['redirect', 'recordFileFormat', 'stayAlone', 'role', 'hold', 'relayDTMFInputs', 'statusCallbackEvents'],
        ...['agentHoldMusicMethod', 'customerHoldMusicMethod', 'enterSoundMethod', 'exitSoundMethod', 'coachMode'],
        ...['startRecordingAudioMethod', 'stopRecordingAudioMethod', 'recordParticipantTrack', 'recordMinMemberCount'],
      ],
    },
    Redirect: { same: ['method'] },
    Hangup: {
      same: [],
      attributes: { reason: (value) => ({ reason: value }) },
      rebuild: (read) => [{ ...read, name: read.attributes.reason === undefined ? 'Hangup' : 'Reject' }],
    },
    Stream: {
      same: ['statusCallbackMethod'],
      attributes: {
        statusCallbackUrl: 'statusCallback',
        audioTrack: (value) => ({ track: value === 'both' ? 'both_tracks' : `${value}_track` }),
        contentType: (value) => ({ audio: value }),
        extraHeaders: (value) => ({ extraHeaders: value }),
        bidirectional: () => ({}),
        keepCallAlive: () => ({}),
      },
      rebuild: stream,
    },
  },
};

function textOf({ children }: XmlElement): string {
  return children
    .filter((child) => typeof child === 'string')
    .join('')
    .trim();
}

/** The element within a verb of TwiML, which takes these attributes from it. */
function within(verb: string, inner: XmlElement, attributesOfVerb: readonly string[]): XmlElement {
  const [outside, inside]: [XmlElement['attributes'], XmlElement['attributes']] = [{}, {}];
  for (const [name, value] of Object.entries(inner.attributes))
    (attributesOfVerb.includes(name) ? outside : inside)[name] = value;
  const { line, written } = inner;
  const ofVerb = written && { ...written, unheeded: [], notes: [] };
  return {
    name: verb,
    attributes: outside,
    children: [{ ...inner, attributes: inside }],
    line,
    ...(ofVerb && { written: ofVerb }),
  };
}

function inDial(room: XmlElement, attributes: readonly string[]): XmlElement {
  return within('Dial', room, attributes);
}

/** `<Record recordSession="true">` records until the call ends, while the next elements run. */
function inBackground(read: XmlElement): XmlElement {
  const { recordingStatusCallback, recordingStatusCallbackMethod, action, method } = read.attributes;
  const [url, how] =
    recordingStatusCallback === undefined ? [action, method] : [recordingStatusCallback, recordingStatusCallbackMethod];
  const attributes = {
    ...(url !== undefined && { recordingStatusCallback: url }),
    ...(how !== undefined && { recordingStatusCallbackMethod: how }),
  };
  return within('Start', { ...read, name: 'Recording', attributes, children: [] }, []);
}

const mostRetries = 10;

/** `retries`: the element again, which is reached only when no key was pressed. */
function repeated(read: XmlElement, { attributes }: XmlElement): XmlElement[] {
  const retries = Math.min(mostRetries, Math.max(1, Math.trunc(Number(attributes.retries ?? 1)) || 1));
  if (retries === 1 || read.written === undefined) return [read];
  if (read.written.answerIgnored) {
    read.written.unheeded.push('retries');
    return [read];
  }
  const again = { ...read, written: { ...read.written, unheeded: [], notes: [] } };
  return [read, ...Array.from({ length: retries - 1 }, () => again)];
}

/** A callee gets the `callbackUrl` of its `<Dial>`, and its `confirmSound`. */
function callee(child: XmlElement | string, dial: { [name: string]: string }): XmlElement | string {
  if (typeof child === 'string') return child;
  const { callbackUrl, callbackMethod, confirmSound, confirmKey, confirmTimeout } = dial;
  const attributes = {
    ...child.attributes,
    ...(callbackUrl !== undefined && { statusCallback: callbackUrl, statusCallbackEvent: 'answered completed' }),
    ...(callbackUrl !== undefined && callbackMethod !== undefined && { statusCallbackMethod: callbackMethod }),
    ...(confirmSound !== undefined && { url: confirmSound }),
    ...(confirmSound !== undefined &&
      confirmKey !== undefined && { acceptKey: confirmKey, acceptTimeout: confirmTimeout ?? '120' }),
  };
  return { ...child, attributes };
}

/** A bidirectional stream has the call; another listens while the next elements run. */
function stream(read: XmlElement, written: XmlElement): XmlElement[] {
  const isBidirectional = written.attributes.bidirectional === 'true';
  if (!isBidirectional && written.attributes.keepCallAlive === 'true') read.written?.unheeded.push('keepCallAlive');
  const { extraHeaders = '', ...attributes } = read.attributes;
  const inner: XmlElement = {
    ...read,
    attributes: { ...attributes, url: textOf(read) },
    children: parametersOf(extraHeaders, read.line),
  };
  if (isBidirectional) delete inner.attributes.track;
  return [within(isBidirectional ? 'Connect' : 'Start', inner, [])];
}

/** `name=value,name=value`, or a JSON object. */
function parametersOf(extraHeaders: string, line: number): XmlElement[] {
  const pairs = extraHeaders.trim().startsWith('{') ? jsonPairs(extraHeaders) : textPairs(extraHeaders);
  return pairs.map(([name, value]) => ({ name: 'Parameter', attributes: { name, value }, children: [], line }));
}

function textPairs(text: string): [string, string][] {
  return text.split(/[,;]/).flatMap((each): [string, string][] => {
    const [name = '', ...value] = each.split('=');
    return name.trim() === '' ? [] : [[name.trim(), value.join('=').trim()]];
  });
}

function jsonPairs(text: string): [string, string][] {
  try {
    const object: unknown = JSON.parse(text);
    return Object.entries(object as object).map(([name, value]) => [name, String(value)]);
  } catch {
    return [];
  }
}
