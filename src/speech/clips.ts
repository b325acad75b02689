import { createHash } from 'node:crypto';
import { writeWav } from '../../media/audio/wav.js';
import { HttpError, type SafeHttp } from '../../net/http.js';
import { type FliteVoice, fliteVoices } from './flite.js';
import { quickVoice, type SpeechWarning } from './offline-voice.js';
import type { SpeechJob, SpeechPool } from './speech-pool.js';
import { SpeechServer, SpeechServerError, type SpeechServerSettings } from './speech-server.js';
import { SpeechStream } from './speech-stream.js';
import type { MadeClip } from './speech-thread.js';

export interface ClipsOptions {
  /** Synthesizes speech. */
  speech: SpeechPool;
  /** Decodes audio files of customers; separate, so that a long file does not delay speech. */
  files: SpeechPool;
  /** For URLs given by customers. */
  http: SafeHttp;
  /** For the speech server, which the operator configures and which may have a private address. */
  operatorHttp: SafeHttp;
  speechServer: SpeechServerSettings | null;
  now?: () => number;
}

/** The reason why there is no audio, as one sentence. */
export class ClipError extends Error {}

export interface SpeechRequest {
  text: string;
  /** The name of a voice of the speech server or of the offline voice; an unknown name selects the default. */
  voice: string | null;
  /** BCP 47, such as `de-AT`. */
  language: string | null;
  /** When a caller starts to wait for it, by `performance.now()`. */
  dueAtMs: number;
  /** For a phone with G.722 or Opus: 16 bit samples at 16 kHz instead of G.711 μ-law. */
  isWide?: boolean;
}

export interface SpokenClip {
  /** A stream is still being received. null if there is nothing to play; a warning says why. */
  clip: SharedArrayBuffer | SpeechStream | null;
  /** The differences from the request. */
  warnings: SpeechWarning[];
  /** The voice for the other parts of the text. */
  voice: string | null;
}

const keptBytes = 64 * 1024 * 1024;
const maxFileBytes = 16 * 1024 * 1024;
/** The limit for fetching an audio file, while a caller waits for it. */
const timeoutMs = 6000;
const maxRedirects = 3;
const defaultMaxAgeSec = 60;
/** When the clip of a text that was just received is needed at the latest. */
const conversionDueMs = 2000;
const defaultVoice: FliteVoice = 'slt';

type Sound = Omit<MadeClip, 'clip'> & { clip: SharedArrayBuffer | SpeechStream | null };

interface Kept {
  made: Promise<Sound>;
  /** 0 while the clip is being made. */
  bytes: number;
  /** When the clip must be made again. */
  staleAtMs: number;
  /** Those who want it; when the last of them leaves, its request is aborted. */
  wanted: Wanted;
}

/** Counts those who want something that is being made. */
class Wanted {
  readonly #over = new AbortController();
  readonly #left: (() => void)[] = [];
  #count = 0;
  #isDone = false;

  get signal(): AbortSignal {
    return this.#over.signal;
  }

