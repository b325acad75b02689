/** Vonage's WebSocket endpoint: one text message describes the call, then PCM in binary messages of 20 ms both ways. */
import type { AgentMessage, AgentProtocol, AgentTarget, AudioFormat, Sink } from '../../agent.js';
import { audioFormat, configObject, upgradeHeaders } from '../../config-fields.js';
import { parseObject } from '../../json.js';
import { audioOrFields, StreamConversation } from '../../stream-conversation.js';

interface VonageConfig {
  headers: Record<string, string>;
  format: AudioFormat;
}

/** A notify stands for a mark: its name is the payload that is returned. */
const MAX_PAYLOAD_CHARS = 4096;

export const vonage: AgentProtocol<VonageConfig> = {
  provider: 'vonage',
  title: 'Vonage WebSocket',
  page: 'streams.md',
  selectedBy: 'protocol',
  config: {},
  example: {},
  capabilities: {
    audio: 'PCM 16 kHz',
    flush: ['clear'],
    heard: 'websocket:notify',
    afterFlush: 'played',
    keys: { as: 'key', message: 'websocket:dtmf' },
    hangUp: { by: 'close', words: 'close 1000' },
    variables: 'fields of `websocket:connected`',
    longestSession: 'no limit',
  },
  readyOn: 'connect',
  parseConfig(raw) {
    const config = configObject(raw);
    return { headers: upgradeHeaders(config), format: audioFormat(config, ['l16'], [16000, 8000, 24000]) };
  },
  converse: (config, target) => new VonageConversation(config, target),
};

class VonageConversation extends StreamConversation {
  constructor(
    private readonly config: VonageConfig,
    private readonly target: AgentTarget,
  ) {
    super(config.format);
  }

  upgrade() {
    return { url: this.target.url, headers: this.config.headers };
  }

  /** The `headers` of an NCCO are fields beside the event. */
  start(): AgentMessage[] {
    const { callId, from, to, custom } = this.target.call;
    const contentType = `audio/l16;rate=${this.format.sampleRateHz}`;
    const connected = { event: 'websocket:connected', 'content-type': contentType };
    return [JSON.stringify({ uuid: callId, from, to, ...custom, ...connected })];
  }

  audio(bytes: Uint8Array): AgentMessage {
    return bytes;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    const fields = audioOrFields(message, sink);
    if (fields === null) return;
    switch (fields.action) {
      case 'clear':
        sink.clear();
        sink.send('{"event":"websocket:cleared"}');
        return;
      case 'notify': {
        const payload = JSON.stringify(fields.payload ?? {});
        if (payload.length > MAX_PAYLOAD_CHARS) sink.garbage('bad_field', 'The agent sent a notify that is too long.');
        else sink.mark(payload);
        return;
      }
      default:
        sink.garbage('unknown_event', 'The agent sent an action other than clear and notify.');
    }
  }

  mark(name: string): AgentMessage[] {
    return [`{"event":"websocket:notify","payload":${payloadOf(name)}}`];
  }

  dtmf(digit: string): AgentMessage[] {
    return [JSON.stringify({ event: 'websocket:dtmf', digit, duration: 100 })];
  }
}

/** The payload as it arrived; a mark's name that is not JSON becomes a string. */
function payloadOf(name: string): string {
  return parseObject(name) === null ? JSON.stringify(name) : name;
}
