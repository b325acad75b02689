/** xAI Grok voice: OpenAI's Realtime events, with turn detection and voice beside the audio, and texts that are spoken word for word. */
import type { AgentMessage, AgentProtocol, Plain } from '../../agent.js';
import { defined, readProvider } from '../../provider.js';
import { type OpenaiConfig, OpenaiConversation, openai, readEncoding, WIRE } from './openai.js';

const MODEL = 'grok-voice-latest';

const { heard: _heard, ...capabilities } = openai.capabilities;

export const xai: AgentProtocol<OpenaiConfig> = {
  provider: 'xai',
  title: 'xAI Grok voice',
  page: 'xai.md',
  selectedBy: 'provider',
  config: {},
  defaults: { model: MODEL },
  example: { api_key: 'k' },
  capabilities,
  readyOn: 'message',
  knownUrl: 'wss://api.x.ai/v1/realtime',
  gathersDigits: true,
  transcribes: true,
  sessionLimitMs: openai.sessionLimitMs,
  parseConfig(raw) {
    const [common, config] = readProvider(raw, 'required');
    return { ...common, encoding: readEncoding(config) };
  },
  converse: (config, target) => new XaiConversation(config, target),
};

class XaiConversation extends OpenaiConversation {
  protected override get defaultModel(): string {
    return MODEL;
  }

  /** Interruptions are handled by the service; it does not document `conversation.item.truncate`. */
  override interrupted(): AgentMessage[] {
    return [];
  }

  /** `response.create` takes no instructions here. */
  protected override instruct(instruction: string): AgentMessage[] {
    return this.instructAsCaller(instruction);
  }

  protected override say(text: string): AgentMessage[] {
    const item = { type: 'force_message', role: 'assistant', content: [{ type: 'output_text', text }] };
    return [JSON.stringify({ type: 'conversation.item.create', item })];
  }

  protected override session(): { [field: string]: Plain } {
    const { instructions, voice, tools, language } = this.config;
    const format = WIRE[this.format.encoding];
    const transcription = language === undefined ? undefined : { language_hint: language };
    return defined({
      instructions,
      voice,
      turn_detection: { type: 'server_vad' },
      audio: { input: defined({ format, transcription }), output: { format } },
      tools: tools.map((tool) => ({ type: 'function', ...tool })),
    });
  }
}
