/** The words between the simulated agent, which is the same for every provider, and the wire of one provider. */
import type { IncomingHttpHeaders } from 'node:http';

/** What sessions of one provider leave behind for the next one, such as handles to resume by. */
export type Remembered = Map<string, unknown>;

/** One WebSocket of a simulated provider. */
export interface Wire {
  send(message: Record<string, unknown>): void;
  sendBinary(bytes: Uint8Array): void;
  /** Any text, JSON or not. */
  sendText(text: string): void;
  /** Reads nothing more. */
  stopReading(): void;
  close(code: number, reason?: string): void;
  /** Unless it is closed before. */
  closeAfter(ms: number, code: number, reason: string): void;
  /** Without a close frame, as a process that is killed. */
  die(): void;
}

/** What the simulated agent can be told. */
export interface Ears {
  /** The session stands. Called once. */
  begin(audio: { listensHz: number; speaksHz: number }): void;
  /** It is the agent's turn to begin the conversation. Only the first one counts. */
  greet(text?: string): void;
  hear(samples: Int16Array): void;
  /** Text in the caller's place, such as keys. */
  read(text: string): void;
}

/** What the simulated agent does, in the words of a provider. `turn` counts its utterances from 1. */
export interface Mouth {
  message(data: string | Buffer): void;
  /** The caller began to speak; `turn` is what the agent was saying, null: nothing. */
  interrupted(turn: number | null): void;
  /** The caller has stopped speaking. */
  utterance?(): void;
  /** What the caller said, written down. */
  heard(text: string): void;
  /** A turn begins with its text, in one piece. */
  said(text: string, turn: number): void;
  audio(samples: Int16Array, turn: number): void;
  finished(turn: number): void;
  /** By the provider's own way: a function, a signal, or its close code. */
  hangUp(): void;
  /** A function `transfer_call` with this target; absent: the provider has no such thing on its socket. */
  transfer?(to: string): void;
  /** The session has reached its longest time. */
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

export interface Dialect {
  provider: string;
  /** Of the socket. */
  path: string;
  /** The status that an upgrade is refused with; null: let in. */
  refuse(request: { url: URL; headers: IncomingHttpHeaders }): number | null;
  /** null: no such resource. */
  rest?(call: RestCall): { status: number; body: unknown } | null;
  /** Audio of an interrupted turn may still arrive behind the signal, as with the real service. */
  late: boolean;
  open(wire: Wire, ears: Ears, url: URL, remembered: Remembered): Mouth;
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
