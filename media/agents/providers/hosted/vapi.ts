/** Vapi's WebSocket transport: a REST request creates a call, whose URL carries raw audio and JSON messages. */
import {
  AgentConfigError,
  AgentFailure,
  type AgentMessage,
  type AgentProtocol,
  type AgentTarget,
  type AudioFormat,
  type Sink,
} from '../../agent.js';
import { audioFormat, optionalText } from '../../config-fields.js';
import { textField } from '../../config-schema.js';
import { asObject, asText, type JsonObject } from '../../json.js';
import {
  answered,
  defined,
  keysAsText,
  merged,
  type ProviderConfig,
  ProviderConversation,
  readJson,
  readProvider,
  restUrl,
  TEXT_CHARS,
} from '../../provider.js';

interface VapiConfig extends ProviderConfig {
  assistantId?: string;
  format: AudioFormat;
}

export const vapi: AgentProtocol<VapiConfig> = {
  provider: 'vapi',
  title: 'Vapi',
  page: 'vapi.md',
  selectedBy: 'provider',
  config: { assistant_id: textField(256) },
  example: { api_key: 'k', assistant_id: 'a' },
  capabilities: {
    audio: 'G.711 μ-law',
    flush: ['user-interrupted', 'speech-update'],
    afterFlush: 'none is sent',
    keys: { as: 'text', message: 'add-message' },
    hangUp: { by: 'signal', words: '`hang`' },
    transfer: 'signal',
    variables: '`variableValues`, `metadata`',
    longestSession: 'set in the assistant; its end is a hang-up',
  },
  readyOn: 'connect',
  knownUrl: 'wss://api.vapi.ai',
  gathersDigits: true,
  transcribes: true,
  parseConfig(raw) {
    const [common, config] = readProvider(raw, 'required');
    const assistantId = optionalText(config, 'assistant_id');
    if (assistantId === undefined && common.override?.assistant === undefined)
      throw new AgentConfigError('assistant_id', 'assistant_id is required, or an assistant in override.');
    const format = audioFormat(config, ['ulaw', 'l16'], [16000, 8000, 24000, 48000]);
    return { ...common, assistantId, format };
  },
  converse: (config, target) => new VapiConversation(config, target),
};

class VapiConversation extends ProviderConversation {
  readonly format: AudioFormat;
  readonly replyFormat: AudioFormat;
  #callUrl: string | null = null;
  #over = false;

  constructor(
    private readonly config: VapiConfig,
    target: AgentTarget,
  ) {
    super(target);
    this.format = config.format;
    this.replyFormat = config.format;
  }

  prepare() {
    const { apiKey, headers, assistantId, greeting, override } = this.config;
    const { encoding, sampleRateHz: sampleRate } = this.format;
    const audioFormat = { format: encoding === 'ulaw' ? 'mulaw' : 'pcm_s16le', container: 'raw', sampleRate };
    const variables = this.someVariables;
    const assistantOverrides = defined({ firstMessage: greeting, variableValues: variables, metadata: variables });
    const first = defined({
      assistantId,
      assistantOverrides: Object.keys(assistantOverrides).length > 0 ? assistantOverrides : undefined,
      transport: { provider: 'vapi.websocket', audioFormat },
    });
    const key: Record<string, string> = apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` };
    return {
      method: 'POST' as const,
      url: restUrl(this.config, this.target, '/call'),
      headers: { 'Content-Type': 'application/json', ...key, ...headers },
      body: JSON.stringify(merged(first, override)),
    };
  }

  prepared(body: string): void {
    this.#callUrl = answered(body, (answer) => asObject(answer.transport)?.websocketCallUrl);
  }

  upgrade() {
    if (this.#callUrl === null) throw new AgentFailure('protocol', 'The call was not created.', false);
    return { url: this.#callUrl, headers: {} };
  }

  override start(): AgentMessage[] {
    return this.history.map(({ speaker, text }) => said(speaker === 'caller' ? 'user' : 'assistant', text, false));
  }

  audio(bytes: Uint8Array): AgentMessage {
    return bytes;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    if (typeof message !== 'string') {
      if (message.length > 0) sink.audio(message);
      return;
    }
    const outer = readJson(message, sink);
    if (outer === null) return;
    this.#event(asObject(outer.message) ?? outer, sink); // both forms are in use
  }

  dtmf(digits: string): AgentMessage[] {
    return [said('user', keysAsText(digits), true)];
  }

  override closing(): AgentMessage[] {
    return ['{"type":"end-call"}'];
  }

  override closed(code: number) {
    return this.#over || code === 1000 || code === 1005 ? 'hangup' : 'failed';
  }

  #event(fields: JsonObject, sink: Sink): void {
    // The type may carry its own filter: transcript[transcriptType="final"].
    const type = asText(fields.type, 256)?.replace(/\[.*/, '');
    switch (type) {
      case 'user-interrupted':
        sink.clear();
        return;
      case 'speech-update':
        if (fields.role === 'user' && fields.status === 'started') sink.clear();
        if (fields.role === 'assistant' && fields.status === 'stopped') sink.saidAll();
        return;
      case 'transcript': {
        if (fields.transcriptType === 'partial') return;
        const text = asText(fields.transcript, TEXT_CHARS) ?? '';
        if (fields.role === 'user') this.heardCaller(text, sink);
        else if (fields.role === 'assistant') {
          this.remember('agent', text);
          sink.said(`${text} `);
        }
        return;
      }
      case 'transfer-update': {
        const destination = asObject(fields.destination);
        const to = asText(destination?.number ?? destination?.sipUri, 512);
        if (to !== null) sink.event({ type: 'transfer', to });
        return;
      }
      case 'hang':
        this.#over = true;
        sink.hangUp();
        return;
      case 'status-update':
        if (fields.status !== 'ended') return;
        this.#over = true;
        sink.hangUp();
    }
  }
}

function said(role: 'user' | 'assistant', content: string, triggerResponseEnabled: boolean): string {
  return JSON.stringify({ type: 'add-message', message: { role, content }, triggerResponseEnabled });
}
