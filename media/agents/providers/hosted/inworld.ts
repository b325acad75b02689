/** Inworld Realtime: OpenAI's events at an address with a session key, a speech model beside the voice, and no truncation. */
import { randomUUID } from 'node:crypto';
import type { AgentMessage, AgentProtocol, Plain } from '../../agent.js';
import { optionalText } from '../../config-fields.js';
import { textField } from '../../config-schema.js';
import { defined, readProvider } from '../../provider.js';
import { type OpenaiConfig, OpenaiConversation, openai, readEncoding } from './openai.js';

interface InworldConfig extends OpenaiConfig {
  speechModel?: string;
}

const DEFAULTS = {
  model: 'openai/gpt-4.1-mini',
  speech_model: 'inworld-tts-2',
  transcription_model: 'inworld/inworld-stt-1',
};

const { heard: _heard, ...capabilities } = openai.capabilities;

export const inworld: AgentProtocol<InworldConfig> = {
  provider: 'inworld',
  title: 'Inworld Realtime',
  page: 'inworld.md',
  selectedBy: 'provider',
  config: { speech_model: textField(256), transcription_model: textField(256) },
  defaults: DEFAULTS,
  example: { api_key: 'k' },
  capabilities: { ...capabilities, longestSession: 'set by the service; next session with the transcript' },
  readyOn: 'message',
  knownUrl: 'wss://api.inworld.ai/api/v1/realtime/session',
  gathersDigits: true,
  transcribes: true,
  parseConfig(raw) {
    const [common, config] = readProvider(raw, 'required');
    const speechModel = optionalText(config, 'speech_model');
    const transcriptionModel = optionalText(config, 'transcription_model');
    return { ...common, encoding: readEncoding(config), speechModel, transcriptionModel };
  },
  converse: (config, target) => new InworldConversation(config, target),
};

class InworldConversation extends OpenaiConversation<InworldConfig> {
  protected override get defaultModel(): string {
    return DEFAULTS.model;
  }

  protected override address(url: URL): void {
    url.searchParams.set('key', randomUUID());
    url.searchParams.set('protocol', 'realtime');
  }

  /** The key of Inworld's portal is base64 already. */
  protected override authorization(): Record<string, string> {
    const { apiKey } = this.config;
    return apiKey === undefined ? {} : { Authorization: `Basic ${apiKey}` };
  }

  override interrupted(): AgentMessage[] {
    return [];
  }

  /** Instructions of a single response are not documented here. */
  protected override instruct(instruction: string): AgentMessage[] {
    return this.instructAsCaller(instruction);
  }

  protected override get transcription(): { [field: string]: Plain } {
    return defined({
      model: this.config.transcriptionModel ?? DEFAULTS.transcription_model,
      language: this.config.language,
    });
  }

  protected override session(): { [field: string]: Plain } {
    const session = super.session();
    const audio = session.audio as { input: Plain; output: { [field: string]: Plain } };
    const output = { ...audio.output, model: this.config.speechModel ?? DEFAULTS.speech_model };
    return { ...session, model: this.config.model ?? this.defaultModel, audio: { ...audio, output } };
  }
}
