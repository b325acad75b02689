/**
 * OpenAI Realtime over WebSocket, and services with the same protocol. The session is configured before the caller hears anything; the server
 * detects turns, and after an interruption the model is told how much of its audio was heard.
 */
import {
  AgentFailure,
  type AgentMessage,
  type AgentProtocol,
  type AgentTarget,
  type AudioFormat,
  type Plain,
  type Sink,
} from '../../agent.js';
import { type ConfigObject, choice, optionalText } from '../../config-fields.js';
import { textField } from '../../config-schema.js';
import { asObject, asText, base64Bytes, type JsonObject } from '../../json.js';
import {
  base64,
  defined,
  errorCode,
  GREET,
  keysAsText,
  merged,
  type ProviderConfig,
  ProviderConversation,
  personal,
  readJson,
  readProvider,
  TAKE_OVER,
  TEXT_CHARS,
} from '../../provider.js';
import { openaiTokens } from '../../token-usage.js';
import { callTool } from '../../tools.js';

export interface OpenaiConfig extends ProviderConfig {
  encoding?: 'ulaw' | 'alaw' | 'l16';
  /** Of the caller's transcripts. */
  transcriptionModel?: string;
}

const MODEL = 'gpt-realtime-2.1';
const TRANSCRIPTION = 'gpt-realtime-whisper';
/** The only PCM rate that OpenAI supports. */
const PCM_RATE = 24000;
export const WIRE = {
  ulaw: { type: 'audio/pcmu' },
  alaw: { type: 'audio/pcma' },
  l16: { type: 'audio/pcm', rate: PCM_RATE },
};

/** Events that name the caller's next item before its transcript, besides events that add an item. */
const PLACES = new Set(['input_audio_buffer.speech_started', 'input_audio_buffer.committed']);

/** The encoding of the audio, without one that of the phone; PCM is at 24 kHz. */
export function readEncoding(config: ConfigObject): OpenaiConfig['encoding'] {
  const encoding = config.encoding == null ? undefined : choice(config, 'encoding', ['ulaw', 'alaw', 'l16'] as const);
  if (encoding === 'l16') choice(config, 'sample_rate', [PCM_RATE]);
  else choice(config, 'sample_rate', [8000]);
  return encoding;
}

export const openai: AgentProtocol<OpenaiConfig> = {
  provider: 'openai',
  title: 'OpenAI Realtime',
  page: 'openai.md',
  selectedBy: 'provider',
  config: { project_id: textField(256), transcription_model: textField(256) },
  defaults: { model: MODEL, transcription_model: TRANSCRIPTION },
  example: { api_key: 'k' },
  capabilities: {
    audio: 'G.711 of the phone',
    flush: ['input_audio_buffer.speech_started'],
    heard: 'conversation.item.truncate',
    afterFlush: 'dropped by item',
    keys: { as: 'text', message: 'conversation.item.create' },
    hangUp: { by: 'function', words: 'function `hang_up`' },
    transfer: 'function',
    variables: 'in the instructions',
    tokens: 'response.done',
    longestSession: '60 min; next session with the transcript',
  },
  sip: {
    needs: ['project_id'],
    user: ({ project_id: id }) => String(id),
  },
  readyOn: 'message',
  knownUrl: 'wss://api.openai.com/v1/realtime',
  gathersDigits: true,
  transcribes: true,
  sessionLimitMs: 60 * 60_000,
  parseConfig(raw) {
    const [common, config] = readProvider(raw, 'required');
    return {
      ...common,
      encoding: readEncoding(config),
      transcriptionModel: optionalText(config, 'transcription_model'),
    };
  },
  converse: (config, target) => new OpenaiConversation(config, target),
};

/** Services with the same protocol override what they do in another way. */
export class OpenaiConversation<C extends OpenaiConfig = OpenaiConfig> extends ProviderConversation {
  protected readonly config: C;
  readonly format: AudioFormat;
  readonly replyFormat: AudioFormat;
  /** The item of the last audio, and the interrupted item, whose further audio is discarded. */
  #item = '';
  #flushed: string | undefined;
  #configured = false;
  #started = false;
  #expired = false;
  /** Partial transcripts of the caller, by item. */
  readonly #unfinished = new Map<string, string>();
  #calls: { callId: string; name: unknown; args: unknown }[] = [];

  constructor(config: C, target: AgentTarget) {
    super(target);
    this.config = personal(config, target);
    const encoding = config.encoding ?? target.phoneEncoding ?? 'ulaw';
    this.format = { encoding, sampleRateHz: encoding === 'l16' ? PCM_RATE : 8000 };
    this.replyFormat = this.format;
  }

