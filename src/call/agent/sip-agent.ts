/** An agent at the end of a SIP leg of ours, with our media in the middle: both phones, and what joins them. */
import { AgentFailure } from '../../../media/agents/agent.js';
import type { MediaSession, SrtpPolicy } from '../../../media/engine.js';
import type { SafeHttp } from '../../../net/http.js';
import { type CallLeg, SipError } from '../../../sip/leg.js';
import type { EndpointForCall as Endpoint } from '../../store/routing/endpoints.js';
import { carryOut } from '../control/call-commands.js';
import { answerReoffers, keyOfInfo } from '../core/leg-requests.js';
import { CallEnded } from '../core/outcome.js';
import type { CallParty } from '../core/party.js';
import { heardKey, observe } from '../core/party-events.js';
import { type BridgeRules, callSip, type SecondLeg } from '../dial/dial-sip.js';
import { JoinedLegs } from '../dial/leg-bridge.js';
import type { ConverseLimits } from './conversation.js';
import type { AgentRules } from './failover-agent.js';
import { sipInvite } from './sip-agent-invite.js';

export function isSipTarget(endpoint: Pick<Endpoint, 'type' | 'target'>): boolean {
  return endpoint.type === 'agent' && /^sips?:/i.test(endpoint.target);
}

/** What of the rules for agents holds for those behind SIP too. */
export type BridgedAgentRules = Pick<AgentRules, 'health' | 'recordings'>;

export class BridgedAgent {
  /** From the agent's answer on: its first word may come before the caller's leg is confirmed. */
  readonly #joined: JoinedLegs;
  readonly #unwatchAgent: () => void;

