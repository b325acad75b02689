import {
  type AgentCommand,
  type AgentEnd,
  type AgentEvent,
  AgentFailure,
  type CallFacts,
  type Plain,
} from '../../../media/agents/agent.js';
import type { AgentLink, MediaSession } from '../../../media/engine.js';
import type { SafeHttp } from '../../../net/http.js';
import type { EndpointForCall as Endpoint } from '../../store/routing/endpoints.js';
import type { Call } from '../core/call.js';
import { CallEnded } from '../core/outcome.js';
import type { PartyFacts } from '../core/party-facts.js';
import type { CallParty } from '../party/party.js';
import { comfortTone } from '../prompts/tones.js';
import type { Recordings } from '../recording/call-recording.js';
import type { EndpointHealth } from '../routing/endpoint-health.js';
import { type AgentTargetRules, agentTarget, refusedConfig, variablesOf } from './agent-target.js';
import type { CallTranscripts } from './call-transcripts.js';
import { type PreConnected, PreConnectFailure, preConnect } from './pre-connect.js';

export interface AgentRules extends AgentTargetRules {
  /** Budget per endpoint, from connecting until ready. */
  connectTimeoutMs: number;
  health: EndpointHealth;
  /** For `pre_connect_url`. */
  http: SafeHttp;
  recordings: Recordings;
  transcripts: CallTranscripts;
}

/** With less time left there is no second attempt. */
const leastAttemptMs = 20;

/** Keys pressed while no agent listens are kept for the next one, up to this many. */
const keptDigits = 64;
const keptEvents = 100;

/**
 * The agent of the first endpoint that is ready within its budget; after a temporary failure an endpoint is tried once more. When an agent
 * fails later, the next endpoint takes over by the same rules. Rejects with `CallEnded` (`agent_unreachable`).
 */
export async function connectAgent(
  party: CallParty,
  facts: PartyFacts,
  endpoints: readonly Endpoint[],
  rules: AgentRules,
): Promise<FailoverAgent> {
  const agent = new FailoverAgent(party.call, facts, endpoints, party.session, rules);
  await agent.connect();
  return agent;
}

/** The agent of a call. When it fails, the caller stays on the line, and the next endpoint's agent gets the transcript so far. */
export class FailoverAgent {
  /** The call has no agent any more: it hung up, failed without a fallback, or was closed by us. */
  readonly ended: Promise<AgentEnd>;
  #end!: (end: AgentEnd) => void;
  #link: AgentLink | null = null;
  #endpoint: Endpoint | null = null;
  /** Endpoints not tried yet, in order. */
  readonly #next: Endpoint[];
  readonly #listeners = new Set<(event: AgentEvent) => void>();
  readonly #missedDigits: string[] = [];
  /** Events before there was a listener: some agents speak, or fail, while the phone still rings. */
  readonly #early: AgentEvent[] = [];
  /** Sets the owner of playout; null until the caller answered. */
  #attach: ((owner: AgentLink | null) => void) | null = null;
  #held = false;
  #closed = false;
  /** Ends the comfort tone between two agents; null when there is none. */
  #comfort: AbortController | null = null;

