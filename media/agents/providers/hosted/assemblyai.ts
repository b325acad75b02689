/** AssemblyAI Voice Agent: JSON over one WebSocket; the agent is configured before the call, and speaks when it is asked to reply. */
import {
  AgentFailure,
  type AgentMessage,
  type AgentProtocol,
  type AgentTarget,
  type AudioFormat,
  type Sink,
} from '../../agent.js';
import { asText, base64Bytes, type JsonObject } from '../../json.js';
import {
  base64,
  defined,
  errorCode,
  GREET,
  keysAsText,
  merged,
  ProviderConversation,
  personal,
  readJson,
  readProvider,
  TAKE_OVER,
  TEXT_CHARS,
} from '../../provider.js';
import { callTool } from '../../tools.js';
import { type OpenaiConfig, readEncoding } from './openai.js';

const WIRE = { ulaw: 'audio/pcmu', alaw: 'audio/pcma', l16: 'audio/pcm' };
const UNAUTHORIZED = /^(unauthorized|forbidden|invalid_(api_key|token))$/i;

export const assemblyai: AgentProtocol<OpenaiConfig> = {
  provider: 'assemblyai',
  title: 'AssemblyAI Voice Agent',
  page: 'assemblyai.md',
  selectedBy: 'provider',
  config: {},
  example: { api_key: 'k' },
  capabilities: {
    audio: 'G.711 of the phone',
    flush: ['input.speech.started', 'reply.done'],
    afterFlush: 'dropped until the next reply',
    keys: { as: 'text', message: 'reply.create' },
    hangUp: { by: 'function', words: 'function `hang_up`' },
    transfer: 'function',
    variables: 'in the prompt',
    longestSession: '3 h; next session with the transcript',
  },
  readyOn: 'message',
  knownUrl: 'wss://agents.assemblyai.com/v1/ws',
  gathersDigits: true,
  transcribes: true,
  sessionLimitMs: 3 * 60 * 60_000,
  parseConfig(raw) {
    const [common, config] = readProvider(raw, 'required');
    return { ...common, encoding: readEncoding(config) };
  },
  converse: (config, target) => new AssemblyaiConversation(config, target),
};

class AssemblyaiConversation extends ProviderConversation {
  private readonly config: OpenaiConfig;
  readonly format: AudioFormat;
  readonly replyFormat: AudioFormat;
  #ready = false;
  #started = false;
  /** Discards the rest of an interrupted reply. */
  #flushed = false;
  #calls: JsonObject[] = [];
  #expired = false;

  constructor(config: OpenaiConfig, target: AgentTarget) {
    super(target);
    this.config = personal(config, target);
    const encoding = config.encoding ?? target.phoneEncoding ?? 'ulaw';
    this.format = { encoding, sampleRateHz: encoding === 'l16' ? 24000 : 8000 };
    this.replyFormat = this.format;
  }

  upgrade() {
    const { apiKey, headers } = this.config;
    this.#ready = false;
    this.#flushed = false;
    this.#calls = [];
    this.#expired = false;
    const key: Record<string, string> = apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` };
    return { url: this.target.url, headers: { ...key, ...headers } };
  }

  /** Without a greeting: the agent would speak it before the call is answered. */
  override opening(): AgentMessage[] {
    const { instructions, voice, tools, override } = this.config;
    const format = { encoding: WIRE[this.format.encoding] };
    const told = this.told === '' ? undefined : `The call so far:\n${this.told}`;
    const prompt = [instructions, told].filter((each) => each !== undefined).join('\n\n');
    const session = defined({
      system_prompt: prompt === '' ? undefined : prompt,
      input: { format },
      output: defined({ voice, format }),
      tools: tools.map((tool) => ({ type: 'function', ...tool })),
    });
    return [JSON.stringify({ type: 'session.update', session: merged(session, override) })];
  }

  override start(): AgentMessage[] {
    const { greeting } = this.config;
    this.#started = true;
    if (this.takesOver) return [reply(TAKE_OVER)];
    if (greeting === '') return [];
    return [reply(greeting === undefined ? GREET : `Say exactly this, and nothing else: ${greeting}`)];
  }

  audio(bytes: Uint8Array): AgentMessage {
    return `{"type":"input.audio","audio":"${base64(bytes)}"}`;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    const fields = readJson(message, sink);
    if (fields === null) return;
    switch (fields.type) {
      case 'session.ready':
        if (this.#ready) return;
        this.#ready = true;
        sink.ready();
        if (this.#started && this.owesAnswer) sink.send('{"type":"reply.create"}');
        return;
      case 'input.speech.started':
        this.callerBegan('');
        this.#flushed = true;
        sink.clear();
        return;
      case 'reply.started':
        this.#flushed = false;
        return;
      case 'reply.audio':
        this.#heard(fields.data, sink);
        return;
      case 'transcript.user':
        this.heardCaller(asText(fields.text, TEXT_CHARS) ?? '', sink);
        return;
      case 'transcript.agent': {
        const text = asText(fields.text, TEXT_CHARS) ?? '';
        this.remember('agent', text);
        sink.said(text);
        return;
      }
      case 'tool.call':
        this.#calls.push(fields);
        return;
      case 'reply.done':
        this.#replied(fields.status === 'interrupted', sink);
        return;
      case 'session.ended':
        this.#expired = true;
        return;
      case 'session.error':
        this.#error(errorCode(fields.code), sink);
    }
  }

  /** There is no message for a text of the caller. */
  dtmf(digits: string): AgentMessage[] {
    return [reply(keysAsText(digits))];
  }

  override closing(): AgentMessage[] {
    return ['{"type":"session.end"}'];
  }

  /** The service ends a session by itself when its time is over; the next one gets the conversation so far. */
  override closed(code: number, reason: string) {
    return this.#expired ? 'renew' : super.closed(code, reason);
  }

  #heard(data: unknown, sink: Sink): void {
    const bytes = typeof data === 'string' ? base64Bytes(data) : null;
    if (bytes === null) sink.garbage('bad_audio', 'The agent sent audio that is not base64.');
    else if (bytes.length > 0 && !this.#flushed) sink.audio(bytes);
  }

  /** Results are sent after the reply; those of an interrupted one are not wanted any more. */
  #replied(interrupted: boolean, sink: Sink): void {
    const calls = this.#calls;
    this.#calls = [];
    if (interrupted) {
      if (!this.#flushed) sink.clear();
      this.#flushed = true;
    }
    sink.saidAll(interrupted);
    if (interrupted) return;
    for (const { call_id, name, arguments: args } of calls) {
      const result = callTool(this.config.tools, name, args, sink);
      sink.send(JSON.stringify({ type: 'tool.result', call_id, result }));
    }
  }

  /** Errors concern one message; before the session is ready, they concern the configuration. */
  #error(code: string, sink: Sink): void {
    if (this.#ready) sink.garbage('provider_error', `The provider reported ${code}.`);
    else {
      const reason = UNAUTHORIZED.test(code) ? 'unauthorized' : 'refused';
      sink.fail(new AgentFailure(reason, `The provider refused the session with ${code}.`, false));
    }
  }
}

function reply(instructions: string): string {
  return JSON.stringify({ type: 'reply.create', instructions });
}
