/** An agent at the end of a SIP leg of ours: a second party of the same call, bridged with the caller. */
import { randomUUID } from 'node:crypto';
import { AgentFailure } from '../../../media/agents/agent.js';
import type { MediaSession, SrtpPolicy } from '../../../media/engine.js';
import type { SafeHttp } from '../../../net/http.js';
import { type CallLeg, SipError } from '../../../sip/leg.js';
import type { EndpointForCall as Endpoint } from '../../store/routing/endpoints.js';
import { carryOut } from '../control/call-commands.js';
import { CallEnded } from '../core/outcome.js';
import { dialSip, type SipDialDeps } from '../dial/dial-sip.js';
import { LegBridge } from '../dial/leg-bridge.js';
import type { Application, DetachReason, Hold, Key } from '../party/application.js';
import { CalledParty } from '../party/called.js';
import type { CallParty } from '../party/party.js';
import type { CallLimits } from './conversation.js';
import type { AgentRules } from './failover-agent.js';
import { sipInvite } from './sip-agent-invite.js';

const ringTimeoutMs = 30_000;

export function isSipTarget(endpoint: Pick<Endpoint, 'type' | 'target'>): boolean {
  return endpoint.type === 'agent' && /^sips?:/i.test(endpoint.target);
}

/** What an agent behind SIP needs of the process. */
export interface SipAgentDeps {
  dialling: SipDialDeps & { allowPrivateTargets: boolean };
  http: SafeHttp;
  agents: Pick<AgentRules, 'health' | 'recordings' | 'transcripts'>;
  limits: CallLimits;
}

/**
 * The bridge exists from the agent's answer on, because its first word may come before the caller's leg is confirmed. Before that the
 * caller may hear the agent's early media, over a bridge that passes no keys.
 */
export class SipAgent implements Application {
  readonly kind = 'bridge';
  readonly #agent: CalledParty;
  readonly #bridge: LegBridge;
  /** The party's media when the dialling began: an outbound call may drop them for another gateway. */
  readonly #session: MediaSession;
  #isAnswered = false;
  #detached: Promise<void> | null = null;

