/** The models that stand in our code and on our pages, with the day on which their provider shuts them down, as announced on 2026-11-22. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { agentProviders } from '../../media/agents/providers/registry.js';

/** null: no day was announced. The page of a default that has one names it, so that users can set another model in time. */
const SHUT_DOWN: Readonly<Record<string, string | null>> = {
  // developers.openai.com/api/docs/deprecations
  'gpt-realtime-2.1': null,
  'gpt-realtime-whisper': null,
  // learn.microsoft.com; Azure has days of its own
  'gpt-realtime': null,
  'azure-speech': null,
  // docs.x.ai; a name that follows the newest model
  'grok-voice-latest': null,
  // ai.google.dev/gemini-api/docs/deprecations
  'gemini-3.8-live': null,
  // docs.aws.amazon.com/bedrock, model lifecycle
  'amazon.nova-2-sonic-v1:0': null,
  matthew: null,
  // Deepgram and Inworld pass them on to OpenAI
  'gpt-4o-mini': '2027-01-14',
  'openai/gpt-4.1-mini': '2027-01-14',
  'aura-2-thalia-en': null,
  'inworld-tts-2': null,
  'inworld/inworld-stt-1': null,
};

const withDefaults = [...agentProviders.values()].flatMap(({ provider, page, defaults }) =>
  defaults === undefined ? [] : [{ provider, page, names: Object.values(defaults) }],
);

test.each(withDefaults)('the page of $provider names its defaults', ({ page, names }) => {
  const text = readFileSync(path.join('docs/providers', page), 'utf8');
  expect(names.filter((name) => !text.includes(`\`${name}\``))).toEqual([]);
});

test.each(withDefaults)('the page of $provider names the day on which a default is shut down', ({ page, names }) => {
  const text = readFileSync(path.join('docs/providers', page), 'utf8');
  const days = names.flatMap((name) => SHUT_DOWN[name] ?? []);
  expect(days.filter((day) => !text.includes(day))).toEqual([]);
});

test('every default is watched here, and nothing else', () => {
  const used = new Set(withDefaults.flatMap(({ names }) => names));
  expect([...used].sort()).toEqual(Object.keys(SHUT_DOWN).sort());
});
