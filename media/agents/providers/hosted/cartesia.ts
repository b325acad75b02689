/** Cartesia Line, managed agents (API of 2026-08-14): the agent is configured at Cartesia; keys go both ways. */
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
import { asText, base64Bytes, type JsonObject } from '../../json.js';
import {
  base64,
  defined,
  errorCode,
  merged,
  type ProviderConfig,
  ProviderConversation,
  readJson,
  readProvider,
  TEXT_CHARS,
} from '../../provider.js';
import { callTool } from '../../tools.js';

interface CartesiaConfig extends ProviderConfig {
  agentId: string;
  format: AudioFormat;
}

const VERSION = '2026-08-14';
/** Set in the agent, and nowhere else. */
const AT_CARTESIA = ['instructions', 'greeting', 'voice', 'model', 'language', 'temperature'] as const;
const KEY = /^[0-9*#]$/;

export const cartesia: AgentProtocol<CartesiaConfig> = {
  provider: 'cartesia',
  title: 'Cartesia Line',
  page: 'cartesia.md',
  selectedBy: 'provider',
  config: { agent_id: textField(256) },
  example: { api_key: 'k', agent_id: 'a' },
  capabilities: {
    audio: 'G.711 μ-law',
    flush: ['audio_output_clear'],
    afterFlush: 'none is sent',
    keys: { as: 'key', message: 'dtmf_input' },
    hangUp: { by: 'close', words: 'end of the call, close 1000' },
    transfer: 'function',
    keepAlive: 'audio_input',
    variables: '`dynamic_variables`',
    longestSession: 'set by the service; its end is a hang-up',
  },
  readyOn: 'message',
  knownUrl: 'wss://api.cartesia.ai/v1/agents/websocket',
  transcribes: true,
  parseConfig(raw) {
    const [common, config] = readProvider(raw, 'required');
    const agentId = optionalText(config, 'agent_id');
    if (agentId === undefined) throw new AgentConfigError('agent_id', 'agent_id is required.');
    for (const field of AT_CARTESIA)
      if (common[field] !== undefined)
        throw new AgentConfigError(field, `${field} is set in the agent at Cartesia: leave it out.`);
    return { ...common, agentId, format: audioFormat(config, ['ulaw', 'l16'], [16000, 24000]) };
  },
  converse: (config, target) => new CartesiaConversation(config, target),
};

class CartesiaConversation extends ProviderConversation {
  readonly format: AudioFormat;
  readonly replyFormat: AudioFormat;
  /** Cartesia closes after two minutes without a message; pings do not count. */
  readonly keepAlive: { afterMs: number; message: string };
  #ready = false;

  constructor(
    private readonly config: CartesiaConfig,
    target: AgentTarget,
  ) {
    super(target);
    this.format = config.format;
    this.replyFormat = config.format;
    const { encoding, sampleRateHz } = config.format;
    const silence = encoding === 'ulaw' ? new Uint8Array(160).fill(0xff) : new Uint8Array(sampleRateHz / 25);
    this.keepAlive = { afterMs: 15_000, message: input(silence) };
  }

  upgrade() {
    const { apiKey, agentId, headers } = this.config;
    const url = new URL(this.target.url);
    if (!url.pathname.endsWith(`/${agentId}`))
      url.pathname = `${url.pathname.replace(/\/$/, '')}/${encodeURIComponent(agentId)}`;
    if (!url.searchParams.has('cartesia_version')) url.searchParams.set('cartesia_version', VERSION);
    this.#ready = false;
    const key: Record<string, string> = apiKey === undefined ? {} : { 'X-API-Key': apiKey };
    return { url: url.href, headers: { ...key, ...headers } };
  }

  /** The agent begins to speak; what it says waits for the answer of the call. */
  override opening(): AgentMessage[] {
    const { encoding, sampleRateHz } = this.format;
    const input_format = encoding === 'ulaw' ? 'mulaw_8000' : `pcm_${sampleRateHz}`;
    const told = this.told === '' ? undefined : { conversation: this.told };
    const session = defined({
      type: 'session_create',
      audio: { input_format, output_delivery: 'as_available' },
      dynamic_variables: told === undefined ? this.someVariables : { ...this.variables, ...told },
    });
    return [JSON.stringify(merged(session, this.config.override))];
  }

  audio(bytes: Uint8Array): AgentMessage {
    return input(bytes);
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    const fields = readJson(message, sink);
    if (fields === null) return;
    switch (fields.type) {
      case 'session_ready':
        this.#ready = true;
        sink.ready();
        return;
      case 'audio_output':
        this.#heard(fields.audio, sink);
        return;
      case 'audio_output_clear':
        sink.clear();
        return;
      case 'dtmf_output': {
        const digits = asText(fields.digit, 1);
        if (digits === null || !KEY.test(digits))
          sink.garbage('bad_field', 'The agent sent dtmf_output without a valid digit.');
        else sink.event({ type: 'dtmf', digits });
        return;
      }
      case 'turn_started':
        if (fields.role === 'user') this.callerBegan(String(fields.turn));
        return;
      case 'turn_output_text_delta':
        sink.said(asText(fields.text, TEXT_CHARS) ?? '');
        return;
      case 'turn_ended':
        this.#turnEnded(fields, sink);
        return;
      case 'client_tool_call':
        this.#call(fields, sink);
        return;
      case 'error':
        this.#error(fields, sink);
    }
  }

  dtmf(digit: string): AgentMessage[] {
    return KEY.test(digit) ? [JSON.stringify({ type: 'dtmf_input', digit })] : [];
  }

  #heard(audio: unknown, sink: Sink): void {
    const bytes = typeof audio === 'string' ? base64Bytes(audio) : null;
    if (bytes === null) sink.garbage('bad_audio', 'The agent sent audio that is not base64.');
    else if (bytes.length > 0) sink.audio(bytes);
  }

  #turnEnded({ role, text, turn, interrupted }: JsonObject, sink: Sink): void {
    const words = asText(text, TEXT_CHARS) ?? '';
    if (role === 'user') this.heardCaller(words, sink, String(turn));
    else {
      this.remember('agent', words);
      sink.saidAll(interrupted === true);
    }
  }

  #call({ tool_call_id, tool_name, parameters, expects_response }: JsonObject, sink: Sink): void {
    const result = callTool(this.config.tools, tool_name, parameters, sink);
    if (expects_response !== false)
      sink.send(JSON.stringify({ type: 'client_tool_result', tool_call_id, result, is_error: false }));
  }

  #error({ code: reported, fatal }: JsonObject, sink: Sink): void {
    const code = errorCode(reported);
    if (this.#ready && fatal !== true) sink.garbage('provider_error', `The provider reported ${code}.`);
    else sink.fail(new AgentFailure('refused', `The provider reported ${code}.`, false));
  }
}

function input(bytes: Uint8Array): string {
  return `{"type":"audio_input","audio":"${base64(bytes)}"}`;
}
