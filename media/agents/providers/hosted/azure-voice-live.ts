/**
 * Azure Voice Live: OpenAI's Realtime events in the shape of their first version, with Azure's voices, recognition and turn detection. A
 * greeting is spoken word for word (`pre_generated_assistant_message`).
 */
import type { AgentMessage, AgentProtocol, AudioFormat, Plain } from '../../agent.js';
import { optionalText } from '../../config-fields.js';
import { textField } from '../../config-schema.js';
import { defined, readProvider } from '../../provider.js';
import { type OpenaiConfig, OpenaiConversation, openai, readEncoding } from './openai.js';

const MODEL = 'gpt-realtime';
const TRANSCRIPTION = 'azure-speech';
const API_VERSION = '2026-07-15';
const WIRE: Record<AudioFormat['encoding'], string> = { ulaw: 'g711_ulaw', alaw: 'g711_alaw', l16: 'pcm16' };
/** Voices of Azure are named by language and region; all others are OpenAI's. */
const AZURE_VOICE = /^[a-z]{2,3}-[A-Za-z]+-/;

export const azureVoiceLive: AgentProtocol<OpenaiConfig> = {
  provider: 'azure_voice_live',
  title: 'Azure Voice Live',
  page: 'azure-voice-live.md',
  selectedBy: 'provider',
  config: { transcription_model: textField(256) },
  defaults: { model: MODEL, transcription_model: TRANSCRIPTION },
  example: { api_key: 'k' },
  capabilities: { ...openai.capabilities, longestSession: 'set by the service; next session with the transcript' },
  readyOn: 'message',
  gathersDigits: true,
  transcribes: true,
  parseConfig(raw) {
    const [common, config] = readProvider(raw, 'required');
    const transcriptionModel = optionalText(config, 'transcription_model');
    return { ...common, encoding: readEncoding(config), transcriptionModel };
  },
  converse: (config, target) => new VoiceLiveConversation(config, target),
};

class VoiceLiveConversation extends OpenaiConversation {
  protected override get defaultModel(): string {
    return MODEL;
  }

  /** An agent of Azure AI Foundry, named in the address, has its model. */
  protected override address(url: URL): void {
    const { searchParams: asked } = url;
    if (!asked.has('api-version')) asked.set('api-version', API_VERSION);
    const isAgent = [...asked.keys()].some((name) => name.startsWith('agent'));
    if (!isAgent && !asked.has('model')) asked.set('model', this.config.model ?? this.defaultModel);
  }

  protected override authorization(): Record<string, string> {
    const { apiKey } = this.config;
    return apiKey === undefined ? {} : { 'api-key': apiKey };
  }

  protected override say(text: string): AgentMessage[] {
    const message = { type: 'message', role: 'assistant', content: [{ type: 'text', text }] };
    return [JSON.stringify({ type: 'response.create', response: { pre_generated_assistant_message: message } })];
  }

  protected override get agentText(): string {
    return 'text';
  }

  protected override session(): { [field: string]: Plain } {
    const { instructions, voice, tools, language, temperature, transcriptionModel } = this.config;
    const format = WIRE[this.format.encoding];
    return defined({
      modalities: ['text', 'audio'],
      instructions,
      voice:
        voice === undefined ? undefined : { type: AZURE_VOICE.test(voice) ? 'azure-standard' : 'openai', name: voice },
      input_audio_format: format,
      output_audio_format: format,
      input_audio_transcription: defined({ model: transcriptionModel ?? TRANSCRIPTION, language }),
      turn_detection: { type: 'azure_semantic_vad', create_response: true, interrupt_response: true },
      tools: tools.map((tool) => ({ type: 'function', ...tool })),
      temperature,
    });
  }
}
