/**
 * Trunkline's own protocol: JSON text for events, binary for audio. `start` is sent when the caller answered; then each frame of the caller is
 * one binary message, and every binary message of the agent is audio to be played in order.
 */
import type { AgentMessage, AgentProtocol, AgentTarget, AudioFormat, Sink } from '../../agent.js';
import { audioFormat, configObject, upgradeHeaders } from '../../config-fields.js';
import { asText, type JsonObject } from '../../json.js';
import { audioOrFields, markFromBot, StreamConversation } from '../../stream-conversation.js';

export interface RawConfig {
  format: AudioFormat;
  headers: Record<string, string>;
}

const MAX_TRANSCRIPT_CHARS = 16 * 1024;
/** Digits, and `w` for a pause of half a second. */
const DIGITS = /^[0-9A-Dw*#]{1,64}$/;
/** A number or a SIP URI; the call decides which. Control characters are excluded, since they could inject a header. */
const TRANSFER_TARGET = /^[\x20-\x7e]{1,512}$/;

export const raw: AgentProtocol<RawConfig> = {
  provider: 'raw',
  title: "Trunkline's own protocol",
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
    hangUp: { by: 'close', words: 'close 1000, `hangup`' },
    transfer: 'signal',
    variables: '`start.custom`',
    longestSession: 'no limit',
  },
  readyOn: 'connect',
  parseConfig(value) {
    const config = configObject(value);
    return { format: audioFormat(config, ['l16', 'ulaw'], [8000, 16000, 24000]), headers: upgradeHeaders(config) };
  },
  converse: (config, target) => new RawConversation(config, target),
};

class RawConversation extends StreamConversation {
  readonly binaryIsAudio = true;
  readonly #headers: Record<string, string>;
  readonly #target: AgentTarget;

  constructor(config: RawConfig, target: AgentTarget) {
    super(config.format);
    this.#headers = config.headers;
    this.#target = target;
  }

  upgrade() {
    return { url: this.#target.url, headers: { ...this.#headers } };
  }

  start(): AgentMessage[] {
    const { callId, from, to, direction, custom, history } = this.#target.call;
    const format = { encoding: this.format.encoding, sample_rate: this.format.sampleRateHz, channels: 1 };
    // JSON omits `history` when there is none, and `tracks` for an agent that converses.
    return [
      JSON.stringify({
        event: 'start',
        call_id: callId,
        from,
        to,
        direction,
        format,
        custom,
        history,
        tracks: this.#target.tracks,
      }),
    ];
  }

  audio(bytes: Uint8Array): AgentMessage {
    return bytes;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    const fields = audioOrFields(message, sink);
    if (fields !== null) this.#event(fields, sink);
  }

  mark(name: string, cleared: boolean): AgentMessage[] {
    return [JSON.stringify(cleared ? { event: 'mark', name, cleared } : { event: 'mark', name })];
  }

  dtmf(digit: string): AgentMessage[] {
    return [JSON.stringify({ event: 'dtmf', digits: digit })];
  }

  override closing(reason: string): AgentMessage[] {
    return [JSON.stringify({ event: 'stop', reason })];
  }

  #event(fields: JsonObject, sink: Sink): void {
    switch (fields.event) {
      case 'clear':
        sink.clear();
        return;
      case 'mark':
        markFromBot(fields.name, sink, 'bad_field');
        return;
      case 'dtmf': {
        const digits = asText(fields.digits, 64);
        if (digits === null || !DIGITS.test(digits))
          sink.garbage('bad_field', 'The agent sent dtmf without valid digits.');
        else sink.event({ type: 'dtmf', digits });
        return;
      }
      case 'transfer': {
        const to = asText(fields.to, 512);
        if (to === null || !TRANSFER_TARGET.test(to))
          sink.garbage('bad_field', 'The agent sent a transfer without a valid target.');
        else sink.event({ type: 'transfer', to });
        return;
      }
      case 'redact':
        if (typeof fields.on !== 'boolean') sink.garbage('bad_field', 'The agent sent redact without "on".');
        else sink.event({ type: 'redaction', change: { on: fields.on } });
        return;
      case 'hangup':
        sink.event({ type: 'hangup' });
        return;
      case 'transcript': {
        const text = asText(fields.text, MAX_TRANSCRIPT_CHARS);
        const speaker = fields.speaker;
        if (text === null || (speaker !== 'caller' && speaker !== 'agent')) {
          sink.garbage(
            'bad_field',
            'The agent sent a transcript without a text or with a speaker other than caller and agent.',
          );
        } else sink.event({ type: 'transcript', speaker, text });
        return;
      }
      default:
        sink.garbage(
          'unknown_event',
          'The agent sent an event other than clear, mark, dtmf, transfer, hangup and transcript.',
        );
    }
  }
}
