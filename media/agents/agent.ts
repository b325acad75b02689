/**
 * The interface between a call and a voice agent. A provider is a pure state machine without socket and timer: messages in, messages out, so
 * that fixtures can test it. `connection/socket.ts` connects it to a WebSocket; the media thread plays its audio.
 */

import type { ProviderDescriptor } from './descriptor.js';
import type { TokenUsage } from './token-usage.js';
import type { AlignedText } from './transcript-alignment.js';

/** Audio on an agent's wire, mono. `l16` is little-endian signed 16 bit. */
export interface AudioFormat {
  encoding: 'ulaw' | 'alaw' | 'l16';
  sampleRateHz: 8000 | 16000 | 24000 | 48000;
}

/** Values that survive `structuredClone` and JSON. */
export type Plain = null | boolean | number | string | Plain[] | { [key: string]: Plain };

/** One line of the conversation so far. */
export interface Spoken {
  speaker: 'caller' | 'agent';
  text: string;
}

/** Facts about the call for the agent. */
export interface CallFacts {
  callId: string;
  organizationId: string;
  from: string;
  to: string;
  direction: 'inbound' | 'outbound';
  /** The conversation before this agent took over from one that failed. */
  history?: readonly Spoken[];
  /** Sent by stream protocols, as `custom` (raw) or `customParameters` (twilio); contains `variables`. */
  custom: Record<string, string>;
  /** What named providers learn of the call, by name. */
  variables?: Record<string, string>;
}

/** `caller`: audio from the phone; `agent`: audio to the phone, which may also be a clip or another phone. */
export type AudioTrack = 'caller' | 'agent';
export type AudioTracks = AudioTrack | 'both';

/** Everything the media thread needs to reach an agent. Cloneable. */
export interface AgentTarget {
  /** Provider name: `twilio`, `raw`, … (`providers/registry.ts`). */
  protocol: string;
  /** URL with a scheme of the protocol: mostly `ws:` or `wss:`. */
  url: string;
  /** The phone's encoding, for protocols that can choose: using the same needs no transcoding. Default `ulaw`. */
  phoneEncoding?: 'ulaw' | 'alaw' | 'l16';
  /** `provider_config` of the endpoint, with secrets in clear text; parsed by the protocol. */
  config: Plain;
  call: CallFacts;
  /** Headers of each upgrade request, beside those of the protocol, which go before them. */
  headers?: Record<string, string>;
  /** Time limit from the start of connecting until ready. */
  connectTimeoutMs: number;
  /** Named providers only: without audio for this long after `start`, the agent fails; 0 disables the limit. */
  firstAudioTimeoutMs: number;
  /** false refuses private, loopback and link-local addresses after resolution. */
  allowPrivateAddress: boolean;
  /** The call is recorded from the agent's start on: its audio must pass through our engine. */
  recorded?: boolean;
  /** Length of caller audio per message; default 20. */
  frameMs?: 20 | 40;
  /** The caller's audio is evened out before the agent gets it, and waits for this long at most; 0 or absent: it goes on as it comes. */
  jitterBufferMs?: number;
  /** The echo of what is sent to the phone is removed from the caller's audio. */
  removeEcho?: boolean;
  /** The tracks of a fork; set by the session. Absent for an agent that converses, which hears the caller. */
  tracks?: AudioTracks;
}

export type AgentEvent =
  | { type: 'audioStarted' }
  /** A new session of the provider replaced the old one; it has the conversation so far. */
  | { type: 'reconnected' }
  /** `beganMs`: when the speech began, on a clock shared by all threads; default now. Transcripts may come late and out of order. */
  | { type: 'transcript'; speaker: 'caller' | 'agent'; text: string; beganMs?: number }
  /** Requests of the agent; the call decides. */
  | { type: 'hangup' }
  | { type: 'transfer'; to: string }
  | { type: 'dtmf'; digits: string }
  | { type: 'redaction'; change: RedactionChange }
  /** The provider counted tokens since it counted last. `provider` is set by the connection. */
  | { type: 'usage'; tokens: TokenUsage; provider?: string }
  /** Audio sent ahead of playout: `high` from 9 minutes until below 8; `full`: above 10 minutes, the rest is discarded. */
  | { type: 'queue'; level: 'normal' | 'high' | 'full'; queuedMs: number }
  /** The first bad input of a kind on this socket; further ones are only counted. */
  | { type: 'warning'; code: string; message: string };

