/**
 * Sends to one agent with bounded buffers. Caller audio is queued briefly and then dropped, newest first: queued data cannot be taken back,
 * and late audio is worse than none. Other messages are always sent, until the agent counts as stuck.
 */
import type { AgentMessage, AudioFormat } from '../agent.js';

export interface SendLimits {
  /** The most caller audio that may be queued on our side of the socket. */
  sendQueueMs: number;
  /** How long a ping may stay unanswered, and the audio before it unread, until further audio is dropped. */
  unreadLimitMs: number;
  /** The most data of any kind that may be queued; beyond it the agent counts as gone. */
  sendQueueBytes: number;
}

/** The connection that is written to. */
export interface SendTarget {
  readonly isOpen: boolean;
  /** What was written and the kernel has not taken yet. */
  readonly bufferedAmount: number;
  write(message: string | Uint8Array): void;
}

const SILENCE = { ulaw: 0xff, alaw: 0xd5, l16: 0 };

export class SendQueue {
  framesSent = 0;
  framesDropped = 0;
  lastSentMs = performance.now();
  readonly #target: SendTarget;
  readonly #limits: SendLimits;
  readonly #stuck: () => void;
  #queueBytes = Number.POSITIVE_INFINITY;
  #silence = new Uint8Array(0);

  /** `stuck` is called for each message that no longer fits. */
  constructor(target: SendTarget, limits: SendLimits, stuck: () => void) {
    this.#target = target;
    this.#limits = limits;
    this.#stuck = stuck;
  }

  /** Checked before a frame is encoded, so that a dropped frame leaves no gap in the agent's sequence numbers. */
  takesFrame(unansweredMs: number): boolean {
    if (this.#target.bufferedAmount <= this.#queueBytes && unansweredMs <= this.#limits.unreadLimitMs) return true;
    this.framesDropped += 1;
    return false;
  }

  /** Sends one frame of caller audio: `bytes` of `format`, encoded as `message`. */
  frame(message: AgentMessage, bytes: number, format: AudioFormat): void {
    if (message === null) return;
    this.#queueBytes = (message.length * this.#limits.sendQueueMs) / durationMs(bytes, format);
    this.framesSent += 1;
    this.send(message);
  }

  send(message: AgentMessage): void {
    if (message === null || !this.#target.isOpen) return;
    this.lastSentMs = performance.now();
    if (this.#target.bufferedAmount > this.#limits.sendQueueBytes) this.#stuck();
    else this.#target.write(message);
  }

  /** That many bytes of silence; read-only. */
  silence(bytes: number, { encoding }: AudioFormat): Uint8Array {
    if (this.#silence.length !== bytes) this.#silence = new Uint8Array(bytes).fill(SILENCE[encoding]);
    return this.#silence;
  }
}

export function durationMs(bytes: number, { encoding, sampleRateHz }: AudioFormat): number {
  return (bytes * 1000) / (sampleRateHz * (encoding === 'l16' ? 2 : 1));
}
