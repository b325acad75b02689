/** What a webhook may tell a call to do: one list of actions, whether it came as JSON or as TwiML. */

/** Where the result of an action goes; the answer is what happens next. Absolute. */
export interface FollowUp {
  url: string;
  method: 'GET' | 'POST';
}

/** `loop` 0: until something ends it. */
export interface Say {
  action: 'say';
  text: string;
  voice: string | null;
  language: string | null;
  loop: number;
}
export interface Play {
  action: 'play';
  url: string;
  loop: number;
}
export interface Pause {
  action: 'pause';
  seconds: number;
}
export type Prompt = Say | Play | Pause;

export interface Gather {
  action: 'gather';
  digits: boolean;
  speech: boolean;
  /** null: as many as come. */
  numDigits: number | null;
  /** Keys that end the input and are not part of it; empty: none. */
  finishOnKey: string;
  /** Silence after the prompts, and after each key. */
  timeoutSec: number;
  prompts: Prompt[];
  next: FollowUp | null;
  /** The follow-up is asked for an empty result too; else the next action runs. */
  nextWhenEmpty: boolean;
}

export interface Record {
  action: 'record';
  maxSec: number;
  /** This much silence ends it. */
  silenceSec: number;
  finishOnKey: string;
  beep: boolean;
  next: FollowUp | null;
}

export interface Connect {
  action: 'connect';
  to:
    | { kind: 'endpoint'; endpointId: string }
    | { kind: 'stream'; url: string; protocol: string; custom: { [name: string]: string } };
  next: FollowUp | null;
}

export interface Dial {
  action: 'dial';
  /** E.164 numbers or SIP URIs that ring together; the first to answer wins. */
  to: string[];
  from: string | null;
  timeoutSec: number;
  timeLimitSec: number;
  answerOnBridge: boolean;
  record: boolean;
  next: FollowUp | null;
}

export type Action =
  | { action: 'answer' }
  | Prompt
  | Gather
  | Record
  | Connect
  | Dial
  | { action: 'dtmf'; digits: string }
  | { action: 'transfer'; to: string }
  | { action: 'redirect'; next: FollowUp }
  | { action: 'reject'; status: number }
  | { action: 'hangup' };

/** Instructions that cannot be followed: `where` is a field (`actions[2].digits`) or a line (`line 3: <Play>`). */
export class InstructionError extends Error {
  constructor(
    readonly where: string,
    readonly problem: string,
  ) {
    super(`${where}: ${problem}`);
    this.name = 'InstructionError';
  }
}

/** More than any sensible script; a list without end would keep a call busy for ever. */
export const maxActions = 100;
export const maxTextLength = 10_000;

export const keys = /^[0-9A-D*#]*$/;
/** Keys to send; `w` is a pause of 500 ms. */
export const sentKeys = /^[0-9A-Dw*#]+$/;
export const e164 = /^\+[1-9]\d{6,14}$/;
export const sipAddress = /^sips?:[^\s<>"]+$/i;
