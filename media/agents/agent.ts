/**
 * The words between a call and a voice agent. A provider is a pure state machine: messages in, messages out, no socket and no timer of
 * its own, so that it is tested with fixtures. `socket.ts` carries it; the media thread plays what it says.
 */

import type { AlignedText } from './transcript-alignment.js';

/** Audio on an agent's wire, mono. `l16` is little-endian signed 16 bit. */
export interface AudioFormat {
  encoding: 'ulaw' | 'alaw' | 'l16';
  sampleRateHz: 8000 | 16000 | 24000 | 48000;
}

/** Values that survive `structuredClone` and JSON. */
export type Plain = null | boolean | number | string | Plain[] | { [key: string]: Plain };

/** One line of a conversation. */
export interface Spoken {
  speaker: 'caller' | 'agent';
  text: string;
}

/** What an agent is told about the call. */
export interface CallFacts {
  callId: string;
  organizationId: string;
  from: string;
  to: string;
  direction: 'inbound' | 'outbound';
  /** What was said before this agent came: it takes over from one that failed. */
  history?: readonly Spoken[];
  /** Passed on as `custom` (raw) or `customParameters` (twilio). */
  custom: Record<string, string>;
}

/** Whose audio: what the phone says (`caller`), or what it hears (`agent`, though it may be a clip or another phone). */
export type AudioTrack = 'caller' | 'agent';
export type AudioTracks = AudioTrack | 'both';

/** Everything the media thread needs to reach an agent. Cloneable. */
export interface AgentTarget {
  /** Which file under `media/agents`: `twilio`, `raw`, … */
  protocol: string;
  /** `ws:` or `wss:` URL. */
  url: string;
  /** What the phone speaks, for protocols that may choose: the same both ways needs no transcoding. Default `ulaw`. */
  phoneEncoding?: 'ulaw' | 'alaw' | 'l16';
  /** `provider_config` of the endpoint, secrets in clear; parsed by the protocol. */
  config: Plain;
  call: CallFacts;
  /** From the start of connecting until ready. */
  connectTimeoutMs: number;
  /** Named providers only: silence this long after `start` fails the agent; 0 = never. */
  firstAudioTimeoutMs: number;
  /** Refuse private, loopback and link-local addresses after resolution. */
  allowPrivateAddress: boolean;
  /** Caller audio goes to it in pieces of so much; default 20. */
  frameMs?: 20 | 40;
  /** What a fork listens to; set by the session. Absent: an agent that converses, and hears the caller. */
  tracks?: AudioTracks;
}

export type AgentEvent =
  | { type: 'audioStarted' }
  /** The provider's session was replaced by another that knows the conversation. */
  | { type: 'reconnected' }
  /** `beganMs`: when its speaking began, by a clock that all threads share; absent: now. Transcriptions may come late and out of order. */
  | { type: 'transcript'; speaker: 'caller' | 'agent'; text: string; beganMs?: number }
  /** The agent asks for something; the call decides. */
  | { type: 'hangup' }
  | { type: 'transfer'; to: string }
  | { type: 'dtmf'; digits: string }
  /** What it sent ahead of the phone: `high` from 9 minutes until it is under 8; `full`: above 10, the rest is discarded. */
  | { type: 'queue'; level: 'normal' | 'high' | 'full'; queuedMs: number }
  /** First of a kind of garbage on this socket; the rest is only counted. */
  | { type: 'warning'; code: string; message: string };

/** `hold`: while on, the agent gets silence of the same length instead of the caller's frames (music on hold must not wake it). */
export type AgentCommand = { kind: 'dtmf'; digits: string } | { kind: 'hold'; on: boolean };

/** How an agent's connection ended. */
export interface AgentEnd {
  /** `hangup`: it said so or closed cleanly; `failed`: refused, timed out or broke; `local`: we closed it. */
  by: 'hangup' | 'failed' | 'local';
  /** WebSocket close code when there was one. */
  closeCode?: number;
  /** One sentence for the event; no secrets, no URL with a query. */
  detail: string;
}

/** `prepareAgent` failed. `retryable`: a second try within the budget makes sense (not on 401/403). */
export class AgentFailure extends Error {
  constructor(
    readonly reason: 'refused' | 'timeout' | 'unauthorized' | 'blocked_address' | 'protocol' | 'aborted',
    message: string,
    readonly retryable: boolean,
  ) {
    super(message);
    this.name = 'AgentFailure';
  }
}

/** One message to the agent: text, binary, or nothing. */
export type AgentMessage = string | Uint8Array | null;

/** A request to the provider's REST service, before the socket. */
export interface RestRequest {
  method: 'GET' | 'POST';
  url: string;
  headers: Record<string, string>;
  body?: string;
}

