/** Telnyx media streaming, bidirectional in `rtp` mode: like Twilio's protocol in snake case, with more codecs. */
import { randomUUID } from 'node:crypto';
import type { AgentMessage, AgentProtocol, AgentTarget, AudioFormat, AudioTrack, Sink } from '../../agent.js';
import { audioFormat, configObject, optionalText, upgradeHeaders } from '../../config-fields.js';
import { textField } from '../../config-schema.js';
import { asObject } from '../../json.js';
import { base64, readJson } from '../../provider.js';
import { markFromBot, providerTrack, StreamConversation } from '../../stream-conversation.js';

interface TelnyxConfig {
  /** Sent as a bearer token with the upgrade (`stream_auth_token`). */
  authToken?: string;
  headers: Record<string, string>;
  format: AudioFormat;
}

/** Limit for the marks below that may wait. */
const MAX_NUMBERS = 1000;
const WIRE = { ulaw: 'PCMU', alaw: 'PCMA', l16: 'L16' };

export const telnyx: AgentProtocol<TelnyxConfig> = {
  provider: 'telnyx',
  title: 'Telnyx media streaming',
  page: 'streams.md',
  selectedBy: 'protocol',
  config: { auth_token: textField(4096) },
  example: {},
  capabilities: {
    audio: 'G.711 μ-law',
    flush: ['clear'],
    heard: 'mark',
    afterFlush: 'played',
    keys: { as: 'key', message: 'dtmf' },
    hangUp: { by: 'close', words: 'close 1000' },
    variables: '`start.custom_parameters`',
    longestSession: 'no limit',
  },
  readyOn: 'connect',
  separateTracks: true,
  parseConfig(raw) {
    const config = configObject(raw);
    return {
      authToken: optionalText(config, 'auth_token'),
      headers: upgradeHeaders(config),
      format: audioFormat(config, ['ulaw', 'alaw', 'l16'], [16000, 8000]),
    };
  },
  converse: (config, target) => new TelnyxConversation(config, target),
};

class TelnyxConversation extends StreamConversation {
  readonly #streamId = randomUUID();
  #sequence = 0;
  /** Names of marks that came as numbers and are returned as numbers. */
  readonly #numbers = new Set<string>();
  /** Counted per track. */
  readonly #chunks = { caller: 0, agent: 0 };

  constructor(
    private readonly config: TelnyxConfig,
    private readonly target: AgentTarget,
  ) {
    super(config.format);
  }

  upgrade() {
    const { authToken, headers } = this.config;
    const token: Record<string, string> = authToken === undefined ? {} : { Authorization: `Bearer ${authToken}` };
    return { url: this.target.url, headers: { ...token, ...headers } };
  }

  start(): AgentMessage[] {
    const { callId, organizationId, from, to, custom } = this.target.call;
    const { encoding, sampleRateHz } = this.format;
    const start = {
      user_id: organizationId,
      call_control_id: callId,
      call_session_id: callId,
      from,
      to,
      client_state: null,
      media_format: { encoding: WIRE[encoding], sample_rate: sampleRateHz, channels: 1 },
      custom_parameters: custom,
    };
    return [JSON.stringify({ event: 'connected', version: '1.0.0' }), this.#numbered('start', { start })];
  }

  audio(bytes: Uint8Array, atMs: number, track: AudioTrack = 'caller'): AgentMessage {
    this.#sequence += 1;
    this.#chunks[track] += 1;
    const timestamp = Math.max(0, Math.round(atMs));
    return `{"event":"media","sequence_number":"${this.#sequence}","stream_id":"${this.#streamId}","media":{"track":"${providerTrack[track]}","chunk":"${this.#chunks[track]}","timestamp":"${timestamp}","payload":"${base64(bytes)}"}}`;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    const fields = readJson(message, sink);
    if (fields === null) return;
    switch (fields.event) {
      case 'media':
        this.mediaFromBot(message, asObject(fields.media)?.payload, sink, 'bad_audio');
        return;
      case 'mark': {
        const name = asObject(fields.mark)?.name;
        if (typeof name === 'number' && this.#numbers.size < MAX_NUMBERS) this.#numbers.add(String(name));
        markFromBot(typeof name === 'number' ? String(name) : name, sink, 'bad_field');
        return;
      }
      case 'clear':
        sink.clear();
        return;
      default:
        sink.garbage('unknown_event', 'The agent sent an event other than media, mark and clear.');
    }
  }

  mark(name: string): AgentMessage[] {
    return [this.#numbered('mark', { mark: { name: this.#numbers.delete(name) ? Number(name) : name } })];
  }

  dtmf(digit: string): AgentMessage[] {
    return [this.#numbered('dtmf', { dtmf: { digit } })];
  }

  override closing(): AgentMessage[] {
    const { callId, organizationId } = this.target.call;
    return [this.#numbered('stop', { stop: { user_id: organizationId, call_control_id: callId } })];
  }

  #numbered(event: string, body: Record<string, unknown>): string {
    this.#sequence += 1;
    return JSON.stringify({ event, sequence_number: String(this.#sequence), stream_id: this.#streamId, ...body });
  }
}
