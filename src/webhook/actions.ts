/** The actions of a webhook response, whatever its format. */

import type { RedactionChange } from '../../media/agents/agent.js';

/** The absolute URL that receives the result of an action; its response has the next actions. */
export interface FollowUp {
  url: string;
  method: 'GET' | 'POST';
  /** The result is sent there, and the next action of this list runs, whatever the answer is. */
  answerIgnored?: true;
}

/** The URL that receives the progress of a long operation, in Twilio's form. */
export interface StatusCallback {
  to: FollowUp;
  /** Twilio's names of the events. */
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
  /** null for no limit. */
  numDigits: number | null;
  /** Keys that end the input and are not part of it; empty: none. */
  finishOnKey: string;
  /** Silence after the prompts, and after each key unless `betweenKeysSec` says otherwise. */
  timeoutSec: number;
  betweenKeysSec?: number;
  prompts: Prompt[];
  /** Keys and words are not stored; the follow-up gets them. */
  redact?: true;
  next: FollowUp | null;
  /** Whether the follow-up is requested for an empty result too; else the next action runs. */
  nextWhenEmpty: boolean;
}

export interface Record {
  action: 'record';
  maxSec: number;
  /** This much silence ends it. */
  silenceSec: number;
  finishOnKey: string;
  beep: boolean;
  /** Whether leading and trailing silence is removed. */
  trim: boolean;
  next: FollowUp | null;
  /** Whether the follow-up is requested for an empty recording too; else the next action runs. */
  nextWhenEmpty: boolean;
  status: StatusCallback | null;
  /** Whether what was said is written down, and who gets it. */
  transcription: { next: FollowUp | null } | null;
}

export interface Connect {
  action: 'connect';
  to: { kind: 'endpoint'; endpointId: string } | ({ kind: 'stream' } & StreamTarget);
  next: FollowUp | null;
}

export interface StreamTarget {
  url: string;
  /** One of `streamProtocols`. */
  protocol: string;
  name: string | null;
  custom: { [name: string]: string };
  status: StatusCallback | null;
  /** The audio, where the document chooses it: fields of the protocol's `provider_config`. */
  audio?: { encoding: 'ulaw' | 'alaw' | 'l16'; sample_rate: number };
}

/** Twilio's ConversationRelay: the call speaks with an application that reads and writes text. */
export interface ConversationRelay {
  action: 'conversation_relay';
  url: string;
  custom: { [name: string]: string };
  welcome: { text: string; interruptible: InterruptedBy } | null;
  /** Of what the application says, unless its message says otherwise. */
  interruptible: InterruptedBy;
  preemptible: boolean;
  language: { spoken: string | null; heard: string | null };
  voice: string | null;
  /** The voices of other languages. */
  voices: { [language: string]: string };
  hints: string | null;
  /** Keys are reported. */
  dtmf: boolean;
  /** Whether the application learns who speaks when, and which words were heard. */
  reports: { speakers: boolean; played: boolean };
  /** What is reported although the application's speech may not be interrupted. */
  reportsDuringSpeech: InterruptedBy;
  /** The words of an utterance are sent while it goes on, too. */
  partialPrompts: boolean;
  /** How long speech must last to interrupt: `high`: any speech does. */
  interruptSensitivity: InterruptSensitivity;
  /** Words such as "uh-huh" while the application speaks neither interrupt it nor are reported. */
  ignoreBackchannel: boolean;
  /** The silence that ends an utterance; null: the usual one. */
  pauseSec: number | null;
  next: FollowUp | null;
}

export const interruptSensitivities = ['high', 'medium', 'low'] as const;
export type InterruptSensitivity = (typeof interruptSensitivities)[number];

export type InterruptedBy = 'none' | 'dtmf' | 'speech' | 'any';

/** Streams the audio of the call to a WebSocket in the background. */
export interface StartStream {
  action: 'start_stream';
  stream: StreamTarget;
  track: 'inbound' | 'outbound' | 'both';
}

/** Records the call from now to its end, whatever it does. */
export interface StartRecording {
  action: 'start_recording';
  /** 1: only the caller; 2: caller left, the other side right. */
  channels: 1 | 2;
  status: StatusCallback | null;
}

/** Writes down what the caller says, in the background, until the call ends or it is stopped. */
export interface StartTranscription {
  action: 'start_transcription';
  name: string | null;
  language: string | null;
  hints: string | null;
  /** What the caller is called in the callbacks. */
  label: string | null;
  /** Gets each utterance, and the beginning and the end. */
  status: FollowUp | null;
}

