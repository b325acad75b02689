import { HttpError, type SafeHttp } from '../../net/http.js';
import { SpeechStream } from './speech-stream.js';
import { isPlayable, pcmStartOf } from './wav-stream.js';

/** A speech server with OpenAI's interface (`POST /v1/audio/speech`). */
export interface SpeechServerSettings {
  url: string;
  key: string | null;
  model: string;
}

/** The reason why the speech server failed, as one sentence. */
export class SpeechServerError extends Error {}

/** Until the first byte; short, because a caller waits for the speech. */
const timeoutMs = 4000;
/** Within the speech. */
const silenceMs = 2500;
const maxFileBytes = 16 * 1024 * 1024;
/** The number of consecutive failures that opens the circuit. */
const mostFailures = 3;
const restMs = 15_000;

/**
 * A speech server with a circuit breaker, whose speech is played while it arrives. After some consecutive failures requests fail at once, and pending ones too. Later, one text
 * that the offline voice speaks is also sent to the server, to probe whether it responds again.
 */
export class SpeechServer {
  #failures = 0;
  #restsUntilMs = 0;
  #trying = false;
  readonly #asked = new Set<AbortController>();
  /** What brings each voice to the common level. */
  readonly #gains = new Map<string | null, number>();

  constructor(
    private readonly settings: SpeechServerSettings,
    private readonly http: SafeHttp,
    private readonly now: () => number,
  ) {}

  /**
   * The server's speech from its first sound on, while the rest still comes; a file that cannot be decoded in parts is given to `decode` when
   * it is complete. Rejects with `SpeechServerError`, at once while the circuit is open, else when four seconds pass before the first byte or
   * two and a half within the speech. Audio that `decode` rejects counts as a failure. `signal`: nobody wants it any more.
   */
  async speak<T>(
    text: string,
    voice: string | null,
    decode: (file: Uint8Array) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T | SpeechStream> {
    if (this.#failures < mostFailures) return this.#ask(text, voice, decode, signal);
    if (!this.#trying && this.now() >= this.#restsUntilMs) {
      this.#trying = true;
      this.#ask(text, voice, decode, null)
        .then((spoken) => (spoken instanceof SpeechStream ? spoken.ended : null))
        .catch(() => {}) // the circuit stays open
        .finally(() => {
          this.#trying = false;
        });
    }
    throw new SpeechServerError(`The speech server is not asked, for it failed ${mostFailures} times in a row.`);
  }

  async #ask<T>(
    text: string,
    voice: string | null,
    decode: (file: Uint8Array) => Promise<T>,
    signal: AbortSignal | null,
  ): Promise<T | SpeechStream> {
    const stop = new AbortController();
    const onAbort = () => stop.abort();
    signal?.addEventListener('abort', onAbort, { once: true });
    if (signal?.aborted) stop.abort();
    this.#asked.add(stop);
    const incoming = new IncomingSpeech(this.#gains.get(voice) ?? null);
    const received = this.#receive(text, voice, incoming, decode, stop).finally(() => {
      this.#asked.delete(stop);
      signal?.removeEventListener('abort', onAbort);
    });
    void incoming.begun.then(() => this.#asked.delete(stop)); // what is being heard is not a pending request
    return Promise.race([received, incoming.begun]);
  }

  /** Resolves when all of it is there. A failure within the speech is the end of the stream. */
  async #receive<T>(
    text: string,
    voice: string | null,
    incoming: IncomingSpeech,
    decode: (file: Uint8Array) => Promise<T>,
    stop: AbortController,
  ): Promise<T | SpeechStream> {
    try {
      const body = await this.#request(text, voice, incoming, stop.signal);
      const { stream } = incoming;
      stream?.finish(null);
      if (stream !== null && !stream.hasSound)
        throw new SpeechServerError('The speech server answered no usable audio.');
      const spoken = stream ?? (await decode(body.length > 0 ? body : incoming.file));
      this.#failures = 0;
      const gain = stream?.measuredGain ?? null;
      if (gain !== null) this.#gains.set(voice, gain);
      return spoken;
    } catch (error) {
      // A refusal that concerns only this text or voice does not count for the next one.
      if (!(error instanceof Refused) && !stop.signal.aborted) this.#failed();
      const failure = sentenceOf(error);
      incoming.stream?.finish(failure.message);
      if (incoming.stream?.hasSound) return incoming.stream;
      throw failure;
    }
  }

  #failed(): void {
    this.#failures += 1;
    if (this.#failures < mostFailures) return;
    this.#restsUntilMs = this.now() + restMs;
    for (const stop of this.#asked) stop.abort();
  }

  async #request(
    text: string,
    voice: string | null,
    incoming: IncomingSpeech,
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    const { url, key, model } = this.settings;
    const { status, body } = await this.http.request(
      {
        url: new URL('v1/audio/speech', url.endsWith('/') ? url : `${url}/`).href,
        method: 'POST',
        headers: { 'content-type': 'application/json', ...(key !== null && { authorization: `Bearer ${key}` }) },
        body: JSON.stringify({ model, input: text, voice: voice ?? 'alloy', response_format: 'wav' }),
        timeoutMs,
        maxBodyBytes: maxFileBytes,
        parts: { silenceMs, each: (part, headers) => incoming.take(part, headers['content-type'] ?? '') },
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

/** An answer while it arrives: a stream when its beginning says how to read it, else a file. */
class IncomingSpeech {
  stream: SpeechStream | null = null;
  /** Resolves with the stream when it has sound. */
  readonly begun: Promise<SpeechStream>;
  #begin!: (stream: SpeechStream) => void;
  readonly #parts: Uint8Array[] = [];
  #isFile = false;

  constructor(private readonly gain: number | null) {
    this.begun = new Promise((resolve) => {
      this.#begin = resolve;
    });
  }

  get file(): Uint8Array {
    return Buffer.concat(this.#parts);
  }

  take(part: Uint8Array, contentType: string): void {
    if (this.stream !== null) {
      this.stream.take(part);
      return;
    }
    this.#parts.push(part);
    if (this.#isFile) return;
    const { file } = this;
    const start = pcmStartOf(file, contentType);
    if (start === undefined) return;
    if (start === null || !isPlayable(start.sampleRateHz) || start.channelCount > 2) {
      this.#isFile = true;
      return;
    }
    const stream = new SpeechStream(start, this.gain);
    this.stream = stream;
    void stream.begun.then(() => this.#begin(stream));
    stream.take(file.subarray(start.offset));
    this.#parts.length = 0;
  }
}

function sentenceOf(error: unknown): SpeechServerError {
  if (error instanceof SpeechServerError) return error;
  if (!(error instanceof HttpError)) return new SpeechServerError('The speech server answered no usable audio.');
  if (error.code === 'aborted')
    return new SpeechServerError(`The speech server failed ${mostFailures} times in a row.`);
  return new SpeechServerError(`The speech server failed: ${error.message}`);
}
