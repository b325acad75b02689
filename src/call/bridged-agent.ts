/** An agent at the end of a SIP leg of ours, with our media in the middle: both phones, and the bridge between them. */
import type { Bridge, MediaSession } from '../../media/engine.js';
import { type CallLeg, SipError } from '../../sip/leg.js';
import type { EndpointForCall as Endpoint } from '../store/endpoints.js';
import { answerReoffers, type ConverseLimits, carryOut, keyOfInfo } from './converse.js';
import type { Line } from './line.js';
import { CallEnded } from './outcome.js';
import { type BridgeRules, callSip } from './second-leg.js';

export function isSipTarget(endpoint: Pick<Endpoint, 'type' | 'target'>): boolean {
  return endpoint.type === 'agent' && /^sips?:/i.test(endpoint.target);
}

export class BridgedAgent {
  #bridge: Bridge | null = null;

  private constructor(
    private readonly line: Line,
    private readonly leg: CallLeg,
    private readonly session: MediaSession,
  ) {}

  /** Calls the endpoint; resolves when it answered. Rejects with `CallEnded` when it did not, and then holds nothing. */
  static async dial(line: Line, endpoint: Endpoint, rules: BridgeRules): Promise<BridgedAgent> {
    const { call } = line;
    const about = { endpoint_id: endpoint.id, provider: endpoint.provider ?? endpoint.type, attempt: 1 };
    call.event('agent.connecting', about);
    try {
      const config = endpoint.providerConfig;
      const wish = { uri: endpoint.target, headers: headersOf(line, config), ...credentialsOf(config) };
      const { leg, session } = await callSip(line, wish, rules, call.signal);
      call.event('agent.connected', about);
      return new BridgedAgent(line, leg, session);
    } catch (error) {
      call.check();
      const message = error instanceof Error ? error.message : String(error);
      const status = error instanceof SipError && error.sipStatus !== undefined ? { sip_status: error.sipStatus } : {};
      call.event('agent.failed', {
        ...about,
        reason: error instanceof SipError ? error.code : 'media',
        message,
        ...status,
      });
      throw new CallEnded({ cause: 'agent_unreachable', source: 'system', detail: message });
    }
  }

  /** Caller and agent hear each other until the call ends. */
  async talk(callerLeg: CallLeg, limits: ConverseLimits): Promise<void> {
    const { call, session: callerSession } = this.line;
    const timeLimit = setTimeout(() => call.end({ cause: 'time_limit', source: 'system' }), limits.maxCallMs);
    const stop = [this.#watchCaller(callerLeg), this.#watchAgent()];
    void this.leg.ended.then((end) =>
      call.end({
        cause: end.by === 'remote' ? 'agent_hangup' : 'agent_error',
        source: 'agent',
        ...(end.detail?.text === undefined ? {} : { detail: end.detail.text }),
      }),
    );
    void this.session.lost.then((how) =>
      call.end({ cause: how === 'rtp-timeout' ? 'agent_error' : 'engine_gone', source: 'system' }),
    );
    call.commands = (command) => carryOut(command, 'api', call, callerLeg, callerSession, limits);
    // An agent behind SIP asks for a transfer by REFER: of the caller, who alone is left then.
    this.leg.onRefer(async ({ to, replaces }) => {
      if (replaces !== null) return { refuse: 501 };
      const command = { kind: 'transfer' as const, to };
      const outcome = carryOut(command, 'agent', call, callerLeg, callerSession, limits);
      return { accept: true, outcome: outcome.then((result) => (result.ok ? 200 : 603)) };
    });
    try {
      this.#bridge = callerSession.bridge(this.session, { relay: 'packets', dtmf: 'pass' });
      await call.ended;
    } finally {
      clearTimeout(timeLimit);
      call.commands = null;
      for (const end of stop) end();
    }
  }

  async close(_reason: string): Promise<void> {
    await this.#bridge?.stop();
    const cause = this.line.call.ending?.cause ?? 'normal_clearing';
    await Promise.allSettled([this.leg.hangup(cause), this.session.close()]);
  }

  #watchCaller(leg: CallLeg): () => void {
    const { call, session } = this.line;
    answerReoffers(leg, session);
    const heard = (digit: string, method: string, durationMs?: number) =>
      call.event('dtmf.received', { digit, method, ...(durationMs === undefined ? {} : { duration_ms: durationMs }) });
    leg.onInfo((info) => {
      const digit = keyOfInfo(info);
      if (digit === null) return;
      heard(digit, 'info');
      this.#pressForAgent(digit);
    });
    return session.onEvent((event) => {
      if (event.type === 'started') call.event('media.started');
      else if (event.type === 'dtmf') heard(event.digit, 'rfc4733', event.durationMs);
      else if (event.type === 'held') call.event('call.held');
      else if (event.type === 'resumed') call.event('call.resumed');
      else if (event.type === 'oneWay') call.event('media.one_way', { direction: event.direction });
    });
  }

  #watchAgent(): () => void {
    answerReoffers(this.leg, this.session);
    this.leg.onInfo((info) => {
      const digit = keyOfInfo(info);
      if (digit !== null) this.line.session.sendDtmf(digit).catch(() => {}); // a phone without keys hears none
    });
    return this.session.onEvent((event) => {
      if (event.type === 'started') this.line.call.heardAgent();
    });
  }

  /** A key that came as INFO goes on as an event of RTP, or as INFO to an agent that agreed to none. */
  #pressForAgent(digit: string): void {
    this.session.sendDtmf(digit).catch(() => {
      const info = { contentType: 'application/dtmf-relay', body: `Signal=${digit}\r\nDuration=160\r\n` };
      this.leg.sendInfo(info, this.line.call.signal).catch(() => {});
    });
  }
}

function credentialsOf(config: Endpoint['providerConfig']): { auth?: { username: string; password: string } } {
  const { sip_username: username, sip_password: password } = config;
  return typeof username === 'string' && typeof password === 'string' ? { auth: { username, password } } : {};
}

/** `X-` headers of the settings and of the call's INVITE; ours name the call. */
function headersOf(line: Line, config: Endpoint['providerConfig']): Record<string, string> {
  const ofCall = Object.entries(line.headers).filter(([name]) => /^x-/i.test(name));
  const ofSettings = Object.entries((config.headers ?? {}) as Record<string, string>);
  return {
    ...Object.fromEntries([...ofCall, ...ofSettings].filter(([name]) => /^x-/i.test(name))),
    'X-Trunkline-Call-Id': line.facts.callId,
    'X-Trunkline-To': line.facts.to,
  };
}