/** The begin or the end of a passage whose keys, spoken numbers and audio are kept out of what is stored. */
export type RedactionChange =
  | { on: false }
  | {
      on: true;
      /** The passage ends by itself after this long; default 300,000. */
      limitMs?: number;
      /** Streams that only listen get silence too; default false. */
      streams?: boolean;
      /** Whether the transcript loses numbers (default), or all words. */
      transcript?: 'numbers' | 'all';
    };

/** `hold`: while on, the agent gets silence instead of the caller's audio, so that music on hold does not trigger it. */
export type AgentCommand = { kind: 'dtmf'; digits: string } | { kind: 'hold'; on: boolean };

/** How an agent's connection ended. */
export interface AgentEnd {
  /** `hangup`: the agent hung up or closed cleanly; `failed`: it refused, timed out or broke; `local`: we closed it. */
  by: 'hangup' | 'failed' | 'local';
  /** WebSocket close code, if there was one; 1000 for the orderly end of another connection. */
  closeCode?: number;
  /** One sentence for the call's events; contains no secrets and no URL with a query. */
  detail: string;
}

/** `prepareAgent` failed. `retryable`: another attempt within the time budget makes sense (not after 401 or 403). */
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

/** One message to the agent: text, binary, or null for none. */
export type AgentMessage = string | Uint8Array | null;

/** A request to the provider's REST API, before the WebSocket. */
export interface RestRequest {
  method: 'GET' | 'POST';
  url: string;
  headers: Record<string, string>;
  body?: string;
}

/** An upgrade request (RFC 6455), a TCP connection (`tcp:`), or an HTTP/2 request (`https:`). */
export interface Upgrade {
  url: string;
  headers: Record<string, string>;
  /** WebSocket: it is offered; an agent that chooses none is accepted too. */
  subprotocol?: string;
  /** TCP and HTTP/2: how their bytes are messages. One per connection. */
  codec?: MessageCodec;
}

/** Between messages and the bytes of a connection that has no messages of its own. */
export interface MessageCodec {
  /** How much of a message is needed to know its length. */
  headerBytes: number;
  /** The length of the message that begins with these bytes, its header included. */
  lengthOf(bytes: Buffer): number;
  encode(message: string | Uint8Array): Uint8Array;
  /** A whole message, which is reused after the call. */
  decode(message: Buffer): string | Uint8Array;
}

/** The effects of a message that a conversation reads. All calls are synchronous; `audio` bytes are copied. */
export interface Sink {
  send(message: AgentMessage): void;
  /**
   * Audio in the conversation's `replyFormat`, any length; an odd byte of l16 is kept for the next call. `aligned`: the words of this audio, if
   * the provider aligns them.
   */
  audio(bytes: Uint8Array, itemId?: string, aligned?: readonly AlignedText[]): void;
  /** Audio in another format than the conversation's `replyFormat`, which it is converted to. Whole samples. */
  audioOf(format: AudioFormat, bytes: Uint8Array): void;
  /** Clears the playout queue at once. */
  clear(): void;
  /**
   * Text of the agent's speech, piece by piece; `itemId` as in `audio`. It becomes a transcript once it was heard, and only as far as it was
   * heard. `saidAll`: all audio of the text so far was sent; `brokenOff`: the agent stopped before it had spoken all of the text.
   */
  said(text: string, itemId?: string): void;
  saidAll(brokenOff?: boolean): void;
  /** Hangs up once the queued audio was heard. */
  hangUp(): void;
  /** The provider reported that it cannot continue. */
  fail(failure: AgentFailure): void;
  /**
   * Replaces the connection by a new one (`prepare`, `upgrade`, `opening` again); the call continues and queued audio plays on. `withinMs`:
   * when the agent has finished speaking, and after this time at the latest; absent: at once.
   */
  renew(withinMs?: number): void;
  /** Adds a mark, which is reached when all audio queued before it was played or cleared. */
  mark(name: string): void;
  event(event: AgentEvent): void;
  /** The handshake is complete (only for protocols that are not ready on connect). */
  ready(): void;
  /** Unusual input that the provider itself would accept: the first of each code becomes a warning event. */
  warn(code: string, message: string): void;
  /** Bad input: it is counted, and the first of each code becomes a warning event. */
  garbage(code: string, message: string): void;
}

