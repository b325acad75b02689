/** What a webhook may tell a call to do: one list of actions, whether it came as JSON or as TwiML. */

/** Where the result of an action goes; the answer is what happens next. Absolute. */
export interface FollowUp {
  url: string;
  method: 'GET' | 'POST';
}

/** Who is told of the steps of something that takes time, in Twilio's form. */
export interface StatusCallback {
  to: FollowUp;
  /** Their names are Twilio's. */
  events: string[];
}

/** `loop` 0: until something ends it. */
export interface Say {
  action: 'say';
  text: string;
  voice: string | null;
  language: string | null;
  loop: number;
}
export interface PlayAction {
  action: 'play';
  url: string;
  loop: number;
}
export interface Pause {
  action: 'pause';
  seconds: number;
}
export type Prompt = Say | PlayAction | Pause;

export interface Gather {
  action: 'gather';
  digits: boolean;
  speech: boolean;
  /** Silence after the words that ends the input. */
  speechTimeoutSec: number;
  language: string | null;
  /** Words that are likely to be said. */
  hints: string | null;
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
  /** Without the silence before and after the words. */
  trim: boolean;
  next: FollowUp | null;
  /** The follow-up is asked for an empty recording too; else the next action runs. */
  nextWhenEmpty: boolean;
  status: StatusCallback | null;
}

export interface Connect {
  action: 'connect';
  to: { kind: 'endpoint'; endpointId: string } | ({ kind: 'stream'; protocol: string } & StreamTarget);
  next: FollowUp | null;
}

export interface StreamTarget {
  url: string;
  name: string | null;
  custom: { [name: string]: string };
  status: StatusCallback | null;
}

/** Sends what is heard and said to a WebSocket, beside whatever else the call does. */
export interface StartStream {
  action: 'start_stream';
  stream: StreamTarget;
  track: 'inbound' | 'outbound' | 'both';
}

export interface Dial {
  action: 'dial';
  /** They ring together; the first to answer wins. */
  to: DialTarget[];
  /** Who is shown to call; null: the caller. In TwiML as people write numbers. */
  from: string | null;
  timeoutSec: number;
  timeLimitSec: number;
  answerOnBridge: boolean;
  /** From when on both sides are recorded. */
  record: 'answer' | 'ringing' | null;
  recordingStatus: StatusCallback | null;
  /** The star key of the caller ends it. */
  hangupOnStar: boolean;
  /** One after the other, each for `timeoutSec`. */
  sequential: boolean;
  /** What the caller hears while it rings: the tone of this country. */
  ringTone: string;
  /** Asked what the caller does next when the other side sends him elsewhere (REFER); null: it may not. */
  refer: FollowUp | null;
  next: FollowUp | null;
}

/** Brings the caller into a room with all others who name it: `<Dial><Conference>`. */
export interface ConferenceJoin {
  action: 'conference';
  name: string;
  /** What the room is to be called when it is made for this caller. */
  id?: string;
  /** What the caller is called in the room, beside its call id. */
  label: string | null;
  /** A room begins when two are there and one of them brought this along; until then each hears music. */
  startOnEnter: boolean;
  /** The room ends when this caller leaves. */
  endOnExit: boolean;
  muted: boolean;
  /** Whether the others hear a beep. */
  beep: { entered: boolean; left: boolean };
  wait: WaitMusic;
  maxParticipants: number;
  /** The whole room, from its start. */
  record: boolean;
  recordingStatus: StatusCallback | null;
  timeLimitSec: number;
  hangupOnStar: boolean;
  /** Of the first who comes. */
  status: StatusCallback | null;
  next: FollowUp | null;
}

/** What is heard while nobody else is: an address of audio or of instructions, a quiet tone of ours, or nothing. */
export type WaitMusic = FollowUp | 'tone' | 'silence';

export interface DialTarget {
  /** A number, in TwiML as people write them; a SIP URI; or `client:` and the user of a phone that is registered with us. */
  to: string;
  /** Keys pressed when it answers. */
  sendDigits: string | null;
  auth: { username: string; password: string } | null;
  status: StatusCallback | null;
}

export type Action =
  | { action: 'answer' }
  | Prompt
  | Gather
  | Record
  | Connect
  | StartStream
  | { action: 'stop_stream'; name: string | null }
  | Dial
  | ConferenceJoin
  | { action: 'dtmf'; digits: string }
  | { action: 'transfer'; to: string }
  | { action: 'redirect'; next: FollowUp }
  | { action: 'reject'; status: number }
  | { action: 'hangup' }
  /** Something of the document has no effect; it is in the record, and the call goes on. */
  | { action: 'warn'; message: string };

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

export const maxHintsLength = 2000;
/** Of a conference. */
export const maxRoomName = 128;
export const maxSeats = 250;

/** `en-US` and the like (BCP 47). */
export const languageTag = /^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$/;
export const keys = /^[0-9A-D*#]*$/;
/** Keys to send; `w` is a pause of 500 ms. */
export const sentKeys = /^[0-9A-Dw*#]+$/;
export const e164 = /^\+[1-9]\d{6,14}$/;
/** `client:` and the user name of a trunk that registers with us. */
export const clientAddress = /^client:([\w.+-]{1,64})$/;
export const sipAddress = /^sips?:[^\s<>"]+$/i;
