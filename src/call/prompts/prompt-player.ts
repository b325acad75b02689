import { MessageChannel } from 'node:worker_threads';
import { MediaError, type MediaSession, type PlayEnd } from '../../../media/engine.js';
import { ClipError, type Clips, type SpokenClip } from '../../speech/clips.js';
import type { SpeechWarning } from '../../speech/offline-voice.js';
import { sentencesOf } from '../../speech/sentences.js';
import { SpeechStream } from '../../speech/speech-stream.js';
import type { PlayAction, Say } from '../../webhook/actions.js';
import { WebhookFailure } from '../../webhook/webhook-client.js';

/** Of speech, about. */
const msPerCharacter = 65;
/** Prompts that are due later are made after those that a caller already waits for. */
const laterMs = 2000;

/** Texts and files that a call plays to its phone. */
export class PromptPlayer {
  constructor(private readonly clips: Clips) {}

  /** Prepares speech synthesis, because a call that may need it begins. */
  warm(): void {
    this.clips.warm();
  }

  /** Makes the beginning of a prompt ahead of time; errors are reported when it is played. `soon`: it is played next. `session` null: not known yet. */
  prepare(session: MediaSession | null, prompt: Say | PlayAction, soon: boolean): void {
    const [first] = partsOf(prompt);
    const dueMs = performance.now() + (soon ? 0 : laterMs);
    if (first === undefined) return;
    isWideband(session)
      .then((isWide) => this.made(first, isWide, dueMs))
      .catch(() => {});
  }

  /**
   * Resolves when it was played. Rejects with the reason of `signal`, or with `WebhookFailure` when there is no file to play. A text never
   * fails: parts that cannot be spoken, or are spoken differently, are reported to `warn`, each kind once. `reached`: a
   * part of a text was heard, as a whole (1) or until it was stopped.
   */
  async speak(
    session: MediaSession,
    prompt: Say | PlayAction,
    signal: AbortSignal,
    warn: (warning: SpeechWarning) => void,
    reached: (part: string, share: number) => void = () => {},
  ): Promise<void> {
    signal.throwIfAborted();
    const parts = partsOf(prompt);
    const isWide = await isWideband(session);
    const warned = new Set<SpeechWarning['code']>();
    const warnOnce = (warning: SpeechWarning) => {
      if (!warned.has(warning.code)) warn(warning);
      warned.add(warning.code);
    };
    // One clip repeats without a gap.
    const rounds = parts.length === 1 ? 1 : prompt.loop === 0 ? Number.POSITIVE_INFINITY : prompt.loop;
    let { voice } = prompt.action === 'say' ? prompt : { voice: null };
    for (let round = 0, heard = true; round < rounds && heard; round += 1) {
      heard = false;
      for (const [index, part] of parts.entries()) {
        const made = await untilAborted(this.ready(inVoice(part, voice), isWide, warnOnce, signal), signal);
        if (made === null) continue;
        voice = made.voice;
        const next = parts[index + 1];
        const nextDueMs = performance.now() + msOf(made, part);
        if (next !== undefined) this.made(inVoice(next, voice), isWide, nextDueMs, signal).catch(() => {});
        const loop = parts.length === 1 ? prompt.loop : 1;
        await this.play(session, { ...part, loop }, made, signal, warnOnce, (playedMs) => {
          if (part.action === 'say') reached(part.text, Math.min(1, playedMs / msOf(made, part)));
        });
        heard = true;
      }
    }
  }

  /** null when there is no audio. */
  private async ready(
    part: Say | PlayAction,
    isWide: boolean,
    warn: (warning: SpeechWarning) => void,
    signal: AbortSignal,
  ): Promise<Made | null> {
    try {
      const { clip, warnings, voice } = await this.made(part, isWide, performance.now(), signal);
      for (const warning of warnings) warn(warning);
      return clip === null ? null : { clip, voice, isWide };
    } catch (error) {
      if (!(error instanceof ClipError)) throw error;
      if (part.action === 'play') throw new WebhookFailure(error.message, { where: part.action });
      warn({ code: 'speech_failed', message: `A text could not be spoken: ${error.message}` });
      return null;
    }
  }

