/** The agents of a session: the one that converses, those prepared beside it, and the totals of those that left. */
import type { AgentCommand, AgentTarget } from '../../agents/agent.js';
import type { PhoneCodec } from '../../engine.js';
import { type OpenAgent, SessionAgent, type SessionAgentHooks, sessionClosed } from './session-agent.js';

export interface AgentsParts extends SessionAgentHooks {
  openAgent: OpenAgent;
  codec(): PhoneCodec;
}

export class SessionAgents {
  private readonly agents = new Map<number, SessionAgent>();
  private readonly past = { framesSent: 0, framesDropped: 0, bytesReceived: 0, garbage: 0 };
  private over = false;

  constructor(private readonly parts: AgentsParts) {}

  get(id: number): SessionAgent | null {
    return this.agents.get(id) ?? null;
  }

  /** Resolves when the agent is ready. Rejects with `AgentFailure`. */
  async prepare(id: number, target: AgentTarget): Promise<void> {
    if (this.over) throw sessionClosed();
    const { parts } = this;
    const agent = new SessionAgent(id, target, parts.codec(), parts, parts.openAgent);
    this.agents.set(id, agent);
    try {
      await agent.ready;
    } catch (error) {
      this.forget(id, agent);
      throw error;
    }
  }

  /** Returns the agent if this call started it. */
  start(id: number): SessionAgent | null {
    const agent = this.agents.get(id);
    if (!agent || agent.started) return null;
    agent.start();
    return agent;
  }

  command(id: number, command: AgentCommand): void {
    this.agents.get(id)?.command(command);
  }

  async close(id: number, reason: string): Promise<void> {
    const agent = this.agents.get(id);
    if (!agent) return;
    this.forget(id, agent);
    await agent.close(reason);
  }

  changeCodec(codec: PhoneCodec): void {
    for (const agent of this.agents.values()) agent.changeCodec(codec);
  }

  counters() {
    const sum = { ...this.past };
    for (const agent of this.agents.values()) add(sum, agent.counters);
    return sum;
  }

  /** Closes all agents; each promise settles within the agent's own limit. */
  stop(): Promise<void>[] {
    this.over = true;
    return [...this.agents.values()].map((agent) => agent.close('the call ended'));
  }

  private forget(id: number, agent: SessionAgent): void {
    if (this.agents.delete(id)) add(this.past, agent.counters);
  }
}

type Counters = { framesSent: number; framesDropped: number; bytesReceived: number; garbage: number };

function add(sum: Counters, counters: Counters): void {
  sum.framesSent += counters.framesSent;
  sum.framesDropped += counters.framesDropped;
  sum.bytesReceived += counters.bytesReceived;
  sum.garbage += counters.garbage;
}
