import { espeakLanguage, speakWithEspeak } from './espeak.js';
import { type FliteVoice, speakWithFlite } from './flite.js';

/** A difference between the request and the spoken text. `message` is a sentence for the record of the call. */
export interface SpeechWarning {
  code: 'language_not_available' | 'text_not_spoken' | 'speech_hurried' | 'speech_failed' | 'speech_server_failed';
  message: string;
}

export interface OfflineText {
  text: string;
  voice: FliteVoice;
  /** BCP 47, such as `de-AT`; null to detect the language from the script of the text. */
  language: string | null;
  /** Whether the queue is so long that the fastest voice is used. */
  hurried: boolean;
}

/** Takes a tenth of the time of the others: it joins recorded pieces, where they compute a model of a voice. */
export const quickVoice: FliteVoice = 'kal16';
const quickVoices: readonly FliteVoice[] = ['kal', 'kal16'];

/** The language to use for each script if a text names none. Han with kana is Japanese, so kana comes first. */
const scripts: readonly [name: string, letters: RegExp, language: string][] = [
  ['Cyrillic', /\p{Script=Cyrillic}/u, 'ru'],
  ['Japanese', /[\p{Script=Hiragana}\p{Script=Katakana}]/u, 'ja'],
  ['Chinese', /\p{Script=Han}/u, 'zh'],
  ['Korean', /\p{Script=Hangul}/u, 'ko'],
  ['Arabic', /\p{Script=Arabic}/u, 'ar'],
  ['Hebrew', /\p{Script=Hebrew}/u, 'he'],
  ['Greek', /\p{Script=Greek}/u, 'el'],
  ['Devanagari', /\p{Script=Devanagari}/u, 'hi'],
  ['Bengali', /\p{Script=Bengali}/u, 'bn'],
  ['Tamil', /\p{Script=Tamil}/u, 'ta'],
  ['Thai', /\p{Script=Thai}/u, 'th'],
  ['Georgian', /\p{Script=Georgian}/u, 'ka'],
  ['Armenian', /\p{Script=Armenian}/u, 'hy'],
];
/** The characters that the English voice can read. */
const readable = /[\p{Script=Latin}\p{N}]/u;
const unreadable = /(?!\p{Script=Latin})\p{L}/u;
const remedy = 'Set tts_url to a speech server, or install espeak-ng.';

/** A WAV file, or null when nothing in the text can be spoken. Blocks its thread: for workers. */
export async function speakOffline(
  wish: OfflineText,
): Promise<{ file: Uint8Array | null; warning: SpeechWarning | null }> {
  const { text, voice, hurried } = wish;
  const foreign = unreadable.test(text);
  const script = foreign ? scripts.find(([, letters]) => letters.test(text)) : undefined;
  const language = spokenLanguage(wish.language, script?.[2]);
  const named = language === null || language === 'en' ? null : espeakLanguage(language);
  if (named !== null) return { file: speakWithEspeak(text, named), warning: null };
  if (!readable.test(text)) return { file: null, warning: unspoken(foreign, script?.[0], wish.language) };
  const quick = hurried && !quickVoices.includes(voice);
  const file = await speakWithFlite(text, quick ? quickVoice : voice);
  if (foreign) return { file, warning: unspoken(true, script?.[0], wish.language) };
  if (language !== 'en') return { file, warning: readAsEnglish(language) };
  return { file, warning: quick ? hurriedWarning : null };
}

/** `en`, or another language to search a voice for; null: letters of an unknown language. */
function spokenLanguage(asked: string | null, ofScript: string | undefined): string | null {
  const isEnglish = asked === null || /^en\b/i.test(asked);
  if (!isEnglish) return asked;
  return ofScript ?? 'en';
}

const hurriedWarning: SpeechWarning = {
  code: 'speech_hurried',
  message: `Too many texts waited for the offline voice, so the faster voice ${quickVoice} spoke this one.`,
};

function readAsEnglish(language: string | null): SpeechWarning {
  return {
    code: 'language_not_available',
    message: `The offline voice speaks English only: a text in "${language}" was read as English. ${remedy}`,
  };
}

function unspoken(foreign: boolean, script: string | undefined, language: string | null): SpeechWarning {
  if (!foreign)
    return { code: 'text_not_spoken', message: 'A text has neither letters nor digits: there is nothing to speak.' };
  const letters = script === undefined ? 'letters that are not Latin' : `${script} letters`;
  const inLanguage = language === null ? '' : ` in "${language}"`;
  return {
    code: 'text_not_spoken',
    message: `The offline voice cannot speak the ${letters} of a text${inLanguage}. ${remedy}`,
  };
}
