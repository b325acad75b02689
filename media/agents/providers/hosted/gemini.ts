/**
 * Google Gemini Live: JSON in text or binary messages, PCM at 16 kHz in and 24 kHz out. A connection lasts some minutes; the server announces
 * its end (`goAway`), and the session is resumed on a new connection by its handle.
 */
import type { AgentMessage, AgentProtocol, AgentTarget, AudioFormat, Sink } from '../../agent.js';
import { asObject, asText, base64Bytes, type JsonObject, parseObject } from '../../json.js';
import {
  base64,
  defined,
  GREET,
  keysAsText,
  merged,
  type ProviderConfig,
  ProviderConversation,
  personal,
  readProvider,
  TAKE_OVER,
  TEXT_CHARS,
} from '../../provider.js';
import { geminiTokens } from '../../token-usage.js';
import { callTool, type Tool } from '../../tools.js';

const MODEL = 'gemini-3.8-live';
/** Renewal begins this long before the time in `goAway` is over. */
const LEAVE_EARLY_MS = 2000;

export const gemini: AgentProtocol<ProviderConfig> = {
  provider: 'gemini',
  title: 'Gemini Live',
  page: 'gemini.md',
  selectedBy: 'provider',
  config: {},
  defaults: { model: MODEL },
  example: { api_key: 'k' },
  capabilities: {
    audio: 'PCM 16 kHz',
    flush: ['interrupted'],
    afterFlush: 'none is sent',
    keys: { as: 'text', message: 'clientContent' },
    hangUp: { by: 'function', words: 'function `hang_up`' },
    transfer: 'function',
    variables: 'in the instructions',
    tokens: 'usageMetadata',
    longestSession: 'until `goAway`; resumed',
  },
  readyOn: 'message',
  knownUrl:
    'wss://generativelanguage.googleapis.com/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent',
  gathersDigits: true,
  transcribes: true,
  parseConfig: (raw) => readProvider(raw, 'required')[0],
  converse: (config, target) => new GeminiConversation(config, target),
};

class GeminiConversation extends ProviderConversation {
  private readonly config: ProviderConfig;
  readonly format: AudioFormat = { encoding: 'l16', sampleRateHz: 16000 };
  readonly replyFormat: AudioFormat = { encoding: 'l16', sampleRateHz: 24000 };
  /** Resumes the session on another connection. */
  #handle: string | undefined;
  #ready = false;
  #started = false;
  #speaking = false;
  #callerText = '';
  #agentText = '';
  #hangUpWhenSaid = false;

  constructor(config: ProviderConfig, target: AgentTarget) {
    super(target);
    this.config = personal(config, target);
  }

  upgrade() {
    const url = new URL(this.target.url);
    if (this.config.apiKey !== undefined) url.searchParams.set('key', this.config.apiKey);
    this.#ready = false;
    return { url: url.href, headers: this.config.headers };
  }

