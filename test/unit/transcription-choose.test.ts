import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { chooseTranscription } from '../../src/transcription/choose.js';

const module = new URL('../fixtures/recognition-worker.mjs', import.meta.url);
const never = new AbortController().signal;

function settingsWith(change: { transcriptionUrl?: string; translationUrl?: string } = {}) {
  const dataDir = mkdtempSync(path.join(tmpdir(), 'trunkline-choose-'));
  onTestFinished(() => rmSync(dataDir, { recursive: true }));
  return {
    ...{ dataDir, transcriptionUrl: null, transcriptionKey: null, transcriptionModel: 'm' },
    ...{ translationUrl: null, translationKey: null, translationModel: 't', ...change },
  };
}

function install(dataDir: string): void {
  mkdirSync(path.join(dataDir, 'speech'));
  const manifest = { engine: 'wasm', model: 'tiny', packages: [], files: [] };
  writeFileSync(path.join(dataDir, 'speech', 'installed.json'), JSON.stringify(manifest));
}

it('uses the offline recognition as soon as it is installed, with one engine from then on', async () => {
  const settings = settingsWith();
  const chosen = chooseTranscription(settings, { cores: 2, module });
  onTestFinished(() => chosen.close());
  expect([chosen.transcription, chosen.translation]).toEqual([null, null]);
  install(settings.dataDir);
  const engine = chosen.transcription;
  expect(await engine?.transcribe({ path: 'a', format: 'wav' }, never)).toEqual({ text: 'a wav wasm', model: 'tiny' });
  expect(chosen.transcription).toBe(engine);
});

it('prefers a server, for translations too', async () => {
  const settings = settingsWith({ transcriptionUrl: 'http://127.0.0.1:1/v1' });
  install(settings.dataDir);
  const chosen = chooseTranscription(settings, { cores: 2, module });
  expect(chosen.transcription).toBe(chosen.translation);
  await expect(chosen.transcription?.transcribe({ path: import.meta.filename, format: 'wav' }, never)).rejects.toThrow(
    'The transcription engine gave no usable answer',
  );
});
