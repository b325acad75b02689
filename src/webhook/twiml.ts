import {
  type Action,
  type Connect,
  type Dial,
  e164,
  type FollowUp,
  InstructionError,
  maxActions,
  maxTextLength,
  type Prompt,
  sentKeys,
  sipAddress,
} from './instructions.js';
import { parseXml, type XmlElement } from './xml.js';

/**
 * Reads a TwiML document: the verbs that calls use, with Twilio's defaults. Attributes that we do not know are ignored, as Twilio ignores
 * them; an unknown verb, or one in the wrong place, is an error. Relative URLs, and an absent `action`, are resolved against
 * `documentUrl`. Throws `InstructionError` with the line.
 */
export function parseTwiml(text: string, documentUrl: string): Action[] {
  const root = parseXml(text);
  if (root.name !== 'Response') fail(root, 'the document must be a <Response>');
  const verbs = elementsOf(root);
  if (verbs.length > maxActions) fail(root, `there are more than ${maxActions} verbs`);
  return verbs.map((verb) => actionOf(new Verb(verb, documentUrl)));
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
      return {
        action: 'record',
        maxSec: verb.number('maxLength', 1, 14_400, 3600),
        silenceSec: verb.number('timeout', 0, 600, 5),
        finishOnKey: verb.keys('finishOnKey', '1234567890*#'),
        beep: verb.flag('playBeep', true),
        next: verb.followUp('action', ''),
      };
    case 'Connect':
      return connect(verb);
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

function gather(verb: Verb): Action {
  const input = (verb.attribute('input') ?? 'dtmf').split(/\s+/);
  const prompts = elementsOf(verb.element).map((nested) =>
    nested.name === 'Say' || nested.name === 'Play' || nested.name === 'Pause'
      ? prompt(new Verb(nested, verb.documentUrl))
      : fail(nested, 'cannot stand in <Gather>'),
  );
  return {
    action: 'gather',
    digits: input.includes('dtmf'),
    speech: input.includes('speech'),
    numDigits: verb.attribute('numDigits') === null ? null : verb.number('numDigits', 1, 1000, 1),
    finishOnKey: verb.keys('finishOnKey', '#'),
    timeoutSec: verb.attribute('timeout') === 'auto' ? 5 : verb.number('timeout', 0, 600, 5),
    prompts,
    next: verb.followUp('action', ''),
    nextWhenEmpty: verb.flag('actionOnEmptyResult', false),
  };
}

function connect(verb: Verb): Connect {
  const [stream, more] = elementsOf(verb.element);
  if (stream?.name !== 'Stream') return fail(stream ?? verb.element, 'needs one <Stream> in <Connect>');
  if (more) fail(more, 'cannot stand beside <Stream>');
  const inner = new Verb(stream, verb.documentUrl);
  const url = inner.resolve(inner.attribute('url') ?? '', ['ws', 'wss']);
  const custom: { [name: string]: string } = {};
  for (const parameter of elementsOf(stream)) {
    const { name, value } = parameter.attributes;
    if (parameter.name !== 'Parameter') fail(parameter, 'cannot stand in <Stream>');
    if (name === undefined || value === undefined) return fail(parameter, 'needs name and value');
    custom[name] = value;
  }
  const next = verb.attribute('action') === null ? null : verb.followUp('action', '');
  return { action: 'connect', to: { kind: 'stream', url, protocol: 'twilio', custom }, next };
}

function dial(verb: Verb): Dial {
  const nouns = elementsOf(verb.element);
  const to = nouns.length === 0 ? [verb.text()] : nouns.map((noun) => destination(noun));
  if (to.length > 10) fail(verb.element, 'has more than 10 destinations');
  for (const each of nouns.length === 0 ? to : []) if (!e164.test(each)) fail(verb.element, 'needs an E.164 number');
  return {
    action: 'dial',
    to,
    from: verb.attribute('callerId'),
    timeoutSec: verb.number('timeout', 5, 600, 30),
    timeLimitSec: verb.number('timeLimit', 1, 86_400, 14_400),
    answerOnBridge: verb.flag('answerOnBridge', false),
    record: (verb.attribute('record') ?? 'do-not-record') !== 'do-not-record' && verb.attribute('record') !== 'false',
    next: verb.attribute('action') === null ? null : verb.followUp('action', ''),
  };
}

function destination(noun: XmlElement): string {
  const text = textOf(noun);
  if (noun.name === 'Number') {
    const number = text.replace(/[ ().-]/g, '');
    return e164.test(number) ? number : fail(noun, 'needs an E.164 number');
  }
  if (noun.name !== 'Sip') return fail(noun, 'cannot be dialled here');
  return sipAddress.test(text) ? text : fail(noun, 'needs a SIP address');
}

function refer(verb: Verb): string {
  const [sip] = elementsOf(verb.element);
  return sip ? destination(sip) : fail(verb.element, 'needs a <Sip>');
}

function elementsOf(element: XmlElement): XmlElement[] {
  return element.children.filter((child) => typeof child !== 'string');
}

function textOf(element: XmlElement): string {
  return element.children
    .filter((child) => typeof child === 'string')
    .join('')
    .trim();
}

function fail(element: XmlElement, problem: string): never {
  throw new InstructionError(`line ${element.line}: <${element.name.slice(0, 50)}>`, problem);
}

/** One verb and its attributes. */
class Verb {
  constructor(
    readonly element: XmlElement,
    readonly documentUrl: string,
  ) {}

  bad(attribute: string, problem: string): never {
    return fail(this.element, `${attribute} ${problem}`);
  }

  attribute(name: string): string | null {
    return this.element.attributes[name] ?? null;
  }

  /** Its own text; nested elements have no place in it. */
  text(): string {
    const [nested] = elementsOf(this.element);
    if (nested) fail(nested, `cannot stand in <${this.element.name}>`);
    const text = textOf(this.element);
    return text === '' ? fail(this.element, 'is empty') : text;
  }

  /** Its text and that of nested elements: speech markup is read without its marks. */
  allText(): string {
    const gather = (element: XmlElement): string =>
      element.children.map((child) => (typeof child === 'string' ? child : gather(child))).join('');
    return gather(this.element).replace(/\s+/g, ' ').trim();
  }

  number(name: string, minimum: number, maximum: number, absent: number): number {
    const value = this.attribute(name);
    if (value === null || value.trim() === '') return absent;
    const number = Number(value);
    if (!Number.isFinite(number)) return this.bad(name, 'must be a number');
    return Math.min(maximum, Math.max(minimum, number));
  }

  flag(name: string, absent: boolean): boolean {
    const value = this.attribute(name);
    return value === null ? absent : value.toLowerCase() === 'true';
  }

  word<const T extends string>(name: string, words: readonly [T, ...T[]]): T {
    const value = this.attribute(name) ?? words[0];
    return words.find((word) => word === value) ?? this.bad(name, `must be ${words.join(' or ')}`);
  }

  keys(name: string, absent: string): string {
    const value = this.attribute(name) ?? absent;
    return /^[0-9*#]*$/.test(value) ? value : this.bad(name, 'must be keys of a phone');
  }

  method(name: string): FollowUp['method'] {
    const value = (this.attribute(name) ?? 'POST').toUpperCase();
    return value === 'GET' || value === 'POST' ? value : this.bad(name, 'must be GET or POST');
  }

  followUp(name: string, absent: string): FollowUp {
    return { url: this.resolve(this.attribute(name) ?? absent), method: this.method('method') };
  }

  resolve(url: string, schemes: readonly string[] = ['http', 'https']): string {
    const wanted = schemes.map((scheme) => `${scheme}:`);
    const trimmed = url.trim();
    if (!URL.canParse(trimmed, this.documentUrl)) return fail(this.element, 'has no valid URL');
    const resolved = new URL(trimmed, this.documentUrl);
    // A relative address of a stream is one of the document's server.
    if (wanted.includes('wss:') && /^https?:$/.test(resolved.protocol) && !/^https?:/i.test(trimmed))
      resolved.protocol = resolved.protocol === 'https:' ? 'wss:' : 'ws:';
    if (!wanted.includes(resolved.protocol)) return fail(this.element, `needs a URL of ${wanted.join(' or ')}`);
    return resolved.href;
  }
}
