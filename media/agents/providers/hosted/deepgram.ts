/** Deepgram Voice Agent v1: JSON text for events, raw audio in binary messages both ways. */
import {
  AgentConfigError,
  AgentFailure,
  type AgentMessage,
  type AgentProtocol,
  type AgentTarget,
  type AudioFormat,
  type Plain,
  type Sink,
} from '../../agent.js';
import { choice, optionalText } from '../../config-fields.js';
import { textField } from '../../config-schema.js';
import { asObject, asText, type JsonObject } from '../../json.js';
import {
  defined,
  errorCode,
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
import { callTool } from '../../tools.js';
import { instructionsWith } from '../../variables.js';

interface DeepgramConfig extends ProviderConfig {
  /** A stored agent, in place of the other settings. */
  agentId?: string;
  encoding?: 'ulaw' | 'alaw' | 'l16';
  sampleRateHz: AudioFormat['sampleRateHz'];
}

const WIRE = { ulaw: 'mulaw', alaw: 'alaw', l16: 'linear16' };
const LISTEN = { provider: { type: 'deepgram', version: 'v1', model: 'nova-3' } };
const VOICE = 'aura-2-thalia-en';
const MODEL = 'gpt-4o-mini';

export const deepgram: AgentProtocol<DeepgramConfig> = {
  provider: 'deepgram',
  title: 'Deepgram Voice Agent',
  page: 'deepgram.md',
  selectedBy: 'provider',
  config: { agent_id: textField(256) },
  defaults: { model: MODEL, voice: VOICE },
  example: { api_key: 'k' },
  capabilities: {
    audio: 'G.711 of the phone',
    flush: ['UserStartedSpeaking'],
    afterFlush: 'dropped until the next turn',
    keys: { as: 'text', message: 'InjectUserMessage' },
    hangUp: { by: 'function', words: 'function `hang_up`' },
    transfer: 'function',
    keepAlive: 'KeepAlive',
    variables: 'in the prompt; with `agent_id` added to it',
    longestSession: '2 h; next session with the transcript',
  },
  readyOn: 'message',
  knownUrl: 'wss://agent.deepgram.com/v1/agent/converse',
  gathersDigits: true,
  transcribes: true,
  sessionLimitMs: 2 * 60 * 60_000,
  parseConfig(raw) {
    const [common, config] = readProvider(raw, 'required');
    const encoding = config.encoding == null ? undefined : choice(config, 'encoding', ['ulaw', 'alaw', 'l16'] as const);
    const sampleRateHz =
      encoding === 'l16'
        ? choice(config, 'sample_rate', [16000, 8000, 24000, 48000] as const)
        : choice(config, 'sample_rate', [8000] as const);
    const agentId = optionalText(config, 'agent_id');
    if (agentId !== undefined && (common.instructions ?? common.voice ?? common.greeting) !== undefined)
      throw new AgentConfigError(
        'agent_id',
        'agent_id stands for a stored agent: leave instructions, voice and greeting out.',
      );
    return { ...common, agentId, encoding, sampleRateHz };
  },
  converse: (config, target) => new DeepgramConversation(config, target),
};

class DeepgramConversation extends ProviderConversation {
  private readonly config: DeepgramConfig;
  readonly format: AudioFormat;
  readonly replyFormat: AudioFormat;
  /** Deepgram closes sessions without input for about ten seconds. */
  readonly keepAlive = { afterMs: 5000, message: '{"type":"KeepAlive"}' };
  #started = false;
  /** Discards the rest of an interrupted utterance. */
  #flushed = false;
  #speaking = false;
  /** The last text injected for the caller, and its text if it was refused because someone was speaking. */
  #injected: string | null = null;
  #refused: string | null = null;
  #hangUpWhenSaid = false;
  #expired = false;

  constructor(config: DeepgramConfig, target: AgentTarget) {
    super(target);
    this.config = config.agentId === undefined ? personal(config, target) : config;
    const encoding = config.encoding ?? target.phoneEncoding ?? 'ulaw';
    // The default for a wideband phone.
    const wide = encoding === 'l16' && config.encoding === undefined;
    this.format = { encoding, sampleRateHz: wide ? 16_000 : config.sampleRateHz };
    this.replyFormat = this.format;
  }

  upgrade() {
    const { apiKey, headers } = this.config;
    this.#expired = false;
    this.#flushed = false;
    this.#speaking = false;
    return {
      url: this.target.url,
      headers: apiKey === undefined ? headers : { Authorization: `Token ${apiKey}`, ...headers },
    };
  }

  override start(): AgentMessage[] {
    this.#started = true;
    return this.takesOver ? [this.#inject(TAKE_OVER)] : [];
  }

  audio(bytes: Uint8Array): AgentMessage {
    return bytes;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    if (typeof message !== 'string') {
      if (message.length > 0 && !this.#flushed) sink.audio(message);
      return;
    }
    const fields = readJson(message, sink);
    if (fields === null) return;
    switch (fields.type) {
      case 'Welcome':
        sink.send(this.#settings());
        return;
      case 'SettingsApplied':
        if (this.config.agentId !== undefined) sink.send(this.#addition());
        sink.ready();
        if (this.#started && this.owesAnswer) sink.send(this.#inject(this.history.at(-1)?.text ?? ''));
        return;
      case 'UserStartedSpeaking':
        this.#flushed = this.#speaking;
        this.#speaking = false;
        sink.clear();
        return;
      case 'AgentThinking':
      case 'AgentStartedSpeaking':
        this.#flushed = false;
        return;
      case 'AgentAudioDone':
        this.#audioDone(sink);
        return;
      case 'ConversationText':
        this.#text(fields, sink);
        return;
      case 'FunctionCallRequest':
        this.#functions(fields.functions, sink);
        return;
      case 'FunctionCallCancelled':
        if (Array.isArray(fields.functions) && fields.functions.some((each) => asObject(each)?.name === 'hang_up'))
          this.#hangUpWhenSaid = false;
        return;
      case 'InjectionRefused':
        this.#refused = this.#injected;
        this.#injected = null;
        sink.garbage('injection_refused', 'The provider refused injected text because someone was speaking.');
        return;
      case 'Error':
        this.#error(errorCode(fields.code), sink);
        return;
      case 'Warning':
        sink.garbage('provider_warning', `The provider warned of ${errorCode(fields.code)}.`);
    }
  }

  dtmf(digits: string): AgentMessage[] {
    return [this.#inject(keysAsText(digits))];
  }

  /** A session lasts two hours; the next one gets the conversation so far. */
  override closed(code: number, reason: string) {
    if (this.#expired || /session.*(limit|duration|expired)/i.test(reason)) return 'renew';
    return code === 1000 || code === 1005 ? 'hangup' : 'failed';
  }

  #settings(): string {
    const { encoding, sampleRateHz: sample_rate } = this.format;
    const wire = { encoding: WIRE[encoding], sample_rate };
    const first = {
      type: 'Settings',
      audio: { input: wire, output: { ...wire, container: 'none' } },
      agent: this.config.agentId ?? this.#agent(),
    };
    return JSON.stringify(merged(first, this.config.override));
  }

  /** What a stored agent learns of this call. It is added to the agent's own prompt. */
  #addition(): string | null {
    if (this.config.agentId === undefined) return null;
    const told = this.told === '' ? undefined : `The call so far:\n${this.told}`;
    const prompt = [instructionsWith(undefined, this.variables), told]
      .filter((each) => each !== undefined)
      .join('\n\n');
    return prompt === '' ? null : JSON.stringify({ type: 'UpdatePrompt', prompt });
  }

  #agent(): Plain {
    const { language, instructions, greeting, voice, model, temperature, tools } = this.config;
    // The last line is injected once the session is ready, and must not be sent twice.
    const earlier = this.#started && this.owesAnswer ? this.history.slice(0, -1) : this.history;
    const messages = earlier.map(({ speaker, text }) => ({
      type: 'History',
      role: speaker === 'caller' ? 'user' : 'assistant',
      content: text,
    }));
    return defined({
      language,
      listen: LISTEN,
      think: defined({
        provider: defined({ type: 'open_ai', model: model ?? MODEL, temperature }),
        prompt: instructions,
        functions: tools.length > 0 ? tools.map((tool) => ({ ...tool })) : undefined,
      }),
      speak: { provider: { type: 'deepgram', model: voice ?? VOICE } },
      greeting: greeting === '' || this.history.length > 0 ? undefined : greeting,
      context: messages.length > 0 ? { messages } : undefined,
    });
  }

  #text(fields: JsonObject, sink: Sink): void {
    const text = asText(fields.content, TEXT_CHARS) ?? '';
    this.#flushed = false;
    if (fields.role === 'user') this.heardCaller(text, sink);
    else if (fields.role === 'assistant') {
      this.#speaking = true;
      this.remember('agent', text);
      sink.said(`${text} `);
    }
  }

  #audioDone(sink: Sink): void {
    this.#speaking = false;
    sink.saidAll();
    if (this.#hangUpWhenSaid) sink.hangUp();
    else if (this.#refused !== null) sink.send(inject(this.#refused)); // retried once only
    this.#refused = null;
  }

  #inject(content: string): string {
    this.#injected = content;
    return inject(content);
  }

  /** Deepgram itself calls functions that have their own address. */
  #functions(functions: unknown, sink: Sink): void {
    if (!Array.isArray(functions)) return;
    for (const each of functions.map(asObject)) {
      if (each === null || each.client_side === false) continue;
      const hangUp = () => {
        if (this.#speaking) this.#hangUpWhenSaid = true;
        else sink.hangUp();
      };
      const content = callTool(this.config.tools, each.name, each.arguments, sink, hangUp);
      sink.send(JSON.stringify({ type: 'FunctionCallResponse', id: each.id, name: each.name, content }));
    }
  }

  /** Errors are always fatal. */
  #error(code: string, sink: Sink): void {
    if (/SESSION_(EXPIRED|LIMIT|TIMEOUT)/i.test(code)) {
      this.#expired = true;
      sink.renew();
    } else sink.fail(new AgentFailure('refused', `The provider reported ${code}.`, code === 'INTERNAL_SERVER_ERROR'));
  }
}

/** A text turn of the caller, which the agent answers. */
function inject(content: string): string {
  return JSON.stringify({ type: 'InjectUserMessage', content });
}
