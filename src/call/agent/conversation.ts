import type { AgentEnd, AgentEvent } from '../../../media/agents/agent.js';
import { carryOut } from '../control/call-commands.js';
import type { CallCommand } from '../core/command.js';
import type { Application, DetachReason, Hold, Key } from '../party/application.js';
import type { CallParty } from '../party/party.js';
import type { Apology } from './apology.js';
import type { FailoverAgent } from './failover-agent.js';

export interface CallLimits {
  maxCallMs: number;
  transferTimeoutMs: number;
  apology: Apology;
}

/** A party talks with an agent that is connected. */
export class AgentConversation implements Application {
  readonly kind = 'agent';
  #isStarted = false;
  #stopListening: () => void = () => {};

  constructor(
    private readonly party: CallParty,
    private readonly agent: FailoverAgent,
    private readonly limits: CallLimits,
  ) {}

  /** The conversation has no agent any more: hung up, failed without a fallback, or closed by us. */
  get ended(): Promise<AgentEnd> {
    return this.agent.ended;
  }

  /** Answers the call; party and agent talk until something ends it. */
  async run(): Promise<void> {
    const { party, agent, limits } = this;
    await party.answer();
    void agent.ended.then(
      party.call.guarded(({ by, detail }) => {
        if (party.control.current !== this) return;
        const cause = by === 'failed' ? 'agent_error' : 'agent_hangup';
        void limits.apology.end(party, { cause, source: 'agent', detail });
      }),
    );
    await party.call.ended;
  }

  attach(): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    const { party, agent } = this;
    this.#record();
    this.#stopListening = agent.onEvent(party.call.guarded((event) => this.#heard(event)));
    if (party.held !== null) this.onHold(party.held);
    agent.start((owner) => party.control.attach(this, owner));
  }

  async detach(why: DetachReason): Promise<void> {
    this.#stopListening();
    const { ending } = this.party.call;
    await this.agent.close(why === 'finished' ? 'the stream is over' : (ending?.cause ?? why));
  }

  onKey({ digit }: Key): void {
    this.agent.command({ kind: 'dtmf', digits: digit });
  }

  onHold(hold: Hold | null): void {
    this.agent.command({ kind: 'hold', on: hold !== null });
  }

  /** To the end of the agent, which is later than that of the conversation: only then it is known how much of its last words was heard. */
  #record(): void {
    const { call } = this.party;
    this.agent.onEvent(
      call.guarded((event) => {
        if (event.type === 'usage') call.used(event);
        if (event.type !== 'transcript' || !call.transcript.isWrittenBy('provider', event.speaker)) return;
        call.said(event);
      }),
    );
  }

  #heard(event: AgentEvent): void {
    const { party, limits } = this;
    const { call } = party;
    switch (event.type) {
      case 'audioStarted':
      case 'transcript':
      case 'usage':
        return;
      case 'reconnected':
        call.event('agent.reconnected');
        return;
      case 'hangup':
        call.end({ cause: 'agent_hangup', source: 'agent' });
        return;
      case 'transfer':
      case 'dtmf': {
        const command: CallCommand =
          event.type === 'dtmf' ? { kind: 'dtmf', digits: event.digits } : { kind: 'transfer', to: event.to };
        void carryOut(command, 'agent', party, limits.transferTimeoutMs);
        return;
      }
      case 'redaction':
        void carryOut({ kind: 'redaction', ...event.change }, 'agent', party, limits.transferTimeoutMs);
        return;
      case 'queue':
        call.event('agent.warning', queueWarning(event));
        return;
      case 'warning':
        call.event('agent.warning', { code: event.code, message: event.message });
    }
  }
}

const queueSays = {
  high: 'The agent sent more than 9 minutes of audio ahead.',
  full: 'The agent sent more than 10 minutes of audio ahead; what is above that is discarded.',
  normal: 'The audio that the agent sent ahead is under 8 minutes again.',
};

function queueWarning({ level, queuedMs }: Extract<AgentEvent, { type: 'queue' }>) {
  return { code: `playout_${level}`, message: queueSays[level], queued_ms: queuedMs };
}
