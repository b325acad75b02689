import type { Settings } from '../../config/settings.js';
import { openAiEngine, type TranscriptionEngine, type Translator } from './engine.js';
import { offlineEngine } from './offline/offline-engine.js';
import { installedSpeech } from './offline/setup.js';

type SpeechSettings = Pick<
  Settings,
  | 'dataDir'
  | 'transcriptionUrl'
  | 'transcriptionKey'
  | 'transcriptionModel'
  | 'translationUrl'
  | 'translationKey'
  | 'translationModel'
>;

export interface ChosenTranscription {
  /** null: neither a server is configured nor the offline recognition installed. */
  transcription: TranscriptionEngine | null;
  /** null: no server is configured. */
  translation: Translator | null;
  close(): Promise<void>;
}

/** A configured server wins over the offline recognition. */
export function chooseTranscription(settings: SpeechSettings): ChosenTranscription {
  const { transcriptionModel: model, translationModel } = settings;
  const server = (url: string | null, key: string | null) =>
    url === null ? null : openAiEngine({ url, key, model, translationModel });
  const transcribing = server(settings.transcriptionUrl, settings.transcriptionKey);
  const translation = server(settings.translationUrl, settings.translationKey) ?? transcribing;
  const installed = transcribing === null ? installedSpeech(settings.dataDir) : null;
  const offline = installed && offlineEngine(settings.dataDir, installed);
  return {
    transcription: transcribing ?? offline,
    translation,
    close: async () => offline?.close(),
  };
}
