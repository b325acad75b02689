import type { Settings } from '../../config/settings.js';
import { openAiEngine, type TranscriptionEngine, type Translator } from './engine.js';
import { type OfflineEngine, offlineEngine } from './offline/offline-engine.js';
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
  /** null: neither a server is configured nor the offline recognition installed, until now. */
  readonly transcription: TranscriptionEngine | null;
  /** null: no server is configured. */
  translation: Translator | null;
  close(): Promise<void>;
}

/** A configured server wins over the offline recognition, which is looked for again until it is there. */
export function chooseTranscription(
  settings: SpeechSettings,
  options: Parameters<typeof offlineEngine>[2] = {},
): ChosenTranscription {
  const { transcriptionModel: model, translationModel } = settings;
  const server = (url: string | null, key: string | null) =>
    url === null ? null : openAiEngine({ url, key, model, translationModel });
  const transcribing = server(settings.transcriptionUrl, settings.transcriptionKey);
  const translation = server(settings.translationUrl, settings.translationKey) ?? transcribing;
  let offline: OfflineEngine | null = null;
  const installedEngine = () => {
    const installed = offline === null ? installedSpeech(settings.dataDir) : null;
    if (installed !== null) offline = offlineEngine(settings.dataDir, installed, options);
    return offline;
  };
  return {
    get transcription() {
      return transcribing ?? installedEngine();
    },
    translation,
    close: async () => offline?.close(),
  };
}
