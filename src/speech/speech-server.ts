import { HttpError, type SafeHttp } from '../../net/http.js';

/** A speech server with OpenAI's interface (`POST /v1/audio/speech`). */
export interface SpeechServerSettings {
  url: string;
  key: string | null;
  model: string;
}

/** The reason why the speech server failed, as one sentence. */
export class SpeechServerError extends Error {}

/** Short, because a caller waits for the speech. */
const timeoutMs = 4000;
const maxFileBytes = 16 * 1024 * 1024;
/** The number of consecutive failures that opens the circuit. */
const mostFailures = 3;
const restMs = 15_000;

/**
 * A speech server with a circuit breaker. After some consecutive failures requests fail at once, and pending ones too. Later, one text
 * that the offline voice speaks is also sent to the server, to probe whether it responds again.
 */
export class SpeechServer {
  #failures = 0;
  #restsUntilMs = 0;
  #trying = false;
  readonly #asked = new Set<AbortController>();

  constructor(
    private readonly settings: SpeechServerSettings,
    private readonly http: SafeHttp,
    private readonly now: () => number,
  ) {}

  /**
   * The result of `use` for the server's audio. Rejects with `SpeechServerError` within four seconds, or at once while the circuit is open.
   * Audio that `use` rejects counts as a failure.
   */
  async speak<T>(text: string, voice: string | null, use: (bytes: Uint8Array) => Promise<T>): Promise<T> {
    if (this.#failures < mostFailures) return this.#ask(text, voice, use);
    if (!this.#trying && this.now() >= this.#restsUntilMs) {
      this.#trying = true;
      this.#ask(text, voice, use)
        .catch(() => {}) // the circuit stays open
        .finally(() => {
          this.#trying = false;
        });
    }
    throw new SpeechServerError(`The speech server is not asked, for it failed ${mostFailures} times in a row.`);
  }

  async #ask<T>(text: string, voice: string | null, use: (bytes: Uint8Array) => Promise<T>): Promise<T> {
    const stop = new AbortController();
    this.#asked.add(stop);
    try {
      const used = await use(await this.#request(text, voice, stop.signal));
      this.#failures = 0;
      return used;
    } catch (error) {
      // A refusal that concerns only this text or voice does not count for the next one.
      if (!(error instanceof Refused) && !stop.signal.aborted) this.#failed();
      throw sentenceOf(error);
    } finally {
      this.#asked.delete(stop);
    }
  }

  #failed(): void {
    this.#failures += 1;
    if (this.#failures < mostFailures) return;
    this.#restsUntilMs = this.now() + restMs;
    for (const stop of this.#asked) stop.abort();
  }

  async #request(text: string, voice: string | null, signal: AbortSignal): Promise<Uint8Array> {
    const { url, key, model } = this.settings;
    const { status, body } = await this.http.request(
      {
        url: new URL('v1/audio/speech', url.endsWith('/') ? url : `${url}/`).href,
        method: 'POST',
        headers: { 'content-type': 'application/json', ...(key !== null && { authorization: `Bearer ${key}` }) },
        body: JSON.stringify({ model, input: text, voice: voice ?? 'alloy', response_format: 'wav' }),
        timeoutMs,
        maxBodyBytes: maxFileBytes,
      },
      signal,
    );
    const message = `The speech server answered ${status}.`;
    if (status >= 400 && status < 500 && status !== 429) throw new Refused(message);
    if (status !== 200) throw new SpeechServerError(message);
    return new Uint8Array(body);
  }
}

class Refused extends SpeechServerError {}

function sentenceOf(error: unknown): SpeechServerError {
  if (error instanceof SpeechServerError) return error;
  if (!(error instanceof HttpError)) return new SpeechServerError('The speech server answered no usable audio.');
  if (error.code === 'aborted')
    return new SpeechServerError(`The speech server failed ${mostFailures} times in a row.`);
  return new SpeechServerError(`The speech server failed: ${error.message}`);
}
