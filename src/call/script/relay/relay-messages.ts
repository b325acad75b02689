/** The messages of ConversationRelay, as Twilio documents them: what the application sends, and what it gets. */
import { type InterruptedBy, sentKeys } from '../../../webhook/actions.js';

export type RelayCommand =
  | {
      type: 'text';
      token: string;
      last: boolean;
      language: string | null;
      interruptible: InterruptedBy | null;
      preemptible: boolean | null;
    }
  | { type: 'play'; url: string; loop: number; interruptible: InterruptedBy | null; preemptible: boolean | null }
  | { type: 'keys'; digits: string }
  | { type: 'language'; spoken: string | null; heard: string | null }
  | { type: 'end'; handoffData: string | null };

/** What the application sent cannot be followed: one sentence. */
export class RelayMessageError extends Error {}

const longestToken = 10_000;
const longestHandoff = 16_384;

/** Throws `RelayMessageError`. */
export function readRelayMessage(text: string): RelayCommand {
  const message = parse(text);
  switch (message.type) {
    case 'text':
      return {
        type: 'text',
        token: textOf(message, 'token', longestToken),
        last: message.last === true || message.last === 'true',
        language: optional(message, 'lang'),
        interruptible: interruptibleOf(message.interruptible),
        preemptible: flagOf(message.preemptible),
      };
    case 'play': {
      const url = textOf(message, 'source', 2048);
      if (!/^https?:$/.test(URL.canParse(url) ? new URL(url).protocol : ''))
        throw new RelayMessageError('source must be an absolute URL of http: or https:');
      const loop = message.loop === undefined ? 1 : Number(message.loop);
      if (!Number.isInteger(loop) || loop < 0 || loop > 1000)
        throw new RelayMessageError('loop must be a whole number from 0 to 1000');
      return {
        type: 'play',
        url,
        loop,
        interruptible: interruptibleOf(message.interruptible),
        preemptible: flagOf(message.preemptible),
      };
    }
    case 'sendDigits': {
      const digits = textOf(message, 'digits', 100).replace(/W/g, 'ww');
      if (!sentKeys.test(digits)) throw new RelayMessageError('digits must be keys of a phone (0-9 A-D * # w W)');
      return { type: 'keys', digits };
    }
    case 'language':
      return {
        type: 'language',
        spoken: optional(message, 'ttsLanguage'),
        heard: optional(message, 'transcriptionLanguage'),
      };
    case 'end':
      return { type: 'end', handoffData: handoffOf(message.handoffData) };
    default:
      throw new RelayMessageError(
        `type must be text, play, sendDigits, language or end, not "${String(message.type).slice(0, 50)}"`,
      );
  }
}

/** `true` and `false` stand for `any` and `none`; null: absent. Throws `RelayMessageError`. */
export function interruptibleOf(value: unknown): InterruptedBy | null {
  if (value === undefined || value === null) return null;
  const word = String(value).toLowerCase();
  if (word === 'true') return 'any';
  if (word === 'false') return 'none';
  if (word === 'none' || word === 'dtmf' || word === 'speech' || word === 'any') return word;
  throw new RelayMessageError('interruptible must be any, speech, dtmf, none, true or false');
}

function parse(text: string): { [name: string]: unknown } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new RelayMessageError('it is not JSON');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new RelayMessageError('it is not an object');
  return value as { [name: string]: unknown };
}

function textOf(message: { [name: string]: unknown }, name: string, longest: number): string {
  const value = message[name];
  if (typeof value !== 'string') throw new RelayMessageError(`${name} must be a text`);
  if (value.length > longest) throw new RelayMessageError(`${name} must not have more than ${longest} characters`);
  return value;
}

function optional(message: { [name: string]: unknown }, name: string): string | null {
  return message[name] === undefined || message[name] === null ? null : textOf(message, name, 35);
}

function flagOf(value: unknown): boolean | null {
  return value === undefined || value === null ? null : value === true || value === 'true';
}

function handoffOf(value: unknown): string | null {
  if (value === undefined || value === null) return null;
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  if (text.length > longestHandoff)
    throw new RelayMessageError(`handoffData must not have more than ${longestHandoff} characters`);
  return text;
}
