/** Sinch Voice Stream: `connect` is answered by the bot, then PCM in binary messages of 20 ms both ways. It has no keys and no marks. */
import {
  AgentFailure,
  type AgentMessage,
  type AgentProtocol,
  type AgentTarget,
  type AudioFormat,
  type Sink,
} from '../../agent.js';
import { audioFormat, configObject, upgradeHeaders } from '../../config-fields.js';
import { AcceptedStream, audioOrFields } from '../../stream-conversation.js';

interface SinchConfig {
  headers: Record<string, string>;
  format: AudioFormat;
}

export const sinch: AgentProtocol<SinchConfig> = {
  provider: 'sinch',
  title: 'Sinch Voice Stream',
  page: 'streams.md',
  selectedBy: 'protocol',
  config: {},
  example: {},
  capabilities: {
    audio: 'PCM 8 kHz',
    flush: ['clear'],
    afterFlush: 'played',
    keys: { as: 'none' },
    hangUp: { by: 'close', words: 'close 1000' },
    variables: '`callHeaders`',
    longestSession: 'no limit',
  },
  readyOn: 'connect',
  parseConfig(raw) {
    const config = configObject(raw);
    return { headers: upgradeHeaders(config), format: audioFormat(config, ['l16'], [8000, 16000, 24000, 48000]) };
  },
  converse: (config, target) => new SinchConversation(config, target),
};

class SinchConversation extends AcceptedStream {
  constructor(
    private readonly config: SinchConfig,
    private readonly target: AgentTarget,
  ) {
    super(config.format);
  }

  upgrade() {
    return { url: this.target.url, headers: this.config.headers };
  }

  start(): AgentMessage[] {
    const { callId, organizationId, custom } = this.target.call;
    const audio = { codec: 'PCM', sampleRate: this.format.sampleRateHz };
    const call = { callId, applicationKey: organizationId };
    return [JSON.stringify({ command: 'connect', version: 1, ...call, ...audio, callHeaders: custom })];
  }

  protected frame(bytes: Uint8Array): AgentMessage {
    return bytes;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    const fields = audioOrFields(message, sink);
    if (fields === null) return;
    switch (fields.command) {
      case 'answer':
        this.accept(sink);
        return;
      case 'busy':
      case 'reject':
        sink.fail(new AgentFailure('refused', `The agent answered the call with ${fields.command}.`, true));
        return;
      case 'clear':
        sink.clear();
        return;
      case 'heartbeat':
        return;
      default:
        sink.garbage('unknown_event', 'The agent sent a command other than answer, busy, reject, clear and heartbeat.');
    }
  }

  mark(): AgentMessage[] {
    return [];
  }

  dtmf(): AgentMessage[] {
    return [];
  }
}