/** A provider that is reached over a socket. */
export interface AgentProtocol<C = unknown> extends ProviderDescriptor {
  capabilities: NonNullable<ProviderDescriptor['capabilities']>;
  /** Throws `AgentConfigError` with the field and the problem. */
  parseConfig(raw: Plain): C;
  /** `connect`: ready when connected (after the 101), and may stay silent indefinitely; `message`: ready when `Sink.ready()` is called. */
  readyOn: 'connect' | 'message';
  /** The provider's address, when it does not depend on the account. */
  knownUrl?: string;
  /** The same, when it depends on the configuration, which may be invalid; undefined for one without an address. */
  urlFor?(config: Readonly<Record<string, unknown>>): string | undefined;
  /** Its messages name their track; other protocols get `both` as one mixed track. */
  separateTracks?: true;
  /** Keys are sent together after a pause or `#`: the agent reads them as text and would answer each message. */
  gathersDigits?: true;
  /** It sends transcripts of its own and the caller's speech; of the latter perhaps with some configurations only. */
  transcribes?: true | ((config: Readonly<Record<string, unknown>>) => boolean);
  /** Its item ids name pieces of audio rather than utterances: text is matched to audio by order alone. */
  idsNamePieces?: true;
  /** The provider ends every session after this time. */
  sessionLimitMs?: number;
  converse(config: C, target: AgentTarget): Conversation;
}

/**
 * One per agent connection. Nothing but `opening()` is sent before `start()`: agents greet as soon as they learn of a call, and must not
 * speak before the caller answered.
 */
export interface Conversation {
  /** Format of audio to the agent. May change until ready, when the agent chooses it in its handshake. */
  format: AudioFormat;
  /** Format of audio from the agent. */
  replyFormat: AudioFormat;
  /** The REST request before the socket; null for none. */
  prepare?(): RestRequest | null;
  /** Reads the body of a 2xx answer. Throws `AgentFailure`. */
  prepared?(body: string): void;
  /** The upgrade request. */
  upgrade(): Upgrade;
  /** Sent right after the 101, or as soon as another connection is open. */
  opening(): AgentMessage[];
  /** The caller answered. */
  start(): AgentMessage[];
  /** Sent after this time without another message, also before `start`. */
  keepAlive?: { afterMs: number; message: string };
  /**
   * Audio in `format`; usually 20 ms of the caller, of `agent` only when the target asks for it. `atMs`: milliseconds since `start`, by the
   * caller's RTP clock. The bytes are reused after the call.
   */
  audio(bytes: Uint8Array, atMs: number, track?: AudioTrack): AgentMessage;
  /** Binary messages are audio in `replyFormat` and nothing else: they are read without `receive`. */
  readonly binaryIsAudio?: true;
  /** Binary data is valid during the call only. */
  receive(message: string | Uint8Array, sink: Sink): void;
  /** The audio of a text message whose only effect it is, without parsing; null when `receive` must read it. The bytes are valid until the next call. */
  readMedia?(message: Uint8Array): Uint8Array | null;
  /** A mark was reached. `cleared`: by `clear`, not by playing. */
  mark(name: string, cleared: boolean): AgentMessage[];
  /** The queue was cleared; `heard` is the part that was heard. */
  interrupted(heard: { itemId?: string; heardMs: number; droppedMs: number }): AgentMessage[];
  /** Only `heard` of the agent's speech `whole` was heard: the next session must not get more. */
  cutShort?(whole: string, heard: string): void;
  /** The caller begins to speak, by our own detection: the caller's earlier speech is complete. */
  callerSpeaks?(sink: Sink): void;
  /** The conversation is over: emits the caller's speech that it still holds. */
  over?(sink: Sink): void;
  /** One key, or several when the protocol gathers them. */
  dtmf(digits: string): AgentMessage[];
  closing(reason: string): AgentMessage[];
  /** Interprets the end of the socket. `renew`: the conversation can continue on a new one. */
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