  override opening(): AgentMessage[] {
    const { model, voice, instructions, language, temperature, tools, override } = this.config;
    const name = model ?? MODEL;
    const speechConfig = defined({
      voiceConfig: voice === undefined ? undefined : { prebuiltVoiceConfig: { voiceName: voice } },
      languageCode: language,
    });
    const setup = defined({
      model: name.includes('/') ? name : `models/${name}`,
      generationConfig: defined({ responseModalities: ['AUDIO'], temperature, speechConfig }),
      systemInstruction: instructions === undefined ? undefined : { parts: [{ text: instructions }] },
      tools: tools.length > 0 ? [{ functionDeclarations: tools.map(declared) }] : undefined,
      inputAudioTranscription: {},
      outputAudioTranscription: {},
      sessionResumption: defined({ handle: this.#handle }),
      contextWindowCompression: { slidingWindow: {} },
    });
    return [JSON.stringify({ setup: merged(setup, override) })];
  }

  override start(): AgentMessage[] {
    const { greeting } = this.config;
    this.#started = true;
    if (this.takesOver) return [content([...this.#earlier, turn('user', TAKE_OVER)], true)];
    if (greeting === '') return [];
    return [content([turn('user', greeting === undefined ? GREET : `Say exactly this: ${greeting}`)], true)];
  }

  audio(bytes: Uint8Array): AgentMessage {
    return `{"realtimeInput":{"audio":{"mimeType":"audio/pcm;rate=16000","data":"${base64(bytes)}"}}}`;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    const fields = parseObject(typeof message === 'string' ? message : Buffer.from(message).toString());
    if (fields === null) {
      sink.garbage('bad_json', 'The agent sent a message that is not a JSON object.');
      return;
    }
    if (fields.setupComplete !== undefined) this.#setUp(sink);
    this.#content(asObject(fields.serverContent), sink);
    this.#calls(asObject(fields.toolCall)?.functionCalls, sink);
    this.used(geminiTokens(fields.usageMetadata), sink);
    const resumption = asObject(fields.sessionResumptionUpdate);
    if (resumption?.resumable === true) this.#handle = asText(resumption.newHandle, 4096) ?? this.#handle;
    if (fields.goAway !== undefined)
      sink.renew(Math.max(0, leftMs(asObject(fields.goAway)?.timeLeft) - LEAVE_EARLY_MS));
  }

  dtmf(digits: string): AgentMessage[] {
    return [content([turn('user', keysAsText(digits))], true)];
  }

  override closed(code: number) {
    const known = this.#handle !== undefined;
    if (!this.#ready) this.#handle = undefined; // the handle may have been refused: start a new session with the conversation so far
    if (code === 1000) return 'hangup';
    // 1007 and 1008 reject the session itself: another attempt would be rejected too.
    return known && code !== 1007 && code !== 1008 ? 'renew' : 'failed';
  }

  /** Gemini's transcripts come in pieces without an end. */
  callerSpeaks(sink: Sink): void {
    this.#callerDone(sink);
  }

  override over(sink: Sink): void {
    this.#callerDone(sink);
  }

  /** A session that does not resume another one gets the conversation so far. */
  #setUp(sink: Sink): void {
    this.#ready = true;
    sink.ready();
    if (this.#started && this.#handle === undefined && this.history.length > 0)
      sink.send(content(this.#earlier, this.owesAnswer));
  }

  get #earlier() {
    return this.history.map(({ speaker, text }) => turn(speaker === 'caller' ? 'user' : 'model', text));
  }

  #content(server: JsonObject | null, sink: Sink): void {
    if (server === null) return;
    const heard = asText(asObject(server.inputTranscription)?.text, TEXT_CHARS);
    if (heard !== null && this.#callerText.length < TEXT_CHARS) this.#callerText += heard;
    if (server.interrupted === true) {
      this.#speaking = false;
      this.#rememberAgent();
      sink.clear();
    }
    const parts = asObject(server.modelTurn)?.parts;
    if (Array.isArray(parts)) for (const part of parts) this.#audioPart(asObject(asObject(part)?.inlineData), sink);
    const said = asText(asObject(server.outputTranscription)?.text, TEXT_CHARS);
    if (said !== null) {
      this.#callerDone(sink);
      if (this.#agentText.length < TEXT_CHARS) this.#agentText += said;
      sink.said(said);
    }
    if (server.turnComplete === true || server.generationComplete === true) this.#turnDone(sink);
  }

  #audioPart(data: JsonObject | null, sink: Sink): void {
    if (data === null) return;
    const bytes = typeof data.data === 'string' ? base64Bytes(data.data) : null;
    if (bytes === null) {
      sink.garbage('bad_audio', 'The agent sent audio that is not base64.');
      return;
    }
    this.#callerDone(sink);
    this.#speaking = true;
    if (bytes.length > 0) sink.audio(bytes);
  }

  /** The model answers: the caller's earlier speech is complete. */
  #callerDone(sink: Sink): void {
    const text = this.#callerText;
    this.#callerText = '';
    this.heardCaller(text, sink);
  }

  #turnDone(sink: Sink): void {
    this.#speaking = false;
    this.#rememberAgent();
    sink.saidAll();
    if (this.#hangUpWhenSaid) sink.hangUp();
  }

  #rememberAgent(): void {
    this.remember('agent', this.#agentText);
    this.#agentText = '';
  }

  #calls(calls: unknown, sink: Sink): void {
    if (!Array.isArray(calls)) return;
    const functionResponses = calls.map((each) => {
      const call = asObject(each);
      const hangUp = () => {
        if (this.#speaking) this.#hangUpWhenSaid = true;
        else sink.hangUp();
      };
      const result = callTool(this.config.tools, call?.name, call?.args, sink, hangUp);
      return { id: call?.id, name: call?.name, response: { result } };
    });
    sink.send(JSON.stringify({ toolResponse: { functionResponses } }));
  }
}

/** `parameters` takes a dialect of the service; this field takes plain JSON Schema. */
function declared({ name, description, parameters }: Tool) {
  return { name, description, parametersJsonSchema: parameters };
}

/** A duration such as `50s` or `1.5s`. */
function leftMs(timeLeft: unknown): number {
  const seconds = Number(/^(\d+(?:\.\d+)?)s$/.exec(String(timeLeft))?.[1]);
  return Number.isFinite(seconds) ? seconds * 1000 : 0;
}

function turn(role: 'user' | 'model', text: string) {
  return { role, parts: [{ text }] };
}

function content(turns: ReturnType<typeof turn>[], turnComplete: boolean): string {
  return JSON.stringify({ clientContent: { turns, turnComplete } });
}