  /** `signal` null: made ahead of time, for the first who comes with a signal. */
  by(signal: AbortSignal | null): void {
    if (signal === null || this.#isDone) return;
    this.#count += 1;
    const leave = () => {
      this.#count -= 1;
      if (this.#count === 0) this.#over.abort();
    };
    if (signal.aborted) leave();
    else {
      signal.addEventListener('abort', leave, { once: true });
      this.#left.push(() => signal.removeEventListener('abort', leave));
    }
  }

  /** It is made. */
  done(): void {
    this.#isDone = true;
    for (const forget of this.#left.splice(0)) forget();
  }
}

/** Audio for calls: spoken texts and fetched files, made once and shared by all. The least recently used ones go first. */
export class Clips {
  private readonly kept = new Map<string, Kept>();
  /** Jobs of the offline voice, by the keys of `kept`. */
  private readonly jobs = new Map<string, SpeechJob>();
  private readonly server: SpeechServer | null;
  private readonly now: () => number;

  constructor(private readonly options: ClipsOptions) {
    this.now = options.now ?? Date.now;
    const { speechServer, operatorHttp } = options;
    this.server = speechServer && new SpeechServer(speechServer, operatorHttp, this.now);
  }

  /** Starts the threads ahead of the first request. */
  warm(): void {
    this.options.speech.start();
  }

  /**
   * Synthesizes the text: by the speech server, or by the offline voice if there is no server or it fails. `signal`: it is not wanted any more;
   * the server's work is then aborted, unless others want it. null: it is made ahead of time.
   */
  async say(speech: SpeechRequest, signal: AbortSignal | null = null): Promise<SpokenClip> {
    const { server } = this;
    if (server === null) return this.sayOffline(speech);
    const key = keyOf('served', speech);
    try {
      const { clip } = await this.keep(key, (wanted) => this.served(server, speech, key, wanted), signal);
      return { clip, warnings: [], voice: speech.voice };
    } catch (error) {
      signal?.throwIfAborted();
      const spoken = await this.sayOffline(speech);
      const message = `${(error as Error).message} The offline voice spoke instead.`;
      return { ...spoken, warnings: [{ code: 'speech_server_failed', message }, ...spoken.warnings] };
    }
  }

  private async served(
    server: SpeechServer,
    { text, voice, dueAtMs, isWide = false }: SpeechRequest,
    key: string,
    wanted: Wanted,
  ) {
    const decode = (bytes: Uint8Array) => this.options.speech.make({ kind: 'speech', bytes, isWide }, dueAtMs).made;
    const spoken = await server.speak(text, voice, decode, wanted.signal);
    if (!(spoken instanceof SpeechStream)) return { made: spoken, maxAgeSec: Infinity };
    void this.keepStream(key, spoken, isWide);
    return { made: { clip: spoken, warning: null }, maxAgeSec: Infinity };
  }

  /** Replaces a stream by a clip when all of it is there. A text that broke off is not kept. */
  private async keepStream(key: string, stream: SpeechStream, isWide: boolean): Promise<void> {
    const problem = await stream.ended;
    const kept = this.kept.get(key);
    if (problem !== null) {
      if (kept !== undefined && (await kept.made.catch(() => null))?.clip === stream) this.kept.delete(key);
      return;
    }
    const bytes = writeWav({ sampleRateHz: stream.format.sampleRateHz, channels: [stream.samples] });
    const later = performance.now() + conversionDueMs;
    const made = await this.options.speech.make({ kind: 'speech', bytes, isWide }, later).made.catch(() => null);
    if (made !== null && kept !== undefined && this.kept.get(key) === kept) {
      kept.made = Promise.resolve(made);
      kept.bytes = made.clip?.byteLength ?? 1;
      this.makeRoom();
    }
  }

  private async sayOffline(speech: SpeechRequest): Promise<SpokenClip> {
    const { text, language, dueAtMs, isWide = false } = speech;
    const voice = offlineVoice(speech.voice);
    const key = keyOf('offline', { ...speech, voice });
    const waiting = this.jobs.get(key);
    if (waiting !== undefined) this.options.speech.hurry(waiting, dueAtMs);
    const { clip, warning } = await this.keep(key, async () => {
      const job = this.options.speech.make({ kind: 'say', text, voice, language, hurried: false, isWide }, dueAtMs);
      this.jobs.set(key, job);
      const made = await job.made.finally(() => this.jobs.delete(key));
      return { made, maxAgeSec: made.warning?.code === 'speech_hurried' ? 0 : Infinity };
    });
    const hurried = warning?.code === 'speech_hurried';
    return { clip, warnings: warning === null ? [] : [warning], voice: hurried ? quickVoice : speech.voice };
  }

  /** An audio file: wav, mp3, ogg/opus, flac and others. Cached for the time that its server states, else for a minute. */
  async fetch(url: string, isWide = false): Promise<SharedArrayBuffer> {
    const { clip } = await this.keep(`play ${isWide} ${url}`, async () => {
      const { status, body, headers } = await this.options.http.request({
        url,
        method: 'GET',
        timeoutMs,
        maxBodyBytes: maxFileBytes,
        maxRedirects,
      });
      if (status !== 200) throw new ClipError(`The audio file's server answered ${status}.`);
      const { made } = this.options.files.make(
        { kind: 'file', bytes: new Uint8Array(body), isWide },
        performance.now(),
      );
      return { made: await made, maxAgeSec: maxAgeSec(headers['cache-control']) };
    });
    return clip as SharedArrayBuffer; // a file either fails or gives a clip
  }

  /** Concurrent requests for the same clip share one promise; failures are not cached. */
  private async keep(
    key: string,
    make: (wanted: Wanted) => Promise<{ made: Sound; maxAgeSec: number }>,
    signal: AbortSignal | null = null,
  ): Promise<Sound> {
    const found = this.kept.get(key);
    if (found !== undefined && found.staleAtMs > this.now() && !found.wanted.signal.aborted) {
      this.kept.delete(key);
      this.kept.set(key, found); // the most recently used is last
      found.wanted.by(signal);
      return found.made;
    }
    const wanted = new Wanted();
    wanted.by(signal);
    const making = make(wanted).catch((error: unknown) => {
      if (this.kept.get(key) === kept) this.kept.delete(key);
      wanted.done();
      throw error instanceof HttpError || error instanceof ClipError || error instanceof SpeechServerError
        ? new ClipError(error.message)
        : new ClipError(`The audio cannot be used: ${(error as Error).message}`);
    });
    const made = making.then((all) => all.made);
    made.catch(() => {}); // prevents an unhandled rejection if there is no waiter
    const kept: Kept = { made, bytes: 0, staleAtMs: Number.POSITIVE_INFINITY, wanted };
    this.kept.set(key, kept);
    const { maxAgeSec } = await making;
    const { clip } = await made;
    if (clip instanceof SpeechStream) void clip.ended.then(() => wanted.done());
    else {
      wanted.done();
      kept.bytes = clip?.byteLength ?? 1;
    }
    kept.staleAtMs = this.now() + maxAgeSec * 1000;
    this.makeRoom();
    return made;
  }

  private makeRoom(): void {
    let bytes = [...this.kept.values()].reduce((sum, kept) => sum + kept.bytes, 0);
    for (const [key, kept] of this.kept) {
      if (bytes <= keptBytes) return;
      if (kept.bytes === 0) continue; // a caller waits for it
      bytes -= kept.bytes;
      this.kept.delete(key);
    }
  }
}

function keyOf(kind: string, { text, voice, language, isWide = false }: SpeechRequest): string {
  return `${kind} ${createHash('sha256')
    .update(JSON.stringify([text, voice, language, isWide]))
    .digest('base64')}`;
}

/** Maps voice names of other services to an offline voice, so that their scripts work. */
function offlineVoice(name: string | null): FliteVoice {
  const known = fliteVoices.find((voice) => voice === name?.toLowerCase());
  if (known !== undefined) return known;
  return /^(man|polly\.(matthew|joey|brian|russell))/i.test(name ?? '') ? 'rms' : defaultVoice;
}

function maxAgeSec(cacheControl: string | undefined): number {
  if (cacheControl === undefined) return defaultMaxAgeSec;
  if (/\bno-(store|cache)\b/i.test(cacheControl)) return 0;
  const seconds = /\bmax-age=(\d+)/i.exec(cacheControl)?.[1];
  return seconds === undefined ? defaultMaxAgeSec : Math.min(Number(seconds), 86_400);
}
