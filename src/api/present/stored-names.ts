/** Field names of stored timings and turns in the API's snake_case, without parsing the JSON (ADR 9). */

export const snakeCase: Readonly<Record<string, string>> = {
  setupMs: 'setup_ms',
  postDialDelayMs: 'post_dial_delay_ms',
  answerToFirstAudioMs: 'answer_to_first_audio_ms',
  startedAt: 'started_at',
  durationMs: 'duration_ms',
  responseMs: 'response_ms',
};

/** The values of timings and turns are times, numbers and the two speakers, so a string before a colon is a name. */
export function inSnakeCase(json: string): string {
  return json.replace(/"(\w+)":/g, (_, name: string) => `"${snakeCase[name] ?? name}":`);
}