  private constructor(
    private readonly party: CallParty,
    private readonly endpoint: Endpoint,
    private readonly deps: SipAgentDeps,
  ) {
    const { call, facts, mode, headers, session } = party;
    this.#session = session;
    this.#agent = new CalledParty({ call, role: 'agent', facts, mode, headers });
    this.#bridge = new LegBridge(party, this.#agent, {
      turns: true,
      owner: this,
      onRefer: (refer) => this.#referred(refer),
    });
  }

  /** Calls the endpoint; resolves when it answered. Rejects with `CallEnded` when it did not, and then holds nothing. */
  static async dial(party: CallParty, endpoint: Endpoint, deps: SipAgentDeps): Promise<SipAgent> {
    const agent = new SipAgent(party, endpoint, deps);
    await agent.#dial();
    return agent;
  }

  /** Answers the call; caller and agent hear each other until it ends. */
  async run(): Promise<void> {
    await this.party.answer();
    await this.party.call.ended;
  }

  /** The caller answered. */
  attach(): void {
    const { party, endpoint, deps } = this;
    this.#watchAgent();
    if (party.call.isRecorded ?? endpoint.record) deps.agents.recordings.begin(party.call, party.session);
    deps.agents.transcripts.agentBegins(party.call, party.session, endpoint);
    this.#bridge.attach();
  }

  detach(why: DetachReason): Promise<void> {
    this.#detached ??= this.#close(why);
    return this.#detached;
  }

  onKey(key: Key): void {
    this.#bridge.onKey(key);
  }

  onHold(hold: Hold | null): void {
    this.#bridge.onHold(hold);
  }

  async #dial(): Promise<void> {
    const { party, endpoint, deps } = this;
    const { call, facts } = party;
    const { agents, http, dialling } = deps;
    const about = { endpoint_id: endpoint.id, provider: endpoint.provider ?? endpoint.type, attempt: 1 };
    const config = endpoint.providerConfig;
    call.event('agent.connecting', about);
    const startedMs = performance.now();
    try {
      const invite = await sipInvite(endpoint, facts, http, call.signal);
      const leg = await dialSip(
        this.#agent,
        party,
        {
          sipCallId: randomUUID(),
          uri: invite.uri,
          from: facts.from,
          fromDisplayName: facts.fromName,
          headers: { ...invite.headers, ...headersOf(party, config) },
          ...credentialsOf(config),
          ...encryptionOf(config),
          ringTimeoutMs,
          publicOnly: !dialling.allowPrivateTargets,
          organizationId: facts.organizationId,
          onEarlyMedia: (session) => void this.#hearEarly(session).catch(() => {}), // it rings without; its answer decides
        },
        dialling,
      );
      await this.#agent.answeredWith(leg);
      call.check();
      agents.health.succeeded(endpoint.id);
      call.agentConnected(
        { kind: 'sip', provider: endpoint.provider ?? 'sip', endpointId: endpoint.id },
        performance.now() - startedMs,
      );
      call.event('agent.connected', about);
      this.#isAnswered = true;
      await this.#agent.answer();
      await this.#connect();
      this.#bridge.attach();
    } catch (error) {
      await (party.control.current === this ? party.control.release('failed') : this.detach('failed'));
      call.check();
      const { reason, message, sipStatus } = failureOf(error);
      // An agent that is busy, or does not answer, is reachable.
      if (reason !== 'busy' && reason !== 'no_answer') agents.health.failed(endpoint.id);
      call.event('agent.failed', { ...about, reason, message, ...(sipStatus && { sip_status: sipStatus }) });
      throw new CallEnded({ cause: 'agent_unreachable', source: 'system', detail: message });
    }
  }

  async #connect(): Promise<void> {
    const { control, session } = this.party;
    if (session !== this.#session) throw new CallEnded({ cause: 'unspecified', source: 'system' });
    if (control.current !== this) await control.connect(this);
  }

  /** What the agent's side plays before it answers, to a caller who has not been answered either. */
  async #hearEarly(session: MediaSession): Promise<void> {
    const { party } = this;
    const isRinging = await party.ringWithMedia();
    if (!isRinging || this.#isAnswered || this.#detached !== null || this.#agent.session !== session) return;
    await this.#connect();
    party.control.bridge(this, session, { relay: 'packets', dtmf: 'block' });
  }

  /** An agent that hangs up, or is lost, ends the call while it has the caller. */
  #watchAgent(): void {
    const { party, deps } = this;
    const { call, control } = party;
    const { hungUp, session } = this.#agent;
    void hungUp.then(
      call.guarded(({ by, detail }) => {
        if (control.current !== this) return;
        const cause = by === 'remote' ? 'agent_hangup' : 'agent_error';
        const text = detail?.text === undefined ? {} : { detail: detail.text };
        void deps.limits.apology.end(party, { cause, source: 'agent', ...text });
      }),
    );
    void session.lost.then(
      call.guarded((how) => {
        if (control.current !== this) return;
        const cause = how === 'rtp-timeout' ? 'agent_error' : 'engine_gone';
        void deps.limits.apology.end(party, { cause, source: 'system' });
      }),
    );
  }

  /** The agent asks for a transfer of the caller. The organization pays for it, so its settings must allow it. */
  async #referred({
    to,
    replaces,
  }: {
    to: string;
    replaces: string | null;
  }): ReturnType<Parameters<CallLeg['onRefer']>[0]> {
    const { party, endpoint, deps } = this;
    const { call, control } = party;
    if (!control.isOpen) return { refuse: 403 };
    const refusal =
      endpoint.providerConfig.allow_refer === true ? await call.transferFallback?.refusal(to) : 'It is not allowed.';
    if (typeof refusal === 'string') {
      call.event('transfer.failed', { to, source: 'agent', reason: 'destination_not_allowed', detail: refusal });
      return { refuse: 403 };
    }
    // Only a SIP address can give up a dialog.
    if (replaces !== null && !/^sips?:/i.test(to)) return { refuse: 400 };
    const command = { kind: 'transfer' as const, to, ...(replaces === null ? {} : { replaces }) };
    const outcome = carryOut(command, 'agent', party, deps.limits.transferTimeoutMs);
    return { accept: true, outcome: outcome.then((result) => (result.ok ? 200 : 503)) };
  }

  async #close(why: DetachReason): Promise<void> {
    const { call } = this.party;
    this.deps.agents.transcripts.agentLeft(call);
    await this.#bridge.detach();
    const cause = call.ending?.cause ?? (why === 'failed' ? 'incompatible_media' : 'normal_clearing');
    const [stats] = await Promise.allSettled([this.#agent.closeMedia(), this.#agent.leg?.hangup(cause)]);
    if (this.#isAnswered && stats.status === 'fulfilled' && stats.value !== null) call.agentLegEnded(stats.value);
  }
}

function failureOf(error: unknown): { reason: string; message: string; sipStatus?: number } {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof AgentFailure) return { reason: error.reason, message };
  if (!(error instanceof SipError)) return { reason: 'media', message };
  const { sipStatus } = error;
  const reason =
    error.hangupCause === 'user_busy'
      ? 'busy'
      : error.hangupCause === 'no_answer'
        ? 'no_answer'
        : error.hangupCause === 'destination_not_allowed'
          ? 'blocked_address'
          : error.code === 'rejected'
            ? 'refused'
            : error.code;
  return { reason, message, ...(sipStatus === undefined ? {} : { sipStatus }) };
}

function credentialsOf(config: Endpoint['providerConfig']): { auth?: { username: string; password: string } } {
  const { sip_username: username, sip_password: password } = config;
  return typeof username === 'string' && typeof password === 'string' ? { auth: { username, password } } : {};
}

function encryptionOf({ srtp }: Endpoint['providerConfig']): { srtp?: SrtpPolicy } {
  return srtp === 'off' || srtp === 'allow' || srtp === 'require' ? { srtp } : {};
}

/** `X-` headers of the settings and of the call's INVITE, and ours, which name the call. */
function headersOf(party: CallParty, config: Endpoint['providerConfig']): Record<string, string> {
  const ofCall = Object.entries(party.headers).filter(([name]) => /^x-/i.test(name));
  const ofSettings = Object.entries((config.headers ?? {}) as Record<string, string>);
  return {
    ...Object.fromEntries([...ofCall, ...ofSettings].filter(([name]) => /^x-/i.test(name))),
    'X-Trunkline-Call-Id': party.facts.callId,
    'X-Trunkline-To': party.facts.to,
  };
}
