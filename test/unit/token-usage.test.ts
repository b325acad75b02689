/** What providers count, from their own messages and from hostile ones. */
import { expect, it } from 'vitest';
import { geminiTokens, novaTokens, openaiTokens } from '../../media/agents/token-usage.js';

it('OpenAI: totals, kinds and what was cached', () => {
  const usage = {
    ...{ total_tokens: 250, input_tokens: 200, output_tokens: 50 },
    input_token_details: { text_tokens: 120, audio_tokens: 80, cached_tokens: 64, cached_tokens_details: {} },
    output_token_details: { text_tokens: 10, audio_tokens: 40 },
  };
  expect(openaiTokens(usage)).toEqual({
    ...{ input: 200, inputText: 120, inputAudio: 80, cached: 64 },
    ...{ output: 50, outputText: 10, outputAudio: 40 },
  });
  expect(openaiTokens({ input_tokens: 7, output_tokens: 0 })).toEqual({ input: 7, output: 0 });
});

it('Gemini: tools count as input, thoughts as output', () => {
  const usageMetadata = {
    ...{ promptTokenCount: 200, toolUsePromptTokenCount: 30, responseTokenCount: 50, thoughtsTokenCount: 6 },
    promptTokensDetails: [
      { modality: 'AUDIO', tokenCount: 70 },
      { modality: 'AUDIO', tokenCount: 10 },
      { modality: 'TEXT', tokenCount: 120 },
      null,
    ],
    responseTokensDetails: [{ modality: 'AUDIO', tokenCount: 50 }],
  };
  expect(geminiTokens(usageMetadata)).toEqual({
    ...{ input: 230, inputText: 120, inputAudio: 80, output: 56, outputAudio: 50, thoughts: 6 },
  });
  expect(geminiTokens({ totalTokenCount: 3 })).toBeNull();
});

it('Nova Sonic: what came since the last event, not its totals', () => {
  const side = (speechTokens: number, textTokens: number) => ({ speechTokens, textTokens });
  const details = {
    delta: { input: side(0, 22), output: side(5, 6) },
    total: { input: side(80, 900), output: side(50, 60) },
  };
  expect(novaTokens({ details, totalInputTokens: 980 })).toEqual({
    ...{ input: 22, inputText: 22, inputAudio: 0, output: 11, outputText: 6, outputAudio: 5 },
  });
  expect(novaTokens({ totalInputTokens: 980 })).toBeNull();
});

it.each([
  undefined,
  null,
  7,
  'x',
  [],
  {},
  { input_tokens: -1, promptTokenCount: 1.5 },
  { input_tokens: 1e300 },
  { input_tokens: '5' },
])('nothing of %j', (hostile) => {
  for (const read of [openaiTokens, geminiTokens, novaTokens]) expect(read(hostile)).toBeNull();
});
