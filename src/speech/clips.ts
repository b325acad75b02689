import { createHash } from 'node:crypto';
import { HttpError, type SafeHttp } from '../../net/http.js';
import { type FliteVoice, fliteVoices } from './flite.js';
import type { SpeechThread } from './speech-thread.js';

/** A speech server with OpenAI's interface (`POST /v1/audio/speech`). */
export interface SpeechServer {
  url: string;
  key: string | null;
  model: string;
}

export interface ClipsOptions {
  thread: SpeechThread;
  /** For addresses that customers name. */
  http: SafeHttp;
  /** For the speech server, which the operator names: it may be a private one. */
  operatorHttp: SafeHttp;
  speechServer: SpeechServer | null;
  now?: () => number;
}

/** Why there is no audio; one sentence. */
export class ClipError extends Error {}

const keptBytes = 64 * 1024 * 1024;
const maxFileBytes = 16 * 1024 * 1024;
const timeoutMs = 10_000;
const maxRedirects = 3;
const defaultMaxAgeSec = 60;
const defaultVoice: FliteVoice = 'slt';

interface Kept {
  clip: Promise<SharedArrayBuffer>;
  /** 0 while it is made. */
  bytes: number;
  /** When it is asked for anew. */
  staleAtMs: number;
}

/** Audio for calls: spoken texts and fetched files, made once and shared by all. The least recently used ones go first. */
export class Clips {
  private readonly kept = new Map<string, Kept>();
  private readonly now: () => number;

  constructor(private readonly options: ClipsOptions) {
    this.now = options.now ?? Date.now;
  }

  /** Something may be asked for soon. */
  warm(): void {
    this.options.thread.start();
  }

  /** The text as speech. `voice` is a name of the speech server, or of the offline voice; one that is unknown there is the default. */
  say(text: string, voice: string | null, language: string | null): Promise<SharedArrayBuffer> {
    const key = `say ${createHash('sha256')
      .update(JSON.stringify([text, voice, language]))
      .digest('base64')}`;
    return this.keep(key, async () => {
      const { thread, speechServer } = this.options;
      if (speechServer === null)
        return { clip: await thread.make({ kind: 'say', text, voice: offlineVoice(voice) }), maxAgeSec: Infinity };
      const bytes = await this.fromServer(speechServer, text, voice);
      return { clip: await thread.make({ kind: 'decode', bytes }), maxAgeSec: Infinity };
    });
  }

  /** An audio file: wav, mp3, ogg/opus, flac and others. Kept as long as its server says, a minute otherwise. */
  fetch(url: string): Promise<SharedArrayBuffer> {
    return this.keep(`play ${url}`, async () => {
      const { status, body, headers } = await this.options.http.request({
        url,
        method: 'GET',
        timeoutMs,
        maxBodyBytes: maxFileBytes,
        maxRedirects,
      });
      if (status !== 200) throw new ClipError(`The audio file's server answered ${status}.`);
      const clip = await this.options.thread.make({ kind: 'decode', bytes: new Uint8Array(body) });
      return { clip, maxAgeSec: maxAgeSec(headers['cache-control']) };
    });
  }

  private async fromServer({ url, key, model }: SpeechServer, text: string, voice: string | null): Promise<Uint8Array> {
    const { status, body } = await this.options.operatorHttp.request({
      url: new URL('v1/audio/speech', url.endsWith('/') ? url : `${url}/`).href,
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(key !== null && { authorization: `Bearer ${key}` }) },
      body: JSON.stringify({ model, input: text, voice: voice ?? 'alloy', response_format: 'wav' }),
      timeoutMs,
      maxBodyBytes: maxFileBytes,
    });
    if (status !== 200) throw new ClipError(`The speech server answered ${status}.`);
    return new Uint8Array(body);
  }

  /** Those who ask at the same time wait for the same; what failed is not kept. */
  private async keep(
    key: string,
    make: () => Promise<{ clip: SharedArrayBuffer; maxAgeSec: number }>,
  ): Promise<SharedArrayBuffer> {
    const found = this.kept.get(key);
    if (found !== undefined && found.staleAtMs > this.now()) {
      this.kept.delete(key);
      this.kept.set(key, found); // the most recently used is last
      return found.clip;
    }
    const making = make().catch((error: unknown) => {
      if (this.kept.get(key) === kept) this.kept.delete(key);
      throw error instanceof HttpError || error instanceof ClipError
        ? new ClipError(error.message)
        : new ClipError(`The audio cannot be used: ${(error as Error).message}`);
    });
    const clip = making.then((made) => made.clip);
    clip.catch(() => {}); // told to those who wait, of whom there may be none
    const kept: Kept = { clip, bytes: 0, staleAtMs: Number.POSITIVE_INFINITY };
    this.kept.set(key, kept);
    const { maxAgeSec } = await making;
    kept.bytes = (await clip).byteLength;
    kept.staleAtMs = this.now() + maxAgeSec * 1000;
    this.makeRoom();
    return clip;
  }

  private makeRoom(): void {
    let bytes = [...this.kept.values()].reduce((sum, kept) => sum + kept.bytes, 0);
    for (const [key, kept] of this.kept) {
      if (bytes <= keptBytes) return;
      if (kept.bytes === 0) continue; // somebody waits for it
      bytes -= kept.bytes;
      this.kept.delete(key);
    }
  }
}

/** Names of other services end in a voice of ours, so that a script speaks all the same. */
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
