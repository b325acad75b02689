/** The connection to one agent, as the media session sees it. */
import type { AgentCommand, AgentEnd, AgentEvent, AudioFormat, AudioTrack } from '../agent.js';
import type { RenewalLimits } from './session-renewal.js';
import type { TransportLimits } from './transport/transport.js';

/** What the session's playout does for the socket. Every call comes from inside the session's `guard`. */
export interface AgentSocketHooks {
  /** In `replyFormat`, whole samples, not aligned in memory; valid during the call. */
  audio(bytes: Uint8Array, itemId?: string): void;
  /** Returns what was heard of the queue and what was dropped. The hook also calls `markReached` for each pending mark with `cleared`. */
  clear(): { itemId?: string; heardMs: number; droppedMs: number };
  /** As `clear`, when the agent is gone: it was not interrupted. */
  silence(): { droppedMs: number };
  mark(name: string): void;
  event(event: AgentEvent): void;
  /** Wraps each callback of the socket. */
  guard(fn: () => void): void;
}

export interface AgentSocket {
  /** What `audio()` takes. Fixed once ready. */
  readonly format: AudioFormat;
  /** What `hooks.audio` gets. Fixed once ready. */
  readonly replyFormat: AudioFormat;
  /** It tells tracks apart; else `audio` takes one. */
  readonly separateTracks: boolean;
  /** Connected and ready. Rejects with `AgentFailure`; then the socket is closed. */
  ready: Promise<void>;
  /** Resolves once, also after `ready` rejected. */
  ended: Promise<AgentEnd>;
  /** The caller answered: tells the agent of the call. Before `ready` and after the end it does nothing; neither does a second one. */
  start(): void;
  /** Audio in `format`, of the caller unless said otherwise; before `start` it goes nowhere. Never blocks: over the send limit the frame is dropped and counted. */
  audio(bytes: Uint8Array, atMs: number, track?: AudioTrack): void;
  markReached(name: string, cleared: boolean): void;
  /** The caller began to speak so long ago: a transcription of it may come much later. */
  callerSpeaks(agoMs: number): void;
  command(command: AgentCommand): void;
  /** Sends the protocol's last words, closes, and destroys after a limit. Idempotent. */
  close(reason: string): Promise<void>;
  counters(): { framesSent: number; framesDropped: number; bytesReceived: number; garbage: number };
}

export interface AgentSocketLimits extends TransportLimits, RenewalLimits {
  /** Marks the agent may have waiting. */
  pendingMarks: number;
  /** Keys are gathered until none came for so long. */
  digitPauseMs: number;
  /** A goodbye longer than this is cut. */
  goodbyeLimitMs: number;
}
