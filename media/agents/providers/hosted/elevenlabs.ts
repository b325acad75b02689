/**
 * ElevenLabs Agents. With an API key, a REST request first gets the WebSocket's address (`signed_url`); a public agent needs none. The audio
 * formats are set in the agent and announced in the handshake.
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
import { optionalText } from '../../config-fields.js';
import { textField } from '../../config-schema.js';
import { asObject, asText, base64Bytes, type JsonObject } from '../../json.js';
import {
  answered,
  base64,
  defined,
  errorCode,
  keysAsText,
  merged,
  type ProviderConfig,
  ProviderConversation,
  readJson,
  readProvider,
  restUrl,
  TEXT_CHARS,
} from '../../provider.js';
import { callTool } from '../../tools.js';
import type { AlignedText } from '../../transcript-alignment.js';

interface ElevenlabsConfig extends ProviderConfig {
  agentId: string;
}

export const elevenlabs: AgentProtocol<ElevenlabsConfig> = {
  provider: 'elevenlabs',
  title: 'ElevenLabs Agents',
  page: 'elevenlabs.md',
  selectedBy: 'provider',
  config: { agent_id: textField(256) },
  example: { api_key: 'k', agent_id: 'a' },
  capabilities: {
    audio: 'as the agent is set',
    flush: ['interruption'],
    afterFlush: 'dropped by `event_id`',
    keys: { as: 'text', message: 'user_message' },
    hangUp: { by: 'close', words: '`end_call`, close 1000' },
    transfer: 'function',
    keepAlive: 'user_activity',
    variables: '`dynamic_variables`',
    longestSession: 'set in the agent; its end is a hang-up',
  },
  sip: {
    headers: ({ callId, from }) => ({ 'X-CALL-ID': callId, 'X-CALLER-ID': from }),
  },
  readyOn: 'message',
  knownUrl: 'wss://api.elevenlabs.io/v1/convai/conversation',
  gathersDigits: true,
  transcribes: true,
  idsNamePieces: true,
  parseConfig(raw) {
    const [common, config] = readProvider(raw, 'optional');
    const agentId = optionalText(config, 'agent_id');
    if (agentId === undefined) throw new AgentConfigError('agent_id', 'agent_id is required.');
    return { ...common, agentId };
  },
  converse: (config, target) => new ElevenlabsConversation(config, target),
};

class ElevenlabsConversation extends ProviderConversation {
  format: AudioFormat = { encoding: 'ulaw', sampleRateHz: 8000 };
  replyFormat: AudioFormat = this.format;
  /** ElevenLabs closes conversations without input for a minute. */
  readonly keepAlive = { afterMs: 15_000, message: '{"type":"user_activity"}' };
  #signedUrl: string | null = null;
  /** Audio up to this event id was interrupted. */
  #flushedUpTo = Number.NEGATIVE_INFINITY;
  /** The current turn has its text. */
  #written = false;

  constructor(
    private readonly config: ElevenlabsConfig,
    target: AgentTarget,
  ) {
    super(target);
  }

  prepare() {
    const { apiKey, agentId } = this.config;
    if (apiKey === undefined) return null;
    const url = `${restUrl(this.config, this.target, '/v1/convai/conversation/get-signed-url')}?agent_id=${encodeURIComponent(agentId)}`;
    return { method: 'GET' as const, url, headers: { 'xi-api-key': apiKey } };
  }

  prepared(body: string): void {
    this.#signedUrl = answered(body, (answer) => answer.signed_url);
  }

  upgrade() {
    const url = new URL(this.#signedUrl ?? this.target.url);
    if (this.#signedUrl === null) url.searchParams.set('agent_id', this.config.agentId);
    return { url: url.href, headers: this.config.headers };
  }

  override opening(): AgentMessage[] {
    const { instructions, greeting, language, voice, override } = this.config;
    const agent = defined({
      prompt: instructions === undefined ? undefined : { prompt: instructions },
      first_message: greeting,
      language,
    });
    const change = defined({
      agent: Object.keys(agent).length > 0 ? agent : undefined,
      tts: voice === undefined ? undefined : { voice_id: voice },
    });
    const first = defined({
      type: 'conversation_initiation_client_data',
      conversation_config_override: Object.keys(change).length > 0 ? change : undefined,
      dynamic_variables: this.someVariables,
    });
    const context = { type: 'contextual_update', text: `The call so far:\n${this.told}` };
    return [JSON.stringify(merged(first, override)), this.told === '' ? null : JSON.stringify(context)];
  }

  audio(bytes: Uint8Array): AgentMessage {
    return `{"user_audio_chunk":"${base64(bytes)}"}`;
  }

  receive(message: string | Uint8Array, sink: Sink): void {
    const fields = readJson(message, sink);
    if (fields === null) return;
    switch (fields.type) {
      case 'conversation_initiation_metadata':
        this.#formats(asObject(fields.conversation_initiation_metadata_event), sink);
        return;
      case 'audio':
        this.#heard(asObject(fields.audio_event), sink);
        return;
      case 'interruption':
        this.#flushedUpTo = Math.max(this.#flushedUpTo, eventId(asObject(fields.interruption_event)));
        this.#written = false;
        sink.clear();
        return;
      case 'ping':
        sink.send(JSON.stringify({ type: 'pong', event_id: eventId(asObject(fields.ping_event)) }));
        return;
      case 'user_transcript':
        sink.saidAll();
        this.#written = false;
        this.heardCaller(asText(asObject(fields.user_transcription_event)?.user_transcript, TEXT_CHARS) ?? '', sink);
        return;
      case 'agent_response': {
        if (this.#written) sink.saidAll(); // of the previous turn; this turn's audio may be here already
        this.#written = true;
        const text = asText(asObject(fields.agent_response_event)?.agent_response, TEXT_CHARS) ?? '';
        this.remember('agent', text);
        sink.said(text);
        return;
      }
      case 'agent_response_correction': {
        const event = asObject(fields.agent_response_correction_event);
        this.#corrected(asText(event?.corrected_agent_response, TEXT_CHARS));
        return;
      }
      case 'client_tool_call': {
        const call = asObject(fields.client_tool_call);
        const result = callTool(this.config.tools, call?.tool_name, call?.parameters, sink);
        const answer = { type: 'client_tool_result', tool_call_id: call?.tool_call_id, result, is_error: false };
        sink.send(JSON.stringify(answer));
        return;
      }
      case 'error': {
        const code = errorCode(asObject(fields.error_event)?.error_type);
        sink.garbage('provider_error', `The provider reported ${code}.`);
      }
    }
  }

  dtmf(digits: string): AgentMessage[] {
    return [JSON.stringify({ type: 'user_message', text: keysAsText(digits) })];
  }

  override closed(code: number) {
    return code === 1000 || code === 1005 ? 'hangup' : 'failed';
  }

  #formats(event: JsonObject | null, sink: Sink): void {
    const input = formatOf(event?.user_input_audio_format);
    const output = formatOf(event?.agent_output_audio_format);
    if (input === null || output === null) {
      const message = 'The agent is set to an audio format other than ulaw_8000 or PCM at 8, 16, 24 or 48 kHz.';
      sink.fail(new AgentFailure('protocol', message, false));
      return;
    }
    this.format = input;
    this.replyFormat = output;
    sink.ready();
  }

  /** The agent's text after an interruption, for an agent that takes over. The record has the text that was heard. */
  #corrected(text: string | null): void {
    const last = this.history.findLast(({ speaker }) => speaker === 'agent');
    if (last !== undefined && text !== null) last.text = text;
  }

  #heard(event: JsonObject | null, sink: Sink): void {
    const bytes = typeof event?.audio_base_64 === 'string' ? base64Bytes(event.audio_base_64) : null;
    const id = eventId(event);
    if (bytes === null) sink.garbage('bad_audio', 'The agent sent audio that is not base64.');
    else if (bytes.length > 0 && id > this.#flushedUpTo) sink.audio(bytes, String(id), alignment(event));
  }
}

/** The times at which the characters end in the audio. */
function alignment(event: JsonObject | null): AlignedText[] | undefined {
  const aligned = asObject(event?.alignment);
  const { chars, char_start_times_ms: starts, char_durations_ms: durations } = aligned ?? {};
  if (!Array.isArray(chars) || !Array.isArray(starts) || !Array.isArray(durations)) return undefined;
  return chars.flatMap((text: unknown, i) => {
    const endMs = Number(starts[i]) + Number(durations[i]);
    return typeof text === 'string' && text.length <= 16 && endMs >= 0 ? [{ text, endMs }] : [];
  });
}

/** Ids count up; an event without an id counts as the newest. */
function eventId(event: JsonObject | null): number {
  return typeof event?.event_id === 'number' ? event.event_id : Number.MAX_SAFE_INTEGER;
}

function formatOf(name: unknown): AudioFormat | null {
  if (name === 'ulaw_8000') return { encoding: 'ulaw', sampleRateHz: 8000 };
  const rate = Number(/^pcm_(\d+)$/.exec(String(name ?? 'pcm_16000'))?.[1]);
  return rate === 8000 || rate === 16000 || rate === 24000 || rate === 48000
    ? { encoding: 'l16', sampleRateHz: rate }
    : null;
}
