import { MediaError, type MediaSession, type PlayEnd } from '../../../media/engine.js';
import { ClipError, type Clips, type SpokenClip } from '../../speech/clips.js';
import type { SpeechWarning } from '../../speech/offline-voice.js';
import { sentencesOf } from '../../speech/sentences.js';
import type { PlayAction, Say } from '../../webhook/actions.js';
import { WebhookFailure } from '../../webhook/webhook-client.js';

/** Prompts that are due later are made after those that a caller already waits for. */
const laterMs = 2000;

/** Texts and files that a call plays to its phone. */
export class PromptPlayer {
  constructor(private readonly clips: Clips) {}

  /** Prepares speech synthesis, because a call that may need it begins. */
  warm(): void {
    this.clips.warm();
  }

  /** Makes the beginning of a prompt ahead of time; errors are reported when it is played. `soon`: it is played next. */
  prepare(prompt: Say | PlayAction, soon: boolean): void {
    const [first] = partsOf(prompt);
    if (first !== undefined) this.made(first, performance.now() + (soon ? 0 : laterMs)).catch(() => {});
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
        const made = await untilAborted(this.ready(inVoice(part, voice), warnOnce), signal);
        if (made === null) continue;
        voice = made.voice;
        const next = parts[index + 1];
        if (next !== undefined) this.made(inVoice(next, voice), performance.now() + msOf(made.clip)).catch(() => {});
        const loop = parts.length === 1 ? prompt.loop : 1;
        await this.play(session, { ...part, loop }, made.clip, signal, (playedMs) => {
          if (part.action === 'say') reached(part.text, Math.min(1, playedMs / msOf(made.clip)));
        });
        heard = true;
      }
    }
  }

  /** null when there is no audio. */
  private async ready(part: Say | PlayAction, warn: (warning: SpeechWarning) => void): Promise<Made | null> {
    try {
      const { clip, warnings, voice } = await this.made(part, performance.now());
      for (const warning of warnings) warn(warning);
      return clip === null ? null : { clip, voice };
    } catch (error) {
      if (!(error instanceof ClipError)) throw error;
      if (part.action === 'play') throw new WebhookFailure(error.message, { where: part.action });
      warn({ code: 'speech_failed', message: `A text could not be spoken: ${error.message}` });
      return null;
    }
  }

  private async play(
    session: MediaSession,
    prompt: Say | PlayAction,
    clip: SharedArrayBuffer,
    signal: AbortSignal,
    played: (ms: number) => void,
  ) {
    let end: PlayEnd;
    try {
      end = await session.play({ kind: 'clip', clip, repeat: prompt.loop }, signal);
    } catch (error) {
      if (error instanceof MediaError && error.code === 'bad_source')
        throw new WebhookFailure(error.message, { where: prompt.action });
      throw error;
    }
    played(end.playedMs);
    signal.throwIfAborted();
    if (end.by === 'closed') throw new MediaError('closed', 'The session is closed.');
  }

  private async made(prompt: Say | PlayAction, dueAtMs: number): Promise<SpokenClip> {
    if (prompt.action === 'play') return { clip: await this.clips.fetch(prompt.url), warnings: [], voice: null };
    const { text, voice, language } = prompt;
    return this.clips.say({ text, voice, language, dueAtMs });
  }
}

interface Made {
  clip: SharedArrayBuffer;
  voice: string | null;
}

function partsOf(prompt: Say | PlayAction): (Say | PlayAction)[] {
  return prompt.action === 'play' ? [prompt] : sentencesOf(prompt.text).map((text) => ({ ...prompt, text }));
}

function inVoice(part: Say | PlayAction, voice: string | null): Say | PlayAction {
  return part.action === 'say' ? { ...part, voice } : part;
}

/** Duration of a clip at 8,000 samples per second. */
function msOf(clip: SharedArrayBuffer): number {
  return clip.byteLength / 8;
}

/** Stops waiting for the promise, which other callers may still await. */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const leave = () => reject(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
  });
}
