/** The interface of the connection below an agent's messages: a WebSocket, a TCP connection or an HTTP/2 stream. */
import type { AgentFailure, AgentMessage, AudioFormat } from '../../agent.js';
import type { ReceiveBudget, ReceiveLimits } from '../receive-budget.js';
import type { SendLimits, SendQueue } from '../send-queue.js';

export interface TransportLimits extends ReceiveLimits, SendLimits {
  maxMessageBytes: number;
  /** Time limit from our close until the socket is destroyed. */
  closeLimitMs: number;
  pingIntervalMs: number;
  /** Time without any data, answers to pings included, after which the agent counts as lost. */
  silenceLimitMs: number;
  /** HTTP/2: a request that was not refused for this long counts as accepted. */
  acceptLimitMs: number;
}

export interface TransportHooks {
  /** Messages can be sent. */
  opened(): void;
  /** The agent has taken the connection; after `opened`. */
  accepted(): void;
  /** Binary data is valid during the call only. */
  message(message: string | Uint8Array): void;
  /** A text message of a WebSocket; false: it was not read, and goes to `message`. */
  media(message: Uint8Array): boolean;
  /** Called periodically while the connection is open. */
  beat(): void;
  /**
   * Called once. The code is that of a WebSocket (RFC 6455 section 7.4); other connections have 1000 for an orderly end and 1006 for any
   * other. `failure`: the cause, if it is known.
   */
  closed(code: number, reason: string, failure: AgentFailure | null): void;
  /** Wraps each callback except `closed`. */
  guard(fn: () => void): void;
}

export interface AgentTransport {
  readonly sendQueue: SendQueue;
  readonly receiveBudget: ReceiveBudget;
  /** The agent has already begun to close: its close code will tell how it ended. */
  readonly closing: boolean;
  send(messages: AgentMessage[]): void;
  /** Whether a frame of caller audio may be sent now; counts it as dropped when not. */
  takesFrame(): boolean;
  frame(message: AgentMessage, bytes: number, format: AudioFormat): void;
  /** Destroys the connection at once. */
  break(failure: AgentFailure): void;
  /** Closes in the way of the protocol; destroys after a time limit. */
  close(code: number): void;
}
