/**
 * Asterisk's `chan_websocket`: audio in binary messages, control in text, either as words or, with `control_format: "json"`, as objects. We
 * are Asterisk; commands that look into the queue or pause it (`GET_STATUS`, `PAUSE_MEDIA`) are answered with `ERROR`.
 */
import type { AgentMessage, AgentProtocol, AgentTarget, AudioFormat, Sink } from '../../agent.js';
import { audioFormat, choice, configObject, upgradeHeaders } from '../../config-fields.js';
import { choiceField } from '../../config-schema.js';
import { asText, parseObject } from '../../json.js';
import { StreamConversation } from '../../stream-conversation.js';

interface AsteriskConfig {
  headers: Record<string, string>;
  format: AudioFormat;
  json: boolean;
}

const MAX_COMMAND_CHARS = 2048;
/** A mark of the driver itself, and not of the bot: the queue has run empty. */
const DRAINED = 'QUEUE_DRAINED';
/** What tells a mark of the bot from the driver's. */
const OWN = 'mark:';
const BUFFERED = 'buffered:';

export const asterisk: AgentProtocol<AsteriskConfig> = {
  provider: 'asterisk',
  title: 'Asterisk `chan_websocket`',
  page: 'streams.md',
  selectedBy: 'protocol',
  config: { control_format: choiceField('plain-text', 'json') },
  example: { control_format: 'json' },
  capabilities: {
    audio: 'G.711 μ-law',
    flush: ['FLUSH_MEDIA'],
    heard: 'MEDIA_MARK_PROCESSED',
    afterFlush: 'played',
    keys: { as: 'key', message: 'DTMF_END' },
    hangUp: { by: 'close', words: 'close 1000, `HANGUP`' },
    variables: '`channel_variables` of `MEDIA_START`, in JSON',
    longestSession: 'no limit',
  },
  readyOn: 'connect',
  parseConfig(raw) {
    const config = configObject(raw);
    return {
      headers: upgradeHeaders(config),
      format: audioFormat(config, ['ulaw', 'alaw', 'l16'], [16000, 8000, 24000, 48000]),
      json: choice(config, 'control_format', ['plain-text', 'json']) === 'json',
    };
  },
  converse: (config, target) => new AsteriskConversation(config, target),
};

class AsteriskConversation extends StreamConversation {
  readonly #channelId: string;

  constructor(
    private readonly config: AsteriskConfig,
    private readonly target: AgentTarget,
  ) {
    super(config.format);
    this.#channelId = target.call.callId;
  }

  upgrade() {
    return { url: this.target.url, headers: this.config.headers, subprotocol: 'media' };
  }

  start(): AgentMessage[] {
    const { encoding, sampleRateHz } = this.format;
    const facts = {
      connection_id: this.#channelId,
      channel: `WebSocket/${this.#channelId}`,
      channel_id: this.#channelId,
      format: encoding === 'l16' ? (sampleRateHz === 8000 ? 'slin' : `slin${sampleRateHz / 1000}`) : encoding,
      optimal_frame_size: (sampleRateHz / 50) * (encoding === 'l16' ? 2 : 1),
      ptime: 20,
    };
    if (this.config.json)
      return [JSON.stringify({ event: 'MEDIA_START', ...facts, channel_variables: this.target.call.custom })];
    const words = Object.entries(facts).map(([name, value]) => `${name}:${value}`);
    return [['MEDIA_START', ...words].join(' ')];
  }

  audio(bytes: Uint8Array): AgentMessage {
    return bytes;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    if (typeof message !== 'string') {
      if (message.length > 0) sink.audio(message);
      return;
    }
    const read = this.config.json ? commandOf(message) : wordsOf(message);
    if (read === null) {
      sink.garbage('bad_json', 'The agent sent a text message that is not a JSON object.');
      sink.send(this.#event('ERROR', { error_text: 'Unable to parse JSON command' }));
      return;
    }
    const { command, id } = read;
    switch (command) {
      case 'FLUSH_MEDIA':
        sink.clear();
        return;
      case 'MARK_MEDIA':
        sink.mark(OWN + id);
        return;
      case 'STOP_MEDIA_BUFFERING':
        sink.mark(BUFFERED + id);
        return;
      case 'REPORT_QUEUE_DRAINED':
        sink.mark(DRAINED);
        return;
      case 'ANSWER':
      case 'START_MEDIA_BUFFERING': // the audio may have any length at any time
        return;
      case 'HANGUP':
        sink.hangUp();
        return;
      default:
        sink.garbage(
          'unknown_event',
          'The agent sent a command that chan_websocket does not have, or that is not supported.',
        );
        sink.send(this.#event('ERROR', { error_text: 'Command not supported' }));
    }
  }

  /** What was flushed is not reported. */
  mark(name: string, cleared: boolean): AgentMessage[] {
    if (cleared) return [];
    if (name === DRAINED) return [this.#event('QUEUE_DRAINED', {})];
    const isMark = name.startsWith(OWN);
    const id = name.slice((isMark ? OWN : BUFFERED).length);
    const event = isMark ? 'MEDIA_MARK_PROCESSED' : 'MEDIA_BUFFERING_COMPLETED';
    if (this.config.json) return [this.#event(event, { correlation_id: id })];
    return [id === '' ? event : `${event} ${id}`];
  }

  dtmf(digit: string): AgentMessage[] {
    if (this.config.json) return [this.#event('DTMF_END', { digit })];
    return [`DTMF_END digit:${digit} channel_id:${this.#channelId}`];
  }

  #event(event: string, fields: Record<string, unknown>): string {
    if (this.config.json) return JSON.stringify({ event, channel_id: this.#channelId, ...fields });
    const words = Object.entries(fields).map(([name, value]) => `${name}:${String(value)}`);
    return event === 'QUEUE_DRAINED' ? event : [event, `channel_id:${this.#channelId}`, ...words].join(' ');
  }
}

function commandOf(message: string): { command: unknown; id: string } | null {
  const fields = parseObject(message);
  return fields === null
    ? null
    : { command: fields.command, id: asText(fields.correlation_id, MAX_COMMAND_CHARS) ?? '' };
}

function wordsOf(message: string): { command: string; id: string } {
  const [, command = '', id = ''] = /^(\S*)(?: ([\s\S]*))?$/.exec(message.slice(0, MAX_COMMAND_CHARS)) ?? [];
  return { command, id };
}