  upgrade() {
    const url = new URL(this.target.url);
    this.address(url);
    const { headers } = this.config;
    this.#configured = false;
    this.#expired = false;
    this.#calls = [];
    this.#item = '';
    this.#flushed = undefined;
    return {
      url: url.href,
      headers: { ...this.authorization(), ...headers },
    };
  }

  override start(): AgentMessage[] {
    const { greeting } = this.config;
    this.#started = true;
    if (this.takesOver) return this.instruct(TAKE_OVER);
    if (greeting === '') return [];
    return greeting === undefined ? this.instruct(GREET) : this.say(greeting);
  }

  protected get defaultModel(): string {
    return MODEL;
  }

  /** Adds what the address needs beside the target. */
  protected address(url: URL): void {
    if (!url.searchParams.has('model')) url.searchParams.set('model', this.config.model ?? this.defaultModel);
  }

  protected authorization(): Record<string, string> {
    const { apiKey } = this.config;
    return apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` };
  }

  /** Makes the model answer an instruction that the caller does not hear. */
  protected instruct(instruction: string): AgentMessage[] {
    return [respond(instruction)];
  }

  /** The same for services whose responses take no instructions. */
  protected instructAsCaller(instruction: string): AgentMessage[] {
    return [this.item('caller', instruction), '{"type":"response.create"}'];
  }

  /** Makes the agent say a text word for word. */
  protected say(text: string): AgentMessage[] {
    return this.instruct(`Say exactly this, and nothing else: ${text}`);
  }

  /** The model of the caller's transcripts; undefined for none. */
  protected get transcription(): { [field: string]: Plain } | undefined {
    return defined({ model: this.config.transcriptionModel ?? TRANSCRIPTION, language: this.config.language });
  }

  audio(bytes: Uint8Array): AgentMessage {
    return `{"type":"input_audio_buffer.append","audio":"${base64(bytes)}"}`;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    const fields = readJson(message, sink);
    if (fields === null) return;
    this.#place(fields);
    switch (fields.type) {
      case 'session.created':
      case 'conversation.created': // xAI's first event in earlier versions
        sink.send(JSON.stringify({ type: 'session.update', session: merged(this.session(), this.config.override) }));
        return;
      case 'session.updated':
        if (this.#configured) return;
        this.#configured = true;
        for (const { speaker, text } of this.history) sink.send(this.item(speaker, text));
        sink.ready();
        if (this.#started && this.owesAnswer) sink.send('{"type":"response.create"}');
        return;
      case 'response.output_audio.delta':
      case 'response.audio.delta':
        this.#audioDelta(fields, sink);
        return;
      case 'response.output_audio_transcript.delta':
      case 'response.audio_transcript.delta':
        if (fields.item_id !== this.#flushed) sink.said(asText(fields.delta, TEXT_CHARS) ?? '', itemOf(fields));
        return;
      case 'response.output_audio_transcript.done':
      case 'response.audio_transcript.done':
        this.remember('agent', asText(fields.transcript, TEXT_CHARS) ?? '');
        return;
      case 'input_audio_buffer.speech_started':
        this.#flushed = this.#item;
        sink.clear();
        return;
      case 'conversation.item.input_audio_transcription.delta': {
        const written = this.#unfinished.get(itemOf(fields)) ?? '';
        this.#unfinished.set(itemOf(fields), (written + (asText(fields.delta, TEXT_CHARS) ?? '')).slice(0, TEXT_CHARS));
        return;
      }
      case 'conversation.item.input_audio_transcription.completed':
        this.#unfinished.delete(itemOf(fields));
        this.heardCaller(asText(fields.transcript, TEXT_CHARS) ?? '', sink, itemOf(fields));
        return;
      case 'conversation.item.input_audio_transcription.failed':
        this.#tellUnfinished(itemOf(fields), sink);
        return;
      case 'response.function_call_arguments.done':
        this.#calls.push({ callId: String(fields.call_id), name: fields.name, args: fields.arguments });
        return;
      case 'response.done':
        sink.saidAll(asObject(fields.response)?.status === 'cancelled');
        this.used(openaiTokens(asObject(fields.response)?.usage), sink);
        this.#answerCalls(sink);
        return;
      case 'error':
        this.#error(asObject(fields.error), sink);
    }
  }

  /** The model rejects a time beyond the audio it sent, so the time is rounded down. */
  override interrupted(heard: { itemId?: string; heardMs: number; droppedMs: number }): AgentMessage[] {
    if (heard.itemId === undefined || heard.droppedMs === 0) return [];
    const audio_end_ms = Math.floor(heard.heardMs);
    const truncate = { type: 'conversation.item.truncate', item_id: heard.itemId, content_index: 0, audio_end_ms };
    return [JSON.stringify(truncate)];
  }

  dtmf(digits: string): AgentMessage[] {
    return [this.item('caller', keysAsText(digits)), '{"type":"response.create"}'];
  }

  /** A session lasts an hour; the next one gets the conversation so far. */
  override closed(code: number, reason: string) {
    if (this.#expired || /maximum duration/i.test(reason)) return 'renew';
    return code === 1000 || code === 1005 ? 'hangup' : 'failed';
  }

  override over(sink: Sink): void {
    for (const itemId of [...this.#unfinished.keys()]) this.#tellUnfinished(itemId, sink);
  }

  /** The type of the agent's text in an item. */
  protected get agentText(): string {
    return 'output_text';
  }

  protected item(speaker: 'caller' | 'agent', text: string): string {
    const [role, type] = speaker === 'caller' ? ['user', 'input_text'] : ['assistant', this.agentText];
    const message = { type: 'message', role, content: [{ type, text }] };
    return JSON.stringify({ type: 'conversation.item.create', item: message });
  }

  #tellUnfinished(itemId: string, sink: Sink): void {
    const written = this.#unfinished.get(itemId) ?? '';
    this.#unfinished.delete(itemId);
    this.heardCaller(written, sink, itemId);
  }

  /** Transcripts come when they are done; items come in the order of speech, each with the id of the previous one. */
  #place(fields: JsonObject): void {
    const item = asObject(fields.item);
    if (item !== null) {
      this.#begun(fields.previous_item_id);
      if (item.role === 'user') this.#begun(item.id);
    } else if (PLACES.has(String(fields.type))) this.#begun(fields.item_id);
  }

  #begun(itemId: unknown): void {
    const name = asText(itemId, 256);
    if (name !== null && name !== '') this.callerBegan(name);
  }

  /** The `session` of `session.update`. */
  protected session(): { [field: string]: Plain } {
    const { instructions, voice, tools } = this.config;
    const format = WIRE[this.format.encoding];
    return defined({
      type: 'realtime',
      output_modalities: ['audio'],
      instructions,
      audio: {
        input: defined({
          format,
          transcription: this.transcription,
          turn_detection: { type: 'server_vad', create_response: true, interrupt_response: true },
        }),
        output: defined({ format, voice }),
      },
      tools: tools.map((tool) => ({ type: 'function', ...tool })),
    });
  }

  #audioDelta(fields: JsonObject, sink: Sink): void {
    const bytes = typeof fields.delta === 'string' ? base64Bytes(fields.delta) : null;
    if (bytes === null) {
      sink.garbage('bad_audio', 'The agent sent audio that is not base64.');
      return;
    }
    const itemId = itemOf(fields);
    if (bytes.length === 0 || itemId === this.#flushed) return;
    this.#item = itemId;
    this.#flushed = undefined;
    sink.audio(bytes, itemId);
  }

  /** Called after the whole response: the model's last words before a hang-up are queued by then. */
  #answerCalls(sink: Sink): void {
    const calls = this.#calls;
    this.#calls = [];
    for (const { callId, name, args } of calls) {
      const output = callTool(this.config.tools, name, args, sink);
      const item = { type: 'function_call_output', call_id: callId, output };
      sink.send(JSON.stringify({ type: 'conversation.item.create', item }));
    }
    if (calls.some(({ name }) => name !== 'hang_up')) sink.send('{"type":"response.create"}');
  }

  /** Most errors concern one message; before the session is configured, they concern the configuration. */
  #error(error: JsonObject | null, sink: Sink): void {
    const code = errorCode(error?.code ?? error?.type);
    if (code === 'session_expired') {
      this.#expired = true;
      sink.renew();
    } else if (!this.#configured) {
      const unauthorized = code === 'invalid_api_key';
      const message = `The provider refused the session with ${code}.`;
      sink.fail(new AgentFailure(unauthorized ? 'unauthorized' : 'refused', message, false));
    } else sink.garbage('provider_error', `The provider reported ${code}.`);
  }
}

function itemOf(fields: JsonObject): string {
  return asText(fields.item_id, 256) ?? '';
}

function respond(instructions: string): string {
  return JSON.stringify({ type: 'response.create', response: { instructions } });
}
