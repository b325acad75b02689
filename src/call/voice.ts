import { MediaError, type MediaSession, type PlayEnd } from '../../media/engine.js';
import { ClipError, type Clips } from '../speech/clips.js';
import { WebhookFailure } from '../webhook/ask.js';
import type { Play, Say } from '../webhook/instructions.js';

/** Texts and files that a call plays to its phone. */
export class Voice {
  constructor(private readonly clips: Clips) {}

  /** A call begins that may say something. */
  warm(): void {
    this.clips.warm();
  }

  /** Ahead of its turn, so that it is there in time; what goes wrong is told then. */
  prepare(prompt: Say | Play): void {
    this.clip(prompt).catch(() => {});
  }

  /**
   * Resolves when it was heard. Rejects with the reason of `signal`, or with `WebhookFailure` when there is nothing to play.
   */
  async speak(session: MediaSession, prompt: Say | Play, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    let end: PlayEnd;
    try {
      const clip = await untilAborted(this.clip(prompt), signal);
      end = await session.play({ kind: 'clip', clip, repeat: prompt.loop }, signal);
    } catch (error) {
      if (error instanceof ClipError) throw new WebhookFailure(error.message, { where: prompt.action });
      if (error instanceof MediaError && error.code === 'bad_source')
        throw new WebhookFailure(error.message, { where: prompt.action });
      throw error;
    }
    signal.throwIfAborted();
    if (end.by === 'closed') throw new MediaError('closed', 'The session is closed.');
  }

  private clip(prompt: Say | Play): Promise<SharedArrayBuffer> {
    return prompt.action === 'say'
      ? this.clips.say(prompt.text, prompt.voice, prompt.language)
      : this.clips.fetch(prompt.url);
  }
}

/** The promise goes on for others who wait for it; this waiter leaves. */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const leave = () => reject(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
  });
}