export interface Dial {
  action: 'dial';
  /** They ring together; the first to answer wins. */
  to: DialTarget[];
  /** The caller id; null for the caller's. TwiML allows national formats. */
  from: string | null;
  timeoutSec: number;
  timeLimitSec: number;
  answerOnBridge: boolean;
  /** When the recording of both sides starts. */
  record: 'answer' | 'ringing' | null;
  recordingStatus: StatusCallback | null;
  /** The caller ends it with the star key. */
  hangupOnStar: boolean;
  /** The numbers are called one after the other, each for `timeoutSec`. */
  sequential: boolean;
  /** What the caller hears while it rings: the tone of this country. */
  ringTone: string;
  /** Requested for the next actions of the caller when the callee sends REFER; null if REFER is not allowed. */
  refer: FollowUp | null;
  next: FollowUp | null;
}

/** Adds the caller to the conference of this name: `<Dial><Conference>`. */
export interface ConferenceJoin {
  action: 'conference';
  name: string;
  /** The id of the conference if it is created for this caller. */
  id?: string;
  /** The label of the caller in the conference, beside its call id. */
  label: string | null;
  /** The conference starts when it has two participants and one of them has this set; until then each hears music. */
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
  /** Of several participants, the callback of the first one counts. */
  status: StatusCallback | null;
  next: FollowUp | null;
}

/** The caller waits in the queue of this name: `<Enqueue>`. */
export interface Enqueue {
  action: 'enqueue';
  queue: string;
  wait: WaitMusic;
  /** The action fails while as many calls wait; null: as the queue says. */
  maxSize: number | null;
  next: FollowUp | null;
}

/** Connects the caller with the call that has waited longest in the queue: `<Dial><Queue>`. */
export interface DialQueue {
  action: 'dial_queue';
  queue: string;
  /** Prompts that the waiting caller hears before the connection. */
  whisper: FollowUp | null;
  /** How long it waits for a call. */
  timeoutSec: number;
  timeLimitSec: number;
  hangupOnStar: boolean;
  record: boolean;
  recordingStatus: StatusCallback | null;
  ringTone: string;
  next: FollowUp | null;
}

/** The audio for a waiting participant: a URL of audio or instructions, a quiet tone, or silence. */
export type WaitMusic = FollowUp | 'tone' | 'silence';

export interface DialTarget {
  /** A number (national formats in TwiML), a SIP URI, or `client:` and the user of a registered phone. */
  to: string;
  /** Keys pressed when it answers. */
  sendDigits: string | null;
  auth: { username: string; password: string } | null;
  /** Instructions for the phone that answers, before it is connected; it can decline. null: it is connected at once. */
  screen: FollowUp | null;
  /** Keys of which the phone must press one after these instructions, within this time. */
  acceptedBy?: { keys: string; timeoutSec: number };
  status: StatusCallback | null;
}

export type Action =
  | { action: 'answer' }
  | Prompt
  | Gather
  | Record
  | Connect
  | ConversationRelay
  | StartStream
  | { action: 'stop_stream'; name: string | null }
  | StartRecording
  | StartTranscription
  | { action: 'stop_transcription'; name: string | null }
  | Dial
  | ConferenceJoin
  | Enqueue
  | DialQueue
  /** Ends the wait in a queue. */
  | { action: 'leave' }
  | { action: 'dtmf'; digits: string }
  | { action: 'redact'; change: RedactionChange }
  | { action: 'transfer'; to: string }
  | { action: 'redirect'; next: FollowUp }
  /** Tells an address how far the list has come; its answer, if it has instructions, replaces the list. */
  | { action: 'notify'; next: FollowUp; payload: unknown }
  | { action: 'reject'; status: number }
  | { action: 'hangup' }
  /** A part of the document has no effect; the warning is recorded and the call continues. */
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

/** The stream protocols of `connect`; the same as the providers have, which a contract test checks. */
export const streamProtocols = [
  'twilio',
  'telnyx',
  'plivo',
  'vonage',
  'exotel',
  'signalwire',
  'jambonz',
  'asterisk',
  'sinch',
  'genesys',
  'audiocodes',
  'audiosocket',
  'raw',
] as const;

/** The schemes of a stream's URL. */
export function streamSchemes(protocol: string): readonly string[] {
  return protocol === 'audiosocket' ? ['tcp'] : ['ws', 'wss'];
}

/** The maximum length of a list of actions; an unlimited list would keep a call busy forever. */
export const maxActions = 100;
export const maxTextLength = 10_000;

export const maxHintsLength = 2000;
/** Of a conference or a queue. */
export const maxRoomName = 128;
export const maxSeats = 250;
/** Of a queue. */
export const maxQueueSize = 5000;
/** The longest redacted passage. */
export const maxRedactionSec = 3600;

/** `en-US` and the like (BCP 47). */
export const languageTag = /^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$/;
export const keys = /^[0-9A-D*#]*$/;
/** Keys to send; `w` is a pause of 500 ms. */
export const sentKeys = /^[0-9A-Dw*#]+$/;
export const e164 = /^\+[1-9]\d{6,14}$/;
/** `client:` and the user name of a trunk that registers with us. */
export const clientAddress = /^client:([\w.+-]{1,64})$/;
export const sipAddress = /^sips?:[^\s<>"]+$/i;
