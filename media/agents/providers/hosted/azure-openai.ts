/** Azure OpenAI: OpenAI's Realtime protocol on a resource of one's own (`/openai/v1/realtime`), where models are deployments. */
import { AgentConfigError, type AgentProtocol, type Plain } from '../../agent.js';
import { optionalText } from '../../config-fields.js';
import { textField } from '../../config-schema.js';
import { defined, readProvider } from '../../provider.js';
import { type OpenaiConfig, OpenaiConversation, openai, readEncoding } from './openai.js';

export const azureOpenai: AgentProtocol<OpenaiConfig> = {
  provider: 'azure_openai',
  title: 'Azure OpenAI',
  page: 'azure-openai.md',
  selectedBy: 'provider',
  config: { transcription_model: textField(256) },
  example: { api_key: 'k', model: 'my-realtime', transcription_model: 'my-transcribe' },
  capabilities: openai.capabilities,
  readyOn: 'message',
  gathersDigits: true,
  transcribes: ({ transcription_model: model }) => typeof model === 'string' && model !== '',
  sessionLimitMs: openai.sessionLimitMs,
  parseConfig(raw) {
    const [common, config] = readProvider(raw, 'required');
    if (common.model === undefined)
      throw new AgentConfigError('model', 'model is required: it is the name of your deployment.');
    const transcriptionModel = optionalText(config, 'transcription_model');
    return { ...common, encoding: readEncoding(config), transcriptionModel };
  },
  converse: (config, target) => new AzureOpenaiConversation(config, target),
};

class AzureOpenaiConversation extends OpenaiConversation {
  protected override authorization(): Record<string, string> {
    const { apiKey } = this.config;
    return apiKey === undefined ? {} : { 'api-key': apiKey };
  }

  /** A deployment that transcribes; without one there are no transcripts of the caller. */
  protected override get transcription(): { [field: string]: Plain } | undefined {
    const { transcriptionModel: model, language } = this.config;
    return model === undefined ? undefined : defined({ model, language });
  }
}
