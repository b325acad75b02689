/**
 * Amazon Nova Sonic on Bedrock: JSON events over an HTTP/2 event stream. Contents (instructions, earlier lines, texts, the caller's audio) begin
 * and end with messages of their own. Source: Amazon Nova 2 user guide, Speech-to-Speech.
 */
import {
  AgentConfigError,
  AgentFailure,
  type AgentMessage,
  type AgentProtocol,
  type AgentTarget,
  type AudioFormat,
  type Sink,
} from '../../agent.js';
import { bedrockStream } from '../../aws/bedrock-stream.js';
import type { AwsCredentials } from '../../aws/signature-v4.js';
import { audioFormat, optionalText } from '../../config-fields.js';
import { textField } from '../../config-schema.js';
import { asObject, asText, base64Bytes, type JsonObject, parseObject } from '../../json.js';
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
import { novaTokens } from '../../token-usage.js';
import { callTool, type Tool } from '../../tools.js';

const MODEL = 'amazon.nova-2-sonic-v1:0';
const VOICE = 'matthew';
const REGION = 'us-east-1';
const REGION_NAME = /^[a-z]{2}(-[a-z]+)+-\d{1,2}$/;
/** The first generation answers speech only, and has no texts of the caller. */
const FIRST_GENERATION = /(^|\.)amazon\.nova-sonic-v1/;
/** The service ends a connection after 8 minutes. */
const SESSION_MS = 7.5 * 60_000;
/** The service ends a session that gets no input for about a minute. */
const SILENCE_MS = 10_000;
/** The most text of an earlier conversation, the newest lines. */
const HISTORY_BYTES = 40_000;
/** The most of a conversation's text in one message; a content may have several. */
const MESSAGE_BYTES = 1_000;
/** The conversation can go on in another session. */
const PASSING =
  /^(modelStreamErrorException|modelTimeoutException|internalServerException|serviceUnavailableException)$/i;

const PROMPT = 'prompt';
const AUDIO = 'audio';

interface NovaConfig extends ProviderConfig {
  credentials: AwsCredentials;
  region: string;
  format: AudioFormat;
}

/** What the content that the service is sending is. */
interface Content {
  type: unknown;
  role: unknown;
  /** Text before its audio, rather than what was said. */
  speculative: boolean;
}

/** One side's words until the other's. */
interface Line {
  role: 'USER' | 'ASSISTANT';
  text: string;
}

export const amazonNovaSonic: AgentProtocol<NovaConfig> = {
  provider: 'amazon_nova_sonic',
  title: 'Amazon Nova Sonic',
  page: 'amazon-nova-sonic.md',
  selectedBy: 'provider',
  schemes: ['https', 'http'],
  config: {
    access_key_id: textField(128),
    secret_access_key: textField(256),
    session_token: textField(8192),
    region: { type: 'string', pattern: REGION_NAME.source },
  },
  defaults: { model: MODEL, voice: VOICE },
  example: { access_key_id: 'AKIDEXAMPLE', secret_access_key: 'k' },
  capabilities: {
    audio: 'PCM 16 kHz',
    flush: ['INTERRUPTED'],
    afterFlush: 'dropped until the next reply',
    keys: { as: 'text', message: 'textInput' },
    hangUp: { by: 'function', words: 'function `hang_up`' },
    transfer: 'function',
    keepAlive: 'audioInput',
    variables: 'in the instructions',
    tokens: 'usageEvent',
    longestSession: '8 min; next session with the transcript',
  },
  readyOn: 'connect',
  urlFor: ({ region }) =>
    `https://bedrock-runtime.${typeof region === 'string' && REGION_NAME.test(region) ? region : REGION}.amazonaws.com`,
  gathersDigits: true,
  transcribes: true,
  sessionLimitMs: SESSION_MS,
  parseConfig(raw) {
    const [common, config] = readProvider(raw, 'optional');
    const accessKeyId = optionalText(config, 'access_key_id');
    const secretAccessKey = optionalText(config, 'secret_access_key');
    if (accessKeyId === undefined) throw new AgentConfigError('access_key_id', 'access_key_id is required.');
    if (secretAccessKey === undefined)
      throw new AgentConfigError('secret_access_key', 'secret_access_key is required.');
    if (!/^[A-Za-z0-9]+$/.test(accessKeyId))
      throw new AgentConfigError('access_key_id', 'access_key_id must have letters and digits only.');
    const region = optionalText(config, 'region') ?? REGION;
    if (!REGION_NAME.test(region)) throw new AgentConfigError('region', 'region must be one such as us-east-1.');
    const sessionToken = optionalText(config, 'session_token');
    if (sessionToken !== undefined && !/^[\x21-\x7e]+$/.test(sessionToken))
      throw new AgentConfigError('session_token', 'session_token has a character that HTTP does not allow.');
    return {
      ...common,
      region,
      credentials: { accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) },
      format: audioFormat(config, ['l16'], [16000, 8000, 24000]),
    };
  },
  converse: (config, target) => new NovaSonicConversation(config, target),
};