  /** A stream is played once; what repeats it is the clip that it has become, or the stream again. */
  private async play(
    session: MediaSession,
    prompt: Say | PlayAction,
    { clip, isWide }: Made,
    signal: AbortSignal,
    warn: (warning: SpeechWarning) => void,
    played: (ms: number) => void,
  ) {
    let end: PlayEnd;
    try {
      if (clip instanceof SpeechStream) end = await this.playStream(session, clip, signal, warn);
      else end = await session.play({ kind: 'clip', clip, isWide, repeat: prompt.loop }, signal);
    } catch (error) {
      if (error instanceof MediaError && error.code === 'bad_source')
        throw new WebhookFailure(error.message, { where: prompt.action });
      throw error;
    }
    played(end.playedMs);
    signal.throwIfAborted();
    if (end.by === 'closed') throw new MediaError('closed', 'The session is closed.');
    if (!(clip instanceof SpeechStream) || prompt.loop === 1) return;
    const again = await untilAborted(this.ready(prompt, isWide, warn, signal), signal);
    const loop = prompt.loop === 0 ? 0 : prompt.loop - 1;
    if (again !== null) await this.play(session, { ...prompt, loop }, again, signal, warn, () => {});
  }

  /** What the server does not finish is left out, with a warning. */
  private async playStream(
    session: MediaSession,
    stream: SpeechStream,
    signal: AbortSignal,
    warn: (warning: SpeechWarning) => void,
  ): Promise<PlayEnd> {
    const { port1, port2 } = new MessageChannel();
    const playing = session.play({ kind: 'stream', port: port1, format: stream.format }, signal);
    stream.pour(port2);
    try {
      const end = await playing;
      const problem = end.by === 'finished' ? await stream.ended : null;
      if (problem !== null)
        warn({ code: 'speech_server_failed', message: `${problem} The rest of a sentence was not spoken.` });
      return end;
    } finally {
      port2.close();
    }
  }

  private async made(
    prompt: Say | PlayAction,
    isWide: boolean,
    dueAtMs: number,
    signal: AbortSignal | null = null,
  ): Promise<SpokenClip> {
    if (prompt.action === 'play')
      return { clip: await this.clips.fetch(prompt.url, isWide), warnings: [], voice: null };
    const { text, voice, language } = prompt;
    return this.clips.say({ text, voice, language, dueAtMs, isWide }, signal);
  }
}

interface Made {
  clip: SharedArrayBuffer | SpeechStream;
  isWide: boolean;
  voice: string | null;
}

function partsOf(prompt: Say | PlayAction): (Say | PlayAction)[] {
  return prompt.action === 'play' ? [prompt] : sentencesOf(prompt.text).map((text) => ({ ...prompt, text }));
}

function inVoice(part: Say | PlayAction, voice: string | null): Say | PlayAction {
  return part.action === 'say' ? { ...part, voice } : part;
}

/** Duration of a clip; of a stream that is still being received at least what its text takes. */
function msOf({ clip, isWide }: Made, part: Say | PlayAction): number {
  if (!(clip instanceof SpeechStream)) return clip.byteLength / (isWide ? 32 : 8);
  const estimateMs = part.action === 'say' && !clip.isOver ? part.text.length * msPerCharacter : 0;
  return Math.max(clip.receivedMs, estimateMs);
}

/** Whether the phone agreed to a codec for which 8 kHz are too few. */
async function isWideband(session: MediaSession | null): Promise<boolean> {
  const stats = await session?.stats().catch(() => null);
  return stats?.codec === 'G722' || stats?.codec === 'OPUS';
}

/** Stops waiting for the promise, which other callers may still await. */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const leave = () => reject(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
  });
}