  constructor(
    private readonly call: Call,
    private readonly facts: PartyFacts,
    endpoints: readonly Endpoint[],
    private readonly session: MediaSession,
    private readonly rules: AgentRules,
  ) {
    this.#next = [...endpoints];
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  /** The caller answered: the agent may speak and is heard. `attach` sets the owner of playout. */
  start(attach: (owner: AgentLink | null) => void): void {
    this.#attach = attach;
    this.#begin();
  }

  onEvent(listener: (event: AgentEvent) => void): () => void {
    this.#listeners.add(listener);
    for (const event of this.#early.splice(0)) listener(event);
    return () => this.#listeners.delete(listener);
  }

  command(command: AgentCommand): void {
    if (command.kind === 'hold') this.#held = command.on;
    if (this.#link !== null) this.#link.command(command);
    else if (command.kind === 'dtmf' && this.#missedDigits.length < keptDigits) this.#missedDigits.push(command.digits);
  }

  async close(reason: string): Promise<void> {
    this.#closed = true;
    this.#comfort?.abort();
    await this.#link?.close(reason);
  }

  /** Tries endpoint after endpoint until one is ready. Rejects with `CallEnded`. */
  async connect(): Promise<void> {
    let failed: string | null = null;
    for (let endpoint = this.#next.shift(); endpoint !== undefined; endpoint = this.#next.shift()) {
      if (this.#endpoint !== null)
        this.call.event('agent.failover', { from_endpoint_id: this.#endpoint.id, to_endpoint_id: endpoint.id });
      this.#endpoint = endpoint;
      if (this.#next.length > 0 && !this.rules.health.admits(endpoint.id)) {
        failed = 'The endpoint is down; it is tried again later.';
        this.call.event('agent.failed', { endpoint_id: endpoint.id, reason: 'circuit_open', message: failed });
        continue;
      }
      const connected = await this.#tryEndpoint(endpoint);
      if (connected === null) return;
      failed = connected;
      this.rules.health.failed(endpoint.id);
    }
    throw new CallEnded({
      cause: 'agent_unreachable',
      source: 'system',
      detail: failed ?? 'The endpoint has no agent.',
    });
  }

  /** null when the agent is ready, else the reason why not. */
  async #tryEndpoint(endpoint: Endpoint): Promise<string | null> {
    const { call, rules } = this;
    // cheaper than `AbortSignal.any`: every call runs this
    const budget = new AbortController();
    const overtime = setTimeout(
      () => budget.abort(new DOMException('The time is up.', 'TimeoutError')),
      rules.connectTimeoutMs,
    );
    const left = () => budget.abort(call.signal.reason);
    if (call.signal.aborted) left();
    call.signal.addEventListener('abort', left, { once: true });
    try {
      return await this.#tryWithin(budget.signal, endpoint);
    } finally {
      clearTimeout(overtime);
      call.signal.removeEventListener('abort', left);
    }
  }

  async #tryWithin(budget: AbortSignal, endpoint: Endpoint): Promise<string | null> {
    const { call, rules } = this;
    const endMs = performance.now() + rules.connectTimeoutMs;
    const remainingMs = () => Math.max(1, endMs - performance.now());
    const personal = await this.#personalize(endpoint, budget);
    for (let attempt = 1; ; attempt += 1) {
      const about = { endpoint_id: endpoint.id, provider: endpoint.provider ?? endpoint.type, attempt };
      call.event('agent.connecting', about);
      try {
        const target = agentTarget(endpoint, this.#factsFor(endpoint, personal), rules, remainingMs());
        target.config = { ...(target.config as { [field: string]: Plain }), ...personal?.config };
        const startedMs = performance.now();
        const link = await this.session.prepareAgent(target, budget);
        const agent = { kind: 'websocket', provider: about.provider, endpointId: endpoint.id } as const;
        call.agentConnected(agent, performance.now() - startedMs);
        call.event('agent.connected', about);
        this.#seat(link, endpoint);
        return null;
      } catch (error) {
        if (call.ending !== null) throw new CallEnded(call.ending);
        const failure = error instanceof AgentFailure ? error : new AgentFailure('protocol', String(error), false);
        const { reason, message } = failure;
        call.event('agent.failed', { endpoint_id: endpoint.id, reason, message, attempt });
        if (!failure.retryable || attempt === 2 || budget.aborted || remainingMs() < leastAttemptMs) return message;
      }
    }
  }

  /** What the customer's server says about this call; null for nothing. A failure is recorded, and the call goes on. */
  async #personalize(endpoint: Endpoint, signal: AbortSignal): Promise<PreConnected | null> {
    try {
      const personal = await preConnect(endpoint, this.facts, this.rules.http, signal);
      if (personal === null) return null;
      const problem = refusedConfig(endpoint, personal);
      if (problem !== null) throw new PreConnectFailure(`The answer of pre_connect_url cannot be used: ${problem}`);
      const fields = Object.keys(personal.config);
      const variables = Object.keys(personal.variables).length;
      this.call.event('agent.personalized', { endpoint_id: endpoint.id, fields, variables });
      return personal;
    } catch (error) {
      if (this.call.ending !== null) throw new CallEnded(this.call.ending);
      if (!(error instanceof PreConnectFailure)) throw error;
      this.call.event('agent.warning', { code: 'pre_connect_failed', message: error.message });
      return null;
    }
  }

  #factsFor(endpoint: Endpoint, personal: PreConnected | null): CallFacts {
    const { callId, organizationId, from, to, direction, custom } = this.facts;
    const { answeredBy } = this.facts;
    const variables = {
      ...(answeredBy && { answered_by: answeredBy.by }),
      ...variablesOf(endpoint, this.facts),
      ...personal?.variables,
    };
    const { lines } = this.call.transcript;
    return {
      ...{ callId, organizationId, from, to, direction, variables },
      custom: { ...custom, ...variables },
      ...(lines.length > 0 && { history: lines }), // for an agent that comes later
    };
  }

  #seat(link: AgentLink, endpoint: Endpoint): void {
    this.#link = link;
    link.onEvent(
      this.call.guarded((event) => {
        if (event.type === 'audioStarted') this.rules.health.succeeded(endpoint.id);
        if (this.#link !== link) return;
        if (this.#listeners.size === 0 && this.#early.length < keptEvents) this.#early.push(event);
        for (const listener of [...this.#listeners]) listener(event);
      }),
    );
    void link.ended.then(this.call.guarded((end) => this.#left(link, endpoint, end)));
    if (this.#attach !== null) this.#begin();
  }

  #begin(): void {
    const [link, endpoint] = [this.#link, this.#endpoint];
    if (link === null || endpoint === null) return; // the next one begins when it is ready
    if (this.call.isRecorded ?? endpoint.record) this.rules.recordings.begin(this.call, this.session);
    this.rules.transcripts.agentBegins(this.call, this.session, endpoint);
    link.start();
    this.#comfort?.abort();
    this.#attach?.(link);
    if (this.#held) link.command({ kind: 'hold', on: true });
    for (const digits of this.#missedDigits.splice(0)) link.command({ kind: 'dtmf', digits });
  }

  /** A clean close is a hangup; after anything else the next endpoint takes over. */
  #left(link: AgentLink, endpoint: Endpoint, end: AgentEnd): void {
    if (this.#link !== link) return;
    this.#link = null;
    this.rules.transcripts.agentLeft(this.call);
    const about = { by: end.by, close_code: end.closeCode ?? null, detail: end.detail };
    this.call.event('agent.disconnected', { endpoint_id: endpoint.id, ...about });
    if (end.by === 'failed') {
      this.rules.health.failed(endpoint.id);
      this.call.event('agent.failed', { endpoint_id: endpoint.id, reason: 'lost', message: end.detail });
    } else if (end.by === 'hangup') this.rules.health.succeeded(endpoint.id);
    if (end.by !== 'failed' || this.#next.length === 0 || this.#closed || this.call.ending !== null) this.#end(end);
    else this.#takeOver(end);
  }

  #takeOver(end: AgentEnd): void {
    if (this.#attach !== null) this.#comfortCaller();
    // The first failure is the reason of the call's end; each of the others has its event.
    this.connect().catch(() => {
      this.#comfort?.abort();
      this.#end(end);
    });
  }

  #comfortCaller(): void {
    this.#comfort?.abort();
    this.#comfort = new AbortController();
    this.#attach?.(null);
    const until = AbortSignal.any([this.#comfort.signal, this.call.signal]);
    this.session.play(comfortTone, until).catch(() => {}); // the session is closed
  }
}
