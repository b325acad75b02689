/** The interfaces between the simulated agent, which is the same for every provider, and the wire protocol of one provider. */
import type { IncomingHttpHeaders } from 'node:http';

/** State that outlives a session of a provider, such as handles for resumption. */
export type ProviderState = Map<string, unknown>;

/** One connection to a simulated provider. */
export interface Wire {
  send(message: Record<string, unknown>): void;
  sendBinary(bytes: Uint8Array): void;
  /** Any text, JSON or not. */
  sendText(text: string): void;
  /** Takes back audio that was not sent, where it is sent at the pace of speech. */
  dropUnsent?(): void;
  /** Reads nothing more. */
  stopReading(): void;
  close(code: number, reason?: string): void;
  /** Does nothing if the socket is closed before. */
  closeAfter(ms: number, code: number, reason: string): void;
  /** Ends the connection without a close frame, like a process that was killed. */
  die(): void;
}

/** What the simulated agent receives. */
export interface AgentInput {
  /** The session is established. Called once. */
  begin(audio: { listensHz: number; speaksHz: number }): void;
  /** Starts the conversation with a greeting. Only the first call has an effect. */
  greet(text?: string): void;
  hear(samples: Int16Array): void;
  /** Text that replaces the caller's speech, such as DTMF keys. */
  read(text: string): void;
}

/** Encodes what the simulated agent does as messages of one provider. `turn` counts its utterances from 1. */
export interface ProviderEncoder {
  message(data: string | Buffer): void;
  /** The caller began to speak; `turn` is the utterance that this interrupted, null if there was none. */
  interrupted(turn: number | null): void;
  /** The caller has stopped speaking. */
  utterance?(): void;
  /** A transcript of the caller's speech. */
  heard(text: string): void;
  /** A turn begins with its text, in one piece. */
  said(text: string, turn: number): void;
  audio(samples: Int16Array, turn: number): void;
  finished(turn: number): void;
  /** Hangs up as the provider does: by a function call, a message, or a close code. */
  hangUp(): void;
  /** Calls the function `transfer_call` with this target; absent if the provider has no transfer on its socket. */
  transfer?(to: string): void;
  /** The session reached its maximum duration. */
  expire(): void;
}

export interface RestCall {
  method: string;
  url: URL;
  headers: IncomingHttpHeaders;
  body: Record<string, unknown>;
  /** `ws://host:port` of this simulator. */
  socketBase: string;
}

export interface ProviderProtocol {
  provider: string;
  /** Path of the WebSocket URL. */
  path: string;
  /** The status with which an upgrade is refused; null accepts it. */
  refuse(request: { url: URL; headers: IncomingHttpHeaders }): number | null;
  /** null: the resource does not exist. */
  rest?(call: RestCall): { status: number; body: unknown } | null;
  /** As with the real service, audio of an interrupted turn may arrive after the message about the interruption. */
  late: boolean;
  /** How its connections are served; absent: as WebSockets. */
  byteStream?: ByteStream;
  open(wire: Wire, agentInput: AgentInput, url: URL, state: ProviderState): ProviderEncoder;
}

/** A server other than one for WebSockets. */
export interface ByteStream {
  /** `tcp`: plain connections; `http2`: requests whose body and response are streams. */
  over: 'tcp' | 'http2';
  /** The codec of one connection. */
  codec(): ServerCodec;
}

/** The server's side of a protocol with messages of its own (`MessageCodec` is the client's). */
export interface ServerCodec {
  headerBytes: number;
  lengthOf(bytes: Buffer): number;
  encode(message: string | Uint8Array): Uint8Array;
  /** null: a message that only the codec needs. */
  decode(message: Buffer): string | Buffer | null;
  /** The last message of a service that ends the conversation with an error. */
  encodeError(text: string): Uint8Array;
  /** How long the audio of a message lasts: it is sent at the pace of speech; absent or 0: at once. */
  durationMs?(message: Uint8Array): number;
  /** A message as the record of the call has it. */
  describe(message: string | Uint8Array): Record<string, unknown> | null;
}

export function jsonOf(data: string | Buffer): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(data.toString());
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

/** A field that is an object, or an empty one. */
export function within(message: Record<string, unknown> | null, field: string): Record<string, unknown> {
  const value = message?.[field];
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
