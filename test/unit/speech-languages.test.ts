import { execFileSync } from 'node:child_process';
import decode from 'audio-decode';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { OfflineText } from '../../src/speech/offline-voice.js';

const path = process.env.PATH;
beforeEach(() => void vi.resetModules());
afterEach(() => {
  process.env.PATH = path;
});

async function speak(text: string, language: string | null) {
  const { speakOffline } = await import('../../src/speech/offline-voice.js');
  const wish: OfflineText = { text, voice: 'slt', language, hurried: false };
  const { file, warning } = await speakOffline(wish);
  const seconds = file === null ? 0 : ((await decode(file)).channelData[0]?.length ?? 0) / 16_000;
  return { spoken: seconds > 0.3, code: warning?.code ?? null, message: warning?.message ?? '' };
}

describe('without espeak-ng', () => {
  beforeEach(() => {
    process.env.PATH = '/nowhere';
  });

  it.each<[string, string | null, boolean, string | null, string]>([
    ['Thank you for calling.', null, true, null, ''],
    ['Thank you for calling.', 'en-GB', true, null, ''],
    [
      'Guten Tag, Sie sprechen mit der Zentrale.',
      'de-DE',
      true,
      'language_not_available',
      '"de-DE" was read as English',
    ],
    ['Buenos dias, gracias por llamar.', 'es', true, 'language_not_available', '"es" was read as English'],
    ['你好，欢迎致电。', 'zh-CN', false, 'text_not_spoken', 'the Chinese letters of a text in "zh-CN"'],
    ['Здравствуйте!', null, false, 'text_not_spoken', 'the Cyrillic letters of a text'],
    ['Press 1, или 2.', null, true, 'text_not_spoken', 'the Cyrillic letters of a text'],
    ['… !', null, false, 'text_not_spoken', 'neither letters nor digits'],
  ])('%j in %j: spoken %j, warning %j', async (text, language, spoken, code, message) => {
    const result = await speak(text, language);
    expect([result.spoken, result.code]).toEqual([spoken, code]);
    expect(result.message).toContain(message);
    if (code !== null && message !== 'neither letters nor digits')
      expect(result.message).toContain('install espeak-ng');
  });
});

const hasEspeak = (() => {
  try {
    execFileSync('espeak-ng', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
})();

describe.runIf(hasEspeak)('with espeak-ng', () => {
  it.each<[string, string | null]>([
    ['Guten Tag, Sie sprechen mit der Zentrale.', 'de-AT'],
    ['Buenos dias, gracias por llamar.', 'es-MX'],
    ['你好，欢迎致电。', 'zh-CN'],
    ['Здравствуйте, спасибо за звонок!', null],
    ['$(touch x); --help -v en', 'fr'],
  ])('%j in %j is spoken', async (text, language) => {
    expect(await speak(text, language)).toEqual({ spoken: true, code: null, message: '' });
  });

  it('a language that it does not have is read as English, with a warning', async () => {
    expect(await speak('nuqneH', 'tlx-XX')).toMatchObject({ spoken: true, code: 'language_not_available' });
  });

  it('a language that is none is never an option of the program', async () => {
    expect(await speak('Hello there', '--help')).toMatchObject({ spoken: true, code: 'language_not_available' });
  });
});
