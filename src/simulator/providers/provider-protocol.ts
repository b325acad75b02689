/** The interfaces between the simulated agent, which is the same for every provider, and the wire protocol of one provider. */
import type { IncomingHttpHeaders } from 'node:http';

/** State that outlives a session of a provider, such as handles for resumption. */
export type ProviderState = Map<string, unknown>;

/** One WebSocket of a simulated provider. */
export interface Wire {
  send(message: Record<string, unknown>): void;
  sendBinary(bytes: Uint8Array): void;
  /** Any text, JSON or not. */
  sendText(text: string): void;
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
  open(wire: Wire, agentInput: AgentInput, url: URL, state: ProviderState): ProviderEncoder;
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
