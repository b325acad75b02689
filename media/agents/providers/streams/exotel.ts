/** Exotel AgentStream (Voicebot applet): like Twilio's protocol in snake case, with PCM. */
import { randomUUID } from 'node:crypto';
import type { AgentMessage, AgentProtocol, AgentTarget, AudioFormat, Sink } from '../../agent.js';
import { audioFormat, configObject, upgradeHeaders } from '../../config-fields.js';
import { asObject } from '../../json.js';
import { base64, readJson } from '../../provider.js';
import { markFromBot, StreamConversation } from '../../stream-conversation.js';

interface ExotelConfig {
  headers: Record<string, string>;
  format: AudioFormat;
}

export const exotel: AgentProtocol<ExotelConfig> = {
  provider: 'exotel',
  title: 'Exotel AgentStream',
  page: 'streams.md',
  selectedBy: 'protocol',
  config: {},
  example: {},
  capabilities: {
    audio: 'PCM 8 kHz',
    flush: ['clear'],
    heard: 'mark',
    afterFlush: 'played',
    keys: { as: 'key', message: 'dtmf' },
    hangUp: { by: 'close', words: 'close 1000' },
    variables: '`start.custom_parameters`',
    longestSession: 'no limit',
  },
  readyOn: 'connect',
  parseConfig(raw) {
    const config = configObject(raw);
    return { headers: upgradeHeaders(config), format: audioFormat(config, ['l16'], [8000, 16000, 24000]) };
  },
  converse: (config, target) => new ExotelConversation(config, target),
};

class ExotelConversation extends StreamConversation {
  readonly #streamSid = randomUUID().replaceAll('-', '');
  #sequence = 0;
  #chunk = 0;

  constructor(
    private readonly config: ExotelConfig,
    private readonly target: AgentTarget,
  ) {
    super(config.format);
  }

  upgrade() {
    return { url: this.target.url, headers: this.config.headers };
  }

  start(): AgentMessage[] {
    const { from, to, custom } = this.target.call;
    const start = {
      stream_sid: this.#streamSid,
      ...this.#ids,
      from,
      to,
      custom_parameters: custom,
      media_format: { encoding: 'audio/x-raw', sample_rate: String(this.format.sampleRateHz), bit_rate: '16' },
    };
    return ['{"event":"connected"}', this.#numbered('start', { start })];
  }

  audio(bytes: Uint8Array, atMs: number): AgentMessage {
    this.#sequence += 1;
    this.#chunk += 1;
    const timestamp = Math.max(0, Math.round(atMs));
    return `{"event":"media","sequence_number":"${this.#sequence}","stream_sid":"${this.#streamSid}","media":{"chunk":"${this.#chunk}","timestamp":"${timestamp}","payload":"${base64(bytes)}"}}`;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    const fields = readJson(message, sink);
    if (fields === null) return;
    switch (fields.event) {
      case 'media':
        this.mediaFromBot(message, asObject(fields.media)?.payload, sink, 'bad_audio');
        return;
      case 'mark':
        markFromBot(asObject(fields.mark)?.name, sink, 'bad_field');
        return;
      case 'clear':
        sink.clear();
        return;
      default:
        sink.garbage('unknown_event', 'The agent sent an event other than media, mark and clear.');
    }
  }

  mark(name: string): AgentMessage[] {
    return [this.#numbered('mark', { mark: { name } })];
  }

  dtmf(digit: string): AgentMessage[] {
    return [this.#numbered('dtmf', { dtmf: { digit, duration: '100' } })];
  }

  override closing(): AgentMessage[] {
    return [this.#numbered('stop', { stop: { ...this.#ids, reason: 'callended' } })];
  }

  get #ids() {
    const { callId, organizationId } = this.target.call;
    return { call_sid: callId, account_sid: organizationId };
  }

  #numbered(event: string, body: Record<string, unknown>): string {
    this.#sequence += 1;
    return JSON.stringify({ event, sequence_number: String(this.#sequence), stream_sid: this.#streamSid, ...body });
  }
}
