/** Ultravox: a REST request creates a call, whose join URL carries PCM in binary messages and JSON text. */
import {
  AgentFailure,
  type AgentMessage,
  type AgentProtocol,
  type AgentTarget,
  type AudioFormat,
  type Plain,
  type Sink,
} from '../../agent.js';
import { audioFormat, optionalText } from '../../config-fields.js';
import { textField } from '../../config-schema.js';
import { asText, type JsonObject } from '../../json.js';
import {
  answered,
  defined,
  keysAsText,
  merged,
  type ProviderConfig,
  ProviderConversation,
  personal,
  readJson,
  readProvider,
  restUrl,
  TEXT_CHARS,
} from '../../provider.js';
import { callTool } from '../../tools.js';

interface UltravoxConfig extends ProviderConfig {
  agentId?: string;
  sampleRateHz: AudioFormat['sampleRateHz'];
}

/** How far ahead of playout it may send; an interruption is announced by `playback_clear_buffer`. */
const BUFFER_MS = 30_000;

export const ultravox: AgentProtocol<UltravoxConfig> = {
  provider: 'ultravox',
  title: 'Ultravox',
  page: 'ultravox.md',
  selectedBy: 'provider',
  config: { agent_id: textField(256) },
  example: { api_key: 'k' },
  capabilities: {
    audio: 'PCM 8 kHz',
    flush: ['playback_clear_buffer'],
    afterFlush: 'none is sent',
    keys: { as: 'text', message: 'user_text_message' },
    hangUp: { by: 'close', words: 'tool `hangUp`, close 1000' },
    transfer: 'function',
    variables: '`templateContext` with `agent_id`, otherwise in the prompt; `metadata`',
    longestSession: 'set in the call; its end is a hang-up',
  },
  sip: {
    needs: ['agent_id'],
    user: ({ agent_id: id }) => `agent_${String(id)}`,
  },
  readyOn: 'connect',
  knownUrl: 'wss://api.ultravox.ai',
  gathersDigits: true,
  transcribes: true,
  parseConfig(raw) {
    const [common, config] = readProvider(raw, 'required');
    const { sampleRateHz } = audioFormat(config, ['l16'], [8000, 16000, 24000, 48000]);
    return { ...common, agentId: optionalText(config, 'agent_id'), sampleRateHz };
  },
  converse: (config, target) => new UltravoxConversation(config, target),
};

class UltravoxConversation extends ProviderConversation {
  private readonly config: UltravoxConfig;
  readonly format: AudioFormat;
  readonly replyFormat: AudioFormat;
  #joinUrl: string | null = null;
  /** The current agent transcript, and how much of its text was passed on. */
  #ordinal: unknown;
  #passedOn = 0;

  constructor(config: UltravoxConfig, target: AgentTarget) {
    super(target);
    this.config = personal(config, target);
    this.format = { encoding: 'l16', sampleRateHz: config.sampleRateHz };
    this.replyFormat = this.format;
  }

  prepare() {
    const { agentId, apiKey, headers, instructions, model, voice, language, temperature, greeting } = this.config;
    const path = agentId === undefined ? '/api/calls' : `/api/agents/${encodeURIComponent(agentId)}/calls`;
    const rate = this.format.sampleRateHz;
    const serverWebSocket = { inputSampleRate: rate, outputSampleRate: rate, clientBufferSizeMs: BUFFER_MS };
    const earlier = this.history.map(({ speaker, text }) => ({
      role: speaker === 'caller' ? 'MESSAGE_ROLE_USER' : 'MESSAGE_ROLE_AGENT',
      text,
    }));
    // A stored agent has its own prompt, model, voice and tools.
    const own =
      agentId === undefined
        ? {
            systemPrompt: instructions,
            model,
            voice,
            languageHint: language,
            temperature,
            selectedTools: this.#tools(),
          }
        : {};
    const first = defined({
      ...own,
      templateContext: agentId === undefined ? undefined : this.someVariables,
      metadata: this.someVariables,
      medium: { serverWebSocket },
      firstSpeakerSettings: firstSpeaker(greeting),
      initialMessages: earlier.length > 0 ? earlier : undefined,
    });
    const key: Record<string, string> = apiKey === undefined ? {} : { 'X-API-Key': apiKey };
    return {
      method: 'POST' as const,
      url: restUrl(this.config, this.target, path),
      headers: { 'Content-Type': 'application/json', ...key, ...headers },
      body: JSON.stringify(merged(first, this.config.override)),
    };
  }

  prepared(body: string): void {
    this.#joinUrl = answered(body, (answer) => answer.joinUrl);
  }

  upgrade() {
    if (this.#joinUrl === null) throw new AgentFailure('protocol', 'The call was not created.', false);
    return { url: this.#joinUrl, headers: {} };
  }

  audio(bytes: Uint8Array): AgentMessage {
    return bytes;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    if (typeof message !== 'string') {
      if (message.length > 0) sink.audio(message);
      return;
    }
    const fields = readJson(message, sink);
    if (fields === null) return;
    switch (fields.type) {
      case 'playback_clear_buffer':
        sink.clear();
        return;
      case 'transcript':
        if (fields.role === 'agent') this.#said(fields, sink);
        else if (fields.role === 'user' && fields.final === true) {
          this.heardCaller(asText(fields.text, TEXT_CHARS) ?? '', sink);
        }
        return;
      case 'state':
        if (fields.state !== 'speaking') sink.saidAll();
        return;
      case 'client_tool_invocation': {
        const result = callTool(this.config.tools, fields.toolName, fields.parameters, sink);
        const { invocationId } = fields;
        sink.send(JSON.stringify({ type: 'client_tool_result', invocationId, result, responseType: 'tool-response' }));
      }
    }
  }

  dtmf(digits: string): AgentMessage[] {
    return [JSON.stringify({ type: 'user_text_message', text: keysAsText(digits), urgency: 'soon' })];
  }

  override closing(reason: string): AgentMessage[] {
    return [JSON.stringify({ type: 'hang_up', message: reason })];
  }

  /** `text` is the whole transcript so far, `delta` its new part. */
  #said(fields: JsonObject, sink: Sink): void {
    if (fields.ordinal !== this.#ordinal) {
      this.#ordinal = fields.ordinal;
      this.#passedOn = 0;
    }
    const text = asText(fields.text, TEXT_CHARS);
    const delta = text === null ? (asText(fields.delta, TEXT_CHARS) ?? '') : text.slice(this.#passedOn);
    this.#passedOn += delta.length;
    if (delta !== '') sink.said(delta);
    if (fields.final !== true) return;
    this.remember('agent', text ?? '');
  }

  /** Ultravox's own tool hangs up; a transfer is a client tool. */
  #tools(): Plain {
    return this.config.tools.map(({ name, description, parameters }): Plain => {
      if (name === 'hang_up') return { toolName: 'hangUp' };
      const properties = (parameters.properties ?? {}) as { [key: string]: Plain };
      const required = Array.isArray(parameters.required) ? parameters.required : [];
      const dynamicParameters = Object.entries(properties).map(([field, schema]) => ({
        name: field,
        location: 'PARAMETER_LOCATION_BODY',
        schema,
        required: required.includes(field),
      }));
      return { temporaryTool: { modelToolName: name, description, dynamicParameters, client: {} } };
    });
  }
}

function firstSpeaker(greeting: string | undefined): Plain | undefined {
  if (greeting === undefined) return undefined;
  return greeting === '' ? { user: {} } : { agent: { text: greeting } };
}
