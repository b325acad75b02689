/** The one WebSocket client for all agents. Runs on the media thread. */
import type { AgentCommand, AgentEnd, AgentEvent, AgentTarget, AudioFormat, Outgoing } from './agent.js';

/** What the session's playout does for the socket. Every call comes from inside the session's `guard`. */
export interface AgentSocketHooks {
  audio(bytes: Uint8Array, itemId?: string): void;
  /** Returns what was heard of the queue and what was dropped. The hook also calls `markReached` for each pending mark with `cleared`. */
  clear(): { itemId?: string; heardMs: number; droppedMs: number };
  mark(name: string): void;
  event(event: AgentEvent): void;
  /** Wraps each callback of the socket. */
  guard(fn: () => void): void;
}

export interface AgentSocket {
  readonly format: AudioFormat;
  /** Connected and ready. Rejects with `AgentFailure`; then the socket is closed. */
  ready: Promise<void>;
  /** Resolves once, also after `ready` rejected. */
  ended: Promise<AgentEnd>;
  start(): void;
  /** Caller audio in `format`. Never blocks: over the send limit the frame is dropped and counted. */
  audio(bytes: Uint8Array, atMs: number): void;
  markReached(name: string, cleared: boolean): void;
  command(command: AgentCommand): void;
  /** Sends the protocol's last words, closes, and destroys after a limit. Idempotent. */
  close(reason: string): Promise<void>;
  counters(): { framesSent: number; framesDropped: number; bytesReceived: number; garbage: number };
}

/** Starts connecting. */
export declare function openAgentSocket(target: AgentTarget, hooks: AgentSocketHooks, signal: AbortSignal): AgentSocket;

/** A message for the wire; exported for tests of protocols. */
export type { Outgoing };
