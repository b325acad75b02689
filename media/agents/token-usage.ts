/** Tokens of a provider's model, as the provider counts them. */
import { asObject } from './json.js';

/** `input` and `output` are all of a direction; a kind that the provider does not tell apart is absent. Of the input, `cached` cost less. */
const tokenKinds = [
  ...(['input', 'inputText', 'inputAudio', 'cached'] as const),
  ...(['output', 'outputText', 'outputAudio', 'thoughts'] as const),
] as const;

export type TokenUsage = { [kind in (typeof tokenKinds)[number]]?: number };

/** No session has as many; sums of such numbers stay exact. */
const mostTokens = 1e12;

/** The numbers among these fields of a provider's message; null without one. */
export function tokensOf(fields: { [kind in keyof TokenUsage]: unknown }): TokenUsage | null {
  const counted = tokenKinds.flatMap((kind) => {
    const count = fields[kind];
    const isCount = typeof count === 'number' && Number.isInteger(count) && count >= 0 && count <= mostTokens;
    return isCount ? [[kind, count]] : [];
  });
  return counted.length === 0 ? null : Object.fromEntries(counted);
}

/** `usage` of OpenAI's `response.done`: of one response, with what it read of the conversation so far. */
export function openaiTokens(usage: unknown): TokenUsage | null {
  const all = asObject(usage);
  const input = asObject(all?.input_token_details);
  const output = asObject(all?.output_token_details);
  return tokensOf({
    ...{ input: all?.input_tokens, inputText: input?.text_tokens, inputAudio: input?.audio_tokens },
    ...{ cached: input?.cached_tokens, output: all?.output_tokens },
    ...{ outputText: output?.text_tokens, outputAudio: output?.audio_tokens },
  });
}

/** `usageMetadata` of Gemini Live: of one answer. What tools brought counts as input, thoughts as output. */
export function geminiTokens(usageMetadata: unknown): TokenUsage | null {
  const all = asObject(usageMetadata);
  if (all === null) return null;
  const input = byModality(all.promptTokensDetails);
  const output = byModality(all.responseTokensDetails);
  return tokensOf({
    ...{ input: sumOf(all.promptTokenCount, all.toolUsePromptTokenCount), cached: all.cachedContentTokenCount },
    ...{ inputText: input('TEXT'), inputAudio: input('AUDIO') },
    ...{ output: sumOf(all.responseTokenCount, all.thoughtsTokenCount), thoughts: all.thoughtsTokenCount },
    ...{ outputText: output('TEXT'), outputAudio: output('AUDIO') },
  });
}

/** `usageEvent` of Amazon Nova Sonic: what was used since the last one. */
export function novaTokens(usageEvent: unknown): TokenUsage | null {
  const delta = asObject(asObject(asObject(usageEvent)?.details)?.delta);
  const input = asObject(delta?.input);
  const output = asObject(delta?.output);
  return tokensOf({
    ...{ input: sumOf(input?.textTokens, input?.speechTokens) },
    ...{ inputText: input?.textTokens, inputAudio: input?.speechTokens },
    ...{ output: sumOf(output?.textTokens, output?.speechTokens) },
    ...{ outputText: output?.textTokens, outputAudio: output?.speechTokens },
  });
}

function byModality(details: unknown): (modality: string) => unknown {
  const all = Array.isArray(details) ? details.map(asObject) : [];
  return (wanted) => sumOf(...all.filter((each) => each?.modality === wanted).map((each) => each?.tokenCount));
}

/** Of those that are numbers; undefined when none is. */
function sumOf(...counts: unknown[]): number | undefined {
  const numbers = counts.filter((count) => typeof count === 'number');
  return numbers.length === 0 ? undefined : numbers.reduce((sum, count) => sum + count, 0);
}
