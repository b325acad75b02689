/** Hume EVI: PCM in, a WAV file per piece of audio out. A chat lasts half an hour; the next one resumes its chat group. */
import { readWavChunks } from '../../../audio/wav-chunks.js';
import {
  AgentFailure,
  type AgentMessage,
  type AgentProtocol,
  type AgentTarget,
  type AudioFormat,
  type Sink,
} from '../../agent.js';
import { audioFormat, optionalText } from '../../config-fields.js';
import { textField } from '../../config-schema.js';
import { asObject, asText, base64Bytes, type JsonObject } from '../../json.js';
import {
  base64,
  defined,
  errorCode,
  keysAsText,
  merged,
  type ProviderConfig,
  ProviderConversation,
  readJson,
  readProvider,
  TEXT_CHARS,
} from '../../provider.js';
import { callTool } from '../../tools.js';
import { fillIn } from '../../variables.js';

interface HumeConfig extends ProviderConfig {
  configId?: string;
  sampleRateHz: AudioFormat['sampleRateHz'];
}

const REPLY_RATE = 48000;

export const hume: AgentProtocol<HumeConfig> = {
  provider: 'hume',
  title: 'Hume EVI',
  page: 'hume.md',
  selectedBy: 'provider',
  config: { config_id: textField(256) },
  example: { api_key: 'k' },
  capabilities: {
    audio: 'PCM 8 kHz',
    flush: ['user_interruption'],
    afterFlush: 'dropped by message',
    keys: { as: 'text', message: 'user_input' },
    hangUp: { by: 'function', words: 'function `hang_up`' },
    transfer: 'function',
    variables: '`variables`',
    longestSession: '30 min; resumed',
  },
  readyOn: 'message',
  knownUrl: 'wss://api.hume.ai/v0/evi/chat',
  gathersDigits: true,
  transcribes: true,
  sessionLimitMs: 30 * 60_000,
  parseConfig(raw) {
    const [common, config] = readProvider(raw, 'required');
    const { sampleRateHz } = audioFormat(config, ['l16'], [8000, 16000, 24000, 48000]);
    return { ...common, configId: optionalText(config, 'config_id'), sampleRateHz };
  },
  converse: (config, target) => new HumeConversation(config, target),
};

class HumeConversation extends ProviderConversation {
  readonly format: AudioFormat;
  readonly replyFormat: AudioFormat = { encoding: 'l16', sampleRateHz: REPLY_RATE };
  #chatGroup: string | null = null;
  #speaking = false;
  /** The current item, and the interrupted one, whose further audio is discarded. */
  #current = '';
  #flushed: string | null = null;
  #hangUpWhenSaid = false;

  constructor(
    private readonly config: HumeConfig,
    target: AgentTarget,
  ) {
    super(target);
    this.format = { encoding: 'l16', sampleRateHz: config.sampleRateHz };
  }

  upgrade() {
    const url = new URL(this.target.url);
    const { apiKey, configId, headers } = this.config;
    if (apiKey !== undefined) url.searchParams.set('api_key', apiKey);
    if (configId !== undefined) url.searchParams.set('config_id', configId);
    this.#speaking = false;
    this.#current = '';
    this.#flushed = null;
    if (this.#chatGroup !== null) url.searchParams.set('resumed_chat_group_id', this.#chatGroup);
    return { url: url.href, headers };
  }

  override opening(): AgentMessage[] {
    const { instructions, voice, override, tools } = this.config;
    const first = defined({
      type: 'session_settings',
      audio: { encoding: 'linear16', sample_rate: this.format.sampleRateHz, channels: 1 },
      system_prompt: instructions,
      voice_id: voice,
      variables: this.someVariables,
      context:
        this.told === '' || this.#chatGroup !== null
          ? undefined
          : { type: 'persistent', text: `So far:\n${this.told}` },
      tools: tools.map(({ name, description, parameters }) => ({
        type: 'function',
        name,
        description,
        parameters: JSON.stringify(parameters),
      })),
    });
    return [JSON.stringify(merged(first, override))];
  }

  override start(): AgentMessage[] {
    const { greeting } = this.config;
    return greeting === undefined || greeting === '' || this.takesOver
      ? []
      : [JSON.stringify({ type: 'assistant_input', text: fillIn(greeting, this.variables) })];
  }

  audio(bytes: Uint8Array): AgentMessage {
    return `{"type":"audio_input","data":"${base64(bytes)}"}`;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    const fields = readJson(message, sink);
    if (fields === null) return;
    switch (fields.type) {
      case 'chat_metadata':
        this.#chatGroup = asText(fields.chat_group_id, 256);
        sink.ready();
        return;
      case 'audio_output':
        this.#heard(fields, sink);
        return;
      case 'user_interruption':
        this.#flushed = this.#current;
        this.#speaking = false;
        sink.clear();
        return;
      case 'user_message':
        if (fields.interim !== true) this.heardCaller(contentOf(fields), sink);
        return;
      case 'assistant_message':
        this.#speaking = true;
        this.remember('agent', contentOf(fields));
        sink.said(`${contentOf(fields)} `, asText(fields.id, 256) ?? '');
        return;
      case 'assistant_end':
        this.#speaking = false;
        sink.saidAll();
        if (this.#hangUpWhenSaid) sink.hangUp();
        return;
      case 'tool_call':
        this.#tool(fields, sink);
        return;
      case 'error':
        this.#error(errorCode(fields.slug ?? fields.code), sink);
    }
  }

  dtmf(digits: string): AgentMessage[] {
    return [JSON.stringify({ type: 'user_input', text: keysAsText(digits) })];
  }

  override closed(code: number) {
    if (code === 1000 || code === 1005) return 'hangup';
    return this.#chatGroup !== null && code !== 1008 ? 'renew' : 'failed';
  }

  #heard(fields: JsonObject, sink: Sink): void {
    const id = asText(fields.id, 256) ?? '';
    const wav = typeof fields.data === 'string' ? base64Bytes(fields.data) : null;
    const samples = wav === null ? null : samplesOf(wav);
    if (samples === null) {
      sink.garbage('bad_audio', 'The agent sent audio that is not a WAV file at 48 kHz in base64.');
      return;
    }
    if (id === this.#flushed) return;
    this.#current = id;
    if (samples.length > 0) sink.audio(samples, id);
  }

  #tool(fields: JsonObject, sink: Sink): void {
    const hangUp = () => {
      if (this.#speaking) this.#hangUpWhenSaid = true;
      else sink.hangUp();
    };
    const content = callTool(this.config.tools, fields.name, fields.parameters, sink, hangUp);
    sink.send(JSON.stringify({ type: 'tool_response', tool_call_id: fields.tool_call_id, content }));
  }

  /** The half hour is over, or the error is permanent. */
  #error(code: string, sink: Sink): void {
    if (/max_?duration|session_?timeout/i.test(code)) sink.renew();
    else if (this.#chatGroup === null)
      sink.fail(new AgentFailure('refused', `The provider refused the session with ${code}.`, false));
    else sink.garbage('provider_error', `The provider reported ${code}.`);
  }
}

function contentOf(fields: JsonObject): string {
  return asText(asObject(fields.message)?.content, TEXT_CHARS) ?? '';
}

/** Whole samples of 16 bit; null for a file of another format. */
function samplesOf(wav: Uint8Array): Uint8Array | null {
  try {
    const { kind, channelCount, sampleRateHz, data } = readWavChunks(wav);
    if (kind !== 'pcm16' || channelCount !== 1 || sampleRateHz !== REPLY_RATE) return null;
    return data.subarray(0, data.length & ~1);
  } catch {
    return null;
  }
}