class NovaSonicConversation extends ProviderConversation {
  private readonly config: NovaConfig;
  readonly format: AudioFormat;
  readonly replyFormat: AudioFormat = { encoding: 'l16', sampleRateHz: 24000 };
  readonly keepAlive: { afterMs: number; message: string };
  #started = false;
  #texts = 0;
  #content: Content | null = null;
  /** Discards the rest of an interrupted reply. */
  #flushed = false;
  #toolUse: JsonObject | null = null;
  #exception: string | null = null;

  constructor(config: NovaConfig, target: AgentTarget) {
    super(target);
    this.config = personal(config, target);
    this.format = config.format;
    const silence = new Uint8Array((this.format.sampleRateHz / 50) * 2);
    this.keepAlive = { afterMs: SILENCE_MS, message: this.audio(silence) };
  }

  upgrade() {
    const { model = MODEL, region, credentials } = this.config;
    this.#content = null;
    this.#flushed = false;
    this.#toolUse = null;
    this.#exception = null;
    return bedrockStream(this.target.url, model, region, credentials);
  }

  /** The whole prompt, and the beginning of the caller's audio. In a later session the caller's last words are answered. */
  override opening(): AgentMessage[] {
    const { instructions, temperature, override } = this.config;
    const lines = this.#lines();
    const answered = this.#started && this.owesAnswer && this.#takesText ? lines.pop() : undefined;
    const session = defined({
      inferenceConfiguration: defined({ maxTokens: 1024, topP: 0.9, temperature: temperature ?? 0.7 }),
    });
    return [
      event('sessionStart', merged(session, override)),
      event('promptStart', this.#prompt()),
      ...(instructions === undefined || instructions === '' ? [] : this.#text('SYSTEM', instructions, false)),
      ...lines.flatMap(({ role, text }) => this.#text(role, text, false)),
      event('contentStart', {
        ...named(AUDIO),
        type: 'AUDIO',
        interactive: true,
        role: 'USER',
        audioInputConfiguration: lpcm(this.format.sampleRateHz),
      }),
      ...(answered === undefined ? [] : this.#text(answered.role, answered.text, true)),
    ];
  }

  override start(): AgentMessage[] {
    const { greeting } = this.config;
    this.#started = true;
    if (!this.#takesText) return [];
    if (this.takesOver) return this.#text('USER', TAKE_OVER, true);
    if (greeting === '') return [];
    return this.#text('USER', greeting === undefined ? GREET : `Say exactly this: ${greeting}`, true);
  }

  audio(bytes: Uint8Array): string {
    return `{"event":{"audioInput":{"promptName":"${PROMPT}","contentName":"${AUDIO}","content":"${base64(bytes)}"}}}`;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    const fields = readJson(message, sink);
    if (fields === null) return;
    if (fields.exception !== undefined) {
      this.#failed(errorCode(fields.exception), sink);
      return;
    }
    const events = asObject(fields.event);
    if (events === null) return;
    const audio = asObject(events.audioOutput);
    if (audio !== null) this.#heard(audio.content, sink);
    const start = asObject(events.contentStart);
    if (start !== null) this.#contentStart(start);
    const text = asObject(events.textOutput);
    if (text !== null) this.#textOutput(asText(text.content, TEXT_CHARS) ?? '', sink);
    const toolUse = asObject(events.toolUse);
    if (toolUse !== null) this.#toolUse = toolUse;
    const end = asObject(events.contentEnd);
    if (end !== null) this.#contentEnd(end, sink);
    this.used(novaTokens(events.usageEvent), sink);
  }

  dtmf(digits: string): AgentMessage[] {
    return this.#takesText ? this.#text('USER', keysAsText(digits), true) : [];
  }

  override closing(): AgentMessage[] {
    return [event('contentEnd', named(AUDIO)), event('promptEnd', { promptName: PROMPT }), event('sessionEnd', {})];
  }

  override closed(code: number, reason: string) {
    return this.#exception !== null && PASSING.test(this.#exception) ? 'renew' : super.closed(code, reason);
  }

  get #takesText(): boolean {
    return !FIRST_GENERATION.test(this.config.model ?? MODEL);
  }

  #prompt(): JsonObject {
    const { voice = VOICE, tools } = this.config;
    return defined({
      promptName: PROMPT,
      textOutputConfiguration: { mediaType: 'text/plain' },
      audioOutputConfiguration: { ...lpcm(this.replyFormat.sampleRateHz), voiceId: voice },
      toolUseOutputConfiguration: tools.length > 0 ? { mediaType: 'application/json' } : undefined,
      toolConfiguration: tools.length > 0 ? { tools: tools.map(declared) } : undefined,
    });
  }

  /** The conversation so far, as the service takes it: the caller begins, and speaks in turn with the agent. */
  #lines(): Line[] {
    const lines: Line[] = [];
    let bytes = 0;
    for (const { speaker, text } of this.history.toReversed()) {
      bytes += Buffer.byteLength(text) + 1;
      if (bytes > HISTORY_BYTES) break;
      const role = speaker === 'caller' ? 'USER' : 'ASSISTANT';
      const next = lines[0];
      if (next?.role === role) next.text = `${text} ${next.text}`;
      else lines.unshift({ role, text });
    }
    if (lines[0]?.role === 'ASSISTANT') lines.unshift({ role: 'USER', text: GREET });
    return lines;
  }

  #text(role: 'SYSTEM' | 'USER' | 'ASSISTANT', content: string, interactive: boolean): string[] {
    this.#texts += 1;
    const name = named(`text-${this.#texts}`);
    const textInputConfiguration = { mediaType: 'text/plain' };
    const parts = role === 'SYSTEM' ? [content] : inParts(content);
    return [
      event('contentStart', { ...name, type: 'TEXT', interactive, role, textInputConfiguration }),
      ...parts.map((part) => event('textInput', { ...name, content: part })),
      event('contentEnd', name),
    ];
  }

  #contentStart({ type, role, additionalModelFields }: JsonObject): void {
    const stage = parseObject(asText(additionalModelFields, 4096) ?? '')?.generationStage;
    this.#content = { type, role, speculative: stage === 'SPECULATIVE' };
    // A new reply: the rest of an interrupted one has been sent.
    if (role === 'ASSISTANT' && (type === 'AUDIO' || this.#content.speculative)) this.#flushed = false;
  }

  #heard(data: unknown, sink: Sink): void {
    const bytes = typeof data === 'string' ? base64Bytes(data) : null;
    if (bytes === null) sink.garbage('bad_audio', 'The agent sent audio that is not base64.');
    else if (bytes.length > 0 && !this.#flushed) sink.audio(bytes);
  }

  /** The agent's text comes before its audio, and again as far as it was spoken, which is known here better. */
  #textOutput(text: string, sink: Sink): void {
    const { role, speculative } = this.#content ?? { role: undefined, speculative: false };
    if (role === 'USER') this.heardCaller(text, sink);
    else if (role === 'ASSISTANT' && speculative) {
      this.remember('agent', text);
      sink.said(text);
    }
  }

  #contentEnd({ stopReason }: JsonObject, sink: Sink): void {
    const content = this.#content;
    this.#content = null;
    if (stopReason === 'INTERRUPTED') {
      if (!this.#flushed) sink.clear();
      this.#flushed = true;
      sink.saidAll(true);
    } else if (content?.type === 'AUDIO' && stopReason === 'END_TURN') sink.saidAll();
    if (this.#toolUse !== null) this.#callTool(this.#toolUse, sink);
  }

  #callTool({ toolUseId, toolName, content }: JsonObject, sink: Sink): void {
    this.#toolUse = null;
    const result = callTool(this.config.tools, toolName, content, sink);
    this.#texts += 1;
    const name = named(`tool-${this.#texts}`);
    const toolResultInputConfiguration = {
      toolUseId: asText(toolUseId, 256),
      type: 'TEXT',
      textInputConfiguration: { mediaType: 'text/plain' },
    };
    const start = { ...name, interactive: false, type: 'TOOL', role: 'TOOL', toolResultInputConfiguration };
    sink.send(event('contentStart', start));
    sink.send(event('toolResult', { ...name, content: JSON.stringify({ result }) }));
    sink.send(event('contentEnd', name));
  }

  /** The service ends the stream after an exception. */
  #failed(name: string, sink: Sink): void {
    this.#exception = name;
    if (!PASSING.test(name)) sink.fail(new AgentFailure('refused', `The provider reported ${name}.`, false));
    else sink.warn('provider_error', `The provider reported ${name}.`);
  }
}

function event(name: string, fields: object): string {
  return JSON.stringify({ event: { [name]: fields } });
}

function named(contentName: string) {
  return { promptName: PROMPT, contentName };
}

/** The text in parts of at most `MESSAGE_BYTES`, between words where there are any. */
function inParts(text: string): string[] {
  const parts: string[] = [];
  let part = '';
  for (const word of text.match(/\S{1,200}\s?|\s/gu) ?? []) {
    if (Buffer.byteLength(part) + Buffer.byteLength(word) > MESSAGE_BYTES) {
      parts.push(part);
      part = '';
    }
    part += word;
  }
  return [...parts, part];
}

function lpcm(sampleRateHertz: number) {
  const form = { mediaType: 'audio/lpcm', sampleRateHertz, sampleSizeBits: 16, channelCount: 1 };
  return { ...form, audioType: 'SPEECH', encoding: 'base64' };
}

/** The schema of the parameters is JSON in a string. */
function declared({ name, description, parameters }: Tool) {
  return { toolSpec: { name, description, inputSchema: { json: JSON.stringify(parameters) } } };
}
