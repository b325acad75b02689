/** The listeners of a session: forks to agents, and taps. Each ends alone, and with the session at the latest. */
import type { MessagePort } from 'node:worker_threads';
import type { AgentEnd, AgentEvent, AgentTarget, AudioTracks } from '../../agents/agent.js';
import { MediaError, type PhoneCodec, type TapEnd, type TapOptions } from '../../engine.js';
import type { FaultPlace } from '../fault-isolation.js';
import type { OpenAgent } from '../session/session-agent.js';
import { AgentFork } from './fork.js';
import { type ListenerStreamParts, ListenerStreams } from './listener-streams.js';
import { AudioTap } from './tap.js';

const forksAtMost = 4;

export interface ListenersParts extends ListenerStreamParts {
  openAgent: OpenAgent;
  fault(place: FaultPlace, error: unknown): void;
  agentEvent(agent: number, event: AgentEvent): void;
  agentEnded(agent: number, end: AgentEnd): void;
}

export class SessionListeners {
  readonly lines: ListenerStreams;
  /** Forks get silence. */
  redacted = false;
  private readonly forks = new Map<number, AgentFork>();
  private readonly taps = new Map<number, AudioTap>();

  constructor(private readonly parts: ListenersParts) {
    this.lines = new ListenerStreams(parts);
  }

  /** Resolves when the agent is ready and gets audio. Rejects with `AgentFailure` or `MediaError`. */
  async fork(id: number, target: AgentTarget, tracks: AudioTracks, codec: PhoneCodec): Promise<void> {
    if (this.forks.size >= forksAtMost)
      throw new MediaError('too_many_forks', `A session has at most ${forksAtMost} forks.`);
    const { parts } = this;
    const fork: AgentFork = new AgentFork(
      target,
      tracks,
      codec,
      {
        fault: (error) => parts.fault('agent', error),
        redacted: () => this.redacted,
        event: (event) => parts.agentEvent(id, event),
        ended: (end) => {
          this.forget(id, fork);
          parts.agentEnded(id, end);
        },
      },
      parts.openAgent,
    );
    this.forks.set(id, fork);
    try {
      await fork.ready;
    } catch (error) {
      this.forget(id, fork);
      throw error;
    }
    if (this.forks.get(id) !== fork) return;
    fork.start(parts.now() - parts.openedMs);
    this.lines.add(fork);
  }

  abortFork(id: number): void {
    this.forks.get(id)?.abort();
  }

  async closeFork(id: number, reason: string): Promise<void> {
    await this.forks.get(id)?.close(reason);
  }

  tap(activity: number, port: MessagePort, options: TapOptions): Promise<TapEnd> {
    return new Promise((resolve) => {
      const tap: AudioTap = new AudioTap(port, options, (end) => {
        this.taps.delete(activity);
        this.lines.remove(tap);
        resolve(end);
      });
      this.taps.set(activity, tap);
      this.lines.add(tap);
    });
  }

  endTap(activity: number): void {
    this.taps.get(activity)?.end('stopped');
  }

  /** Ends all listeners; returns the closing forks, each settled within its own limit. */
  stop(): Promise<void>[] {
    for (const tap of [...this.taps.values()]) tap.end('closed');
    return [...this.forks.values()].map((fork) => fork.close('the call ended'));
  }

  private forget(id: number, fork: AgentFork): void {
    this.lines.remove(fork);
    if (this.forks.get(id) === fork) this.forks.delete(id);
  }
}