/** What a conversation does while it reads a message. All calls are synchronous; `audio` bytes may be kept (they are not reused). */
export interface Sink {
  send(message: AgentMessage): void;
  /**
   * Audio in the conversation's `replyFormat`, any length; an odd byte of l16 is carried over to the next call. `aligned`: its words, when
   * the provider says where in it they are.
   */
  audio(bytes: Uint8Array, itemId?: string, aligned?: readonly AlignedText[]): void;
  /** Empties the playout queue at once. */
  clear(): void;
  /**
   * What the agent says, piece by piece; `itemId` as in `audio`. It becomes a transcript when it was heard, and only as far as it was heard.
   * `saidAll`: all audio of what was said so far is there; `brokenOff`: the agent stopped before it had said all of the text.
   */
  said(text: string, itemId?: string): void;
  saidAll(brokenOff?: boolean): void;
  /** Hangs up as soon as what is queued was heard. */
  hangUp(): void;
  /** The provider said that it cannot go on. */
  fail(failure: AgentFailure): void;
  /**
   * Replaces the connection by a new one (`prepare`, `upgrade`, `opening` again); the caller stays and what is queued goes on playing.
   * `withinMs`: when the agent has finished speaking, at the latest after so long; absent: at once.
   */
  renew(withinMs?: number): void;
  /** Reached when all audio queued before it was played, or cleared. */
  mark(name: string): void;
  event(event: AgentEvent): void;
  /** Handshake done (only for protocols that are not ready on connect). */
  ready(): void;
  /** Input that others let pass: the first of each code becomes a warning event. */
  warn(code: string, message: string): void;
  /** Bad input: counted; the first of each code becomes a warning event. */
  garbage(code: string, message: string): void;
}

/** A provider. */
export interface AgentProtocol<C = unknown> {
  provider: string;
  /** Throws `AgentConfigError` with the field and what is wrong. */
  parseConfig(raw: Plain): C;
  /** `connect`: ready at the 101 and may be silent as long as it likes; `message`: ready when `Sink.ready()` is called. */
  readyOn: 'connect' | 'message';
  /** Where the provider is, when that does not depend on the account. */
  knownUrl?: string;
  /** Its messages say which track they carry; to others `both` goes as one mixed track. */
  separateTracks?: true;
  /** Keys are handed over together after a pause or `#`: the agent reads them as text and answers each time. */
  gathersDigits?: true;
  /** It writes down what it and the caller say. */
  transcribes?: true;
  /** Its item ids name pieces of audio and not what belongs together: text finds its audio by order alone. */
  idsNamePieces?: true;
  /** The provider ends every session after so long. */
  sessionLimitMs?: number;
  converse(config: C, target: AgentTarget): Conversation;
}

/**
 * One per socket. Nothing but `opening()` is sent before `start()`: an agent greets as soon as it is told of a call, and it must not
 * speak before the caller answered.
 */
export interface Conversation {
  /** What the agent gets. May change until ready, when the agent decides it in its handshake. */
  format: AudioFormat;
  /** What the agent sends. */
  replyFormat: AudioFormat;
  /** Asked for before the socket; null: nothing to ask. */
  prepare?(): RestRequest | null;
  /** The answer of status 2xx. Throws `AgentFailure`. */
  prepared?(body: string): void;
  /** URL and headers of the upgrade request. */
  upgrade(): { url: string; headers: Record<string, string> };
  /** Sent right after the 101. */
  opening(): AgentMessage[];
  /** The caller answered. */
  start(): AgentMessage[];
  /** Sent when nothing else was for so long, also before `start`. */
  keepAlive?: { afterMs: number; message: string };
  /**
   * Audio in `format`; usually 20 ms of the caller, of `agent` only when the target asks for it. `atMs`: milliseconds since `start`, by
   * the caller's RTP clock. The bytes are reused after the call.
   */
  audio(bytes: Uint8Array, atMs: number, track?: AudioTrack): AgentMessage;
  receive(message: string | Uint8Array, sink: Sink): void;
  /** A mark was reached. `cleared`: by `clear`, not by playing. */
  mark(name: string, cleared: boolean): AgentMessage[];
  /** The queue was cleared: what of it was heard. */
  interrupted(heard: { itemId?: string; heardMs: number; droppedMs: number }): AgentMessage[];
  /** What the agent said was heard only so far: the next session must not be told more. */
  cutShort?(whole: string, heard: string): void;
  /** The caller begins to speak, as we hear it: what he said before is complete. */
  callerSpeaks?(sink: Sink): void;
  /** The conversation is over: passes on what of the caller's words it still holds. */
  over?(sink: Sink): void;
  /** One key, or several when the protocol gathers them. */
  dtmf(digits: string): AgentMessage[];
  closing(reason: string): AgentMessage[];
  /** How to read the end of the socket. `renew`: the conversation can go on over a new one. */
  closed(code: number, reason: string): 'hangup' | 'failed' | 'renew';
}

export class AgentConfigError extends Error {
  constructor(
    readonly field: string,
    message: string,
  ) {
    super(message);
    this.name = 'AgentConfigError';
  }
}
