/** One agent of a session: its socket, its playout queue, and the conversion between its audio format and the phone's. */
import {
  type AgentCommand,
  type AgentEnd,
  type AgentEvent,
  AgentFailure,
  type AgentTarget,
} from '../../agents/agent.js';
import type { AgentSocket, AgentSocketHooks } from '../../agents/connection/agent-socket.js';
import { agentToPhone, phoneToAgent, type Transcode } from '../../audio/codec/transcode.js';
import { FrameJoiner } from '../../audio/playout/frame-joiner.js';
import { type HeardPosition, Playout } from '../../audio/playout/playout.js';
import type { PlayoutClock } from '../../audio/playout/playout-clock.js';
import { sampleFormatOf } from '../../audio/sample-format.js';
import type { PhoneCodec } from '../../engine.js';
import type { FaultPlace } from '../fault-isolation.js';
import { ClockedJitterBuffer } from './clocked-jitter-buffer.js';

export type OpenAgent = (target: AgentTarget, hooks: AgentSocketHooks, signal: AbortSignal) => AgentSocket;

export interface SessionAgentHooks {
  /** An exception in our own code for this agent; the agent is ended. */
  fault(place: FaultPlace, error: unknown): void;
  agentEvent(agent: number, event: AgentEvent): void;
  agentEnded(agent: number, end: AgentEnd): void;
  /** Audio was added to the agent's queue. */
  queued(agent: SessionAgent, durationMs: number): void;
  cleared(agent: SessionAgent, heard: HeardPosition): void;
  mark(name: string, cleared: boolean): void;
  /** For the jitter buffer of an agent that asked for one. */
  clock: PlayoutClock;
  now(): number;
}

/** Mark after the audio of an agent that hung up; marks of agents never begin with a NUL. */
const LAST_WORDS = '\0last-words';
/** Audio of an agent that hung up is played for at most this long. */
const lastWordsLimitMs = 15_000;

export class SessionAgent implements AgentSocketHooks {
  readonly playout: Playout;
  /** It hears the caller without the echo of its own voice. */
  readonly removesEcho: boolean;
  started = false;
  private readonly socket: AgentSocket;
  private readonly connecting = new AbortController();
  private encode: Transcode | null = null;
  private decode: Transcode | null = null;
  private readonly joiner: FrameJoiner | null;
  private readonly buffer: ClockedJitterBuffer | null;
  /** The end was reported, by the socket or after a fault. */
  private endTold = false;
  private overflowBytes = 0;
  private lastWordsHeard: () => void = () => {};

  /** Starts connecting. Throws `AgentFailure` when no socket could be opened. */
  constructor(
    private readonly id: number,
    target: AgentTarget,
    private codec: PhoneCodec,
    private readonly hooks: SessionAgentHooks,
    open: OpenAgent,
  ) {
    this.playout = new Playout(codec);
    this.playout.onLevel = (level) => this.event({ type: 'queue', level, queuedMs: Math.round(this.playout.queuedMs) });
    this.removesEcho = target.removeEcho === true;
    this.joiner = target.frameMs === 40 ? new FrameJoiner() : null;
    this.buffer = target.jitterBufferMs
      ? new ClockedJitterBuffer(codec, target.jitterBufferMs, hooks, (bytes, atMs) => this.send(bytes, atMs))
      : null;
    this.playout.onMark = (name, cleared) =>
      this.guard(() => {
        if (name === LAST_WORDS) {
          if (!cleared) this.lastWordsHeard();
        } else this.socket.markReached(name, cleared);
        if (!name.startsWith('\0')) hooks.mark(name, cleared);
      });
    this.socket = open({ ...target, phoneEncoding: sampleFormatOf[codec].encoding }, this, this.connecting.signal);
    this.socket.ended.then((end) => this.left(end));
  }

  /** Rejects with `AgentFailure`. */
  get ready(): Promise<void> {
    return this.socket.ready;
  }

