/** An agent or fork as seen by the main thread. */
import type { AgentCommand, AgentEnd, AgentEvent } from '../../agents/agent.js';
import type { AgentLink } from '../../engine.js';
import type { Order } from '../channel.js';
import { guarded } from '../fault-isolation.js';

/** Event listeners. An exception of one goes to `fault` and reaches neither the others nor the thread's channel. */
export class Listeners<E> {
  private readonly listeners = new Set<(event: E) => void>();

  constructor(private readonly fault: (error: unknown) => void) {}

  add(listener: (event: E) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  tell(event: E): void {
    for (const listener of [...this.listeners]) guarded(this.fault, listener)(event);
  }

  clear(): void {
    this.listeners.clear();
  }
}

export class RemoteAgent implements AgentLink {
  readonly ended: Promise<AgentEnd>;
  readonly events: Listeners<AgentEvent>;
  end!: (end: AgentEnd) => void;
  private closing: Promise<void> | null = null;

  constructor(
    readonly id: number,
    /** The session that the agent belongs to. */
    readonly session: {
      id: number;
      worker: { post(order: Order): void };
      closeAgent(agent: RemoteAgent, reason: string): Promise<void>;
      fault(error: unknown): void;
    },
  ) {
    this.events = new Listeners((error) => session.fault(error));
    this.ended = new Promise((resolve) => {
      this.end = resolve;
    });
  }

  start(): void {
    this.session.worker.post({ kind: 'startAgent', session: this.session.id, agent: this.id });
  }

  onEvent(listener: (event: AgentEvent) => void): () => void {
    return this.events.add(listener);
  }

  command(command: AgentCommand): void {
    this.session.worker.post({ kind: 'commandAgent', session: this.session.id, agent: this.id, command });
  }

  close(reason: string): Promise<void> {
    this.closing ??= this.session.closeAgent(this, reason);
    return this.closing;
  }
}