  private constructor(
    private readonly line: CallParty,
    private readonly endpoint: Endpoint,
    private readonly far: SecondLeg,
    private readonly agents: BridgedAgentRules,
  ) {
    const { call } = line;
    this.#joined = new JoinedLegs(line, far, {
      turns: true,
      signal: call.signal,
      onInfoKey: (digit) => call.event('dtmf.sent', { digits: digit, source: 'agent' }),
    });
    this.#unwatchAgent = this.#watchAgent();
  }

  /** Calls the endpoint; resolves when it answered. Rejects with `CallEnded` when it did not, and then holds nothing. */
  static async dial(
    line: CallParty,
    endpoint: Endpoint,
    rules: BridgeRules & { http: SafeHttp },
    agents: BridgedAgentRules,
  ): Promise<BridgedAgent> {
    const { call } = line;
    const about = { endpoint_id: endpoint.id, provider: endpoint.provider ?? endpoint.type, attempt: 1 };
    const config = endpoint.providerConfig;
    call.event('agent.connecting', about);
    try {
      const invite = await sipInvite(endpoint, line.facts, rules.http, call.signal);
      const far = await callSip(
        line,
        {
          uri: invite.uri,
          headers: { ...invite.headers, ...headersOf(line, config) },
          ...credentialsOf(config),
          ...encryptionOf(config),
          onEarlyMedia: (session) => hearEarly(line, session),
        },
        rules,
        call.signal,
      );
      agents.health.succeeded(endpoint.id);
      call.event('agent.connected', about);
      return new BridgedAgent(line, endpoint, far, agents);
    } catch (error) {
      call.check();
      const { reason, message, sipStatus } = failureOf(error);
      // Somebody who is busy, or does not answer, is there.
      if (reason !== 'busy' && reason !== 'no_answer') agents.health.failed(endpoint.id);
      call.event('agent.failed', { ...about, reason, message, ...(sipStatus && { sip_status: sipStatus }) });
      throw new CallEnded({ cause: 'agent_unreachable', source: 'system', detail: message });
    }
  }

  /** Caller and agent hear each other until the call ends. */
  async talk(callerLeg: CallLeg, limits: ConverseLimits): Promise<void> {
    const { call, session: callerSession } = this.line;
    const { leg, session } = this.far;
    const timeLimit = setTimeout(() => call.end({ cause: 'time_limit', source: 'system' }), limits.maxCallMs);
    void leg.ended.then(
      call.guarded((end) => {
        if (call.handedOver) return;
        void limits.apology.end(call, callerSession, {
          cause: end.by === 'remote' ? 'agent_hangup' : 'agent_error',
          source: 'agent',
          ...(end.detail?.text === undefined ? {} : { detail: end.detail.text }),
        });
      }),
    );
    call.onHandOver(() => this.close('transferred'));
    void session.lost.then(
      call.guarded((how) => {
        if (call.handedOver) return;
        const cause = how === 'rtp-timeout' ? 'agent_error' : 'engine_gone';
        void limits.apology.end(call, callerSession, { cause, source: 'system' });
      }),
    );
    call.commands = (command) => carryOut(command, 'api', call, callerLeg, callerSession, limits.transferTimeoutMs);
    // An agent behind SIP asks for a transfer by REFER: of the caller, who alone is left then. Whoever pays for it must have allowed it.
    leg.onRefer(async ({ to, replaces }) => {
      const refusal =
        this.endpoint.providerConfig.allow_refer === true ? call.transferFallback?.refusal(to) : 'It is not allowed.';
      if (typeof refusal === 'string') {
        call.event('transfer.failed', { to, source: 'agent', reason: 'destination_not_allowed', detail: refusal });
        return { refuse: 403 };
      }
      // Only a SIP address can give up a dialog.
      if (replaces !== null && !/^sips?:/i.test(to)) return { refuse: 400 };
      const command = { kind: 'transfer' as const, to, ...(replaces === null ? {} : { replaces }) };
      const outcome = carryOut(command, 'agent', call, callerLeg, callerSession, limits.transferTimeoutMs);
      return { accept: true, outcome: outcome.then((result) => (result.ok ? 200 : 503)) };
    });
    if (this.endpoint.record) this.agents.recordings.begin(call, callerSession);
    this.#watchCaller(callerLeg);
    try {
      await call.ended;
    } finally {
      clearTimeout(timeLimit);
      call.commands = null;
    }
  }

  async close(_reason: string): Promise<void> {
    const { call } = this.line;
    this.#unwatchAgent();
    await this.#joined.stop();
    const cause = call.ending?.cause ?? 'normal_clearing';
    const [stats] = await Promise.allSettled([this.far.session.close(), this.far.leg.hangup(cause)]);
    if (stats.status === 'fulfilled') call.agentLegEnded(stats.value);
  }

  #watchCaller(leg: CallLeg): void {
    const { call, session } = this.line;
    answerReoffers(leg, session);
    leg.onInfo(
      call.guarded((info) => {
        const digit = keyOfInfo(info);
        if (digit === null) return;
        heardKey(call, digit, 'info');
        this.#joined.pressed(digit);
      }),
    );
  }

  #watchAgent(): () => void {
    const { call } = this.line;
    return observe(this.far.session, call, (event) => {
      if (event.type === 'started') call.heardAgent();
      else if (event.type === 'held') call.event('call.held', { by: 'agent' });
      else if (event.type === 'resumed') call.event('call.resumed', { by: 'agent' });
      else if (event.type === 'dtmf') call.event('dtmf.sent', { digits: event.digit, source: 'agent' });
    });
  }
}

/** What the agent's side plays before it answers, to a caller who has not been answered either. */
function hearEarly(line: CallParty, session: MediaSession): void {
  line
    .ringWithMedia?.()
    .then(() => line.session.bridge(session, { relay: 'packets', dtmf: 'block' }))
    .catch(() => {}); // it rings without; the answer tells
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

/** `X-` headers of the settings and of the call's INVITE; ours name the call. */
function headersOf(line: CallParty, config: Endpoint['providerConfig']): Record<string, string> {
  const ofCall = Object.entries(line.headers).filter(([name]) => /^x-/i.test(name));
  const ofSettings = Object.entries((config.headers ?? {}) as Record<string, string>);
  return {
    ...Object.fromEntries([...ofCall, ...ofSettings].filter(([name]) => /^x-/i.test(name))),
    'X-Trunkline-Call-Id': line.facts.callId,
    'X-Trunkline-To': line.facts.to,
  };
}