  get counters() {
    const counters = this.socket.counters();
    return { ...counters, garbage: counters.garbage + (this.overflowBytes > 0 ? 1 : 0) };
  }

  abort(): void {
    this.connecting.abort();
  }

  start(): void {
    if (this.started) return;
    this.started = true;
    this.guard(() => this.socket.start());
  }

  command(command: AgentCommand): void {
    this.guard(() => this.socket.command(command));
  }

  /** The caller's audio, 20 ms in the phone's codec. Returns how long it waits until it is sent. */
  listen(bytes: Uint8Array, atMs: number): number {
    if (this.buffer) return this.buffer.push(bytes, atMs);
    this.send(bytes, atMs);
    return 0;
  }

  private send(bytes: Uint8Array, atMs: number): void {
    try {
      const whole = this.joiner ? this.joiner.join(bytes, atMs, this.codec) : bytes;
      if (whole === null) return;
      this.encode ??= phoneToAgent(this.codec, this.socket.format);
      const encoded = this.encode(whole);
      if (encoded.length > 0) this.socket.audio(encoded, this.joiner?.atMs ?? atMs);
    } catch (error) {
      this.fail(error);
    }
  }

  callerSpeaks(agoMs: number): void {
    this.guard(() => this.socket.callerSpeaks(agoMs));
  }

  changeCodec(codec: PhoneCodec): void {
    if (codec === this.codec) return;
    this.codec = codec;
    this.encode = null;
    this.decode = null;
    this.buffer?.changeCodec(codec);
    this.playout.changeCodec(codec);
  }

  async close(reason: string): Promise<void> {
    this.buffer?.close();
    const closed = this.socket.close(reason); // First: it reports how much of the agent's speech was heard.
    this.lastWordsHeard();
    try {
      await closed;
    } catch (error) {
      this.hooks.fault('agent', error);
    }
  }

  /** Audio of the agent. */
  audio(bytes: Uint8Array, itemId?: string): void {
    this.decode ??= agentToPhone(this.socket.replyFormat, this.codec);
    const audio = this.decode(bytes);
    if (audio.length === 0) return;
    const discarded = this.playout.push(audio, itemId);
    this.overflowBytes += discarded;
    if (discarded < audio.length)
      this.hooks.queued(this, (audio.length - discarded) / sampleFormatOf[this.codec].bytesPerMs);
  }

  clear(): HeardPosition {
    const heard = this.playout.clear();
    this.hooks.cleared(this, heard);
    return heard;
  }

  silence(): HeardPosition {
    return this.playout.clear();
  }

  mark(name: string): void {
    this.playout.mark(name);
  }

  event(event: AgentEvent): void {
    this.hooks.agentEvent(this.id, event);
  }

  guard(fn: () => void): void {
    try {
      fn();
    } catch (error) {
      this.fail(error);
    }
  }

  private fail(error: unknown): void {
    this.hooks.fault('agent', error);
    const closed = this.close('error');
    this.tellEnd({ by: 'failed', detail: 'An internal error ended the connection to the agent.' });
    void closed;
  }

  /** An agent that hangs up has often sent its goodbye ahead of time: the end is reported when that was played. */
  private left(end: AgentEnd): void {
    if (end.by !== 'hangup' || !this.started || this.playout.queuedMs === 0) {
      this.tellEnd(end);
      return;
    }
    const limit = setTimeout(() => this.guard(() => void this.close('its last words took too long')), lastWordsLimitMs);
    this.lastWordsHeard = () => {
      clearTimeout(limit);
      this.tellEnd(end);
    };
    this.guard(() => this.playout.mark(LAST_WORDS));
  }

  private tellEnd(end: AgentEnd): void {
    if (this.endTold) return;
    this.endTold = true;
    this.hooks.agentEnded(this.id, end);
  }
}

/** The failure of `prepare` on a closed session. */
export function sessionClosed(): AgentFailure {
  return new AgentFailure('aborted', 'The session was closed.', false);
}
