import { MediaError, type MediaSession, type PlayEnd } from '../../media/engine.js';
import { ClipError, type Clips } from '../speech/clips.js';
import { sentencesOf } from '../speech/sentences.js';
import { WebhookFailure } from '../webhook/ask.js';
import type { Play, Say } from '../webhook/instructions.js';

/** Texts and files that a call plays to its phone. */
export class Voice {
  constructor(private readonly clips: Clips) {}

  /** A call begins that may say something. */
  warm(): void {
    this.clips.warm();
  }

  /** Ahead of its turn, so that its beginning is there in time; what goes wrong is told then. */
  prepare(prompt: Say | Play): void {
    const [first] = partsOf(prompt);
    if (first !== undefined) this.clip(first).catch(() => {});
  }

  /**
   * Resolves when it was heard. Rejects with the reason of `signal`, or with `WebhookFailure` when there is nothing to play.
   */
  async speak(session: MediaSession, prompt: Say | Play, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const parts = partsOf(prompt);
    // One clip repeats without a gap.
    const rounds = parts.length === 1 ? 1 : prompt.loop === 0 ? Number.POSITIVE_INFINITY : prompt.loop;
    for (let round = 0; round < rounds; round += 1) {
      for (const [index, part] of parts.entries()) {
        const next = parts[index + 1];
        const clip = this.ready(part, signal);
        if (next !== undefined) this.clip(next).catch(() => {}); // made while this one is heard
        await this.play(session, { ...part, loop: parts.length === 1 ? prompt.loop : 1 }, clip, signal);
      }
    }
  }

  private async play(
    session: MediaSession,
    prompt: Say | Play,
    made: Promise<SharedArrayBuffer>,
    signal: AbortSignal,
  ): Promise<void> {
    let end: PlayEnd;
    try {
      end = await session.play({ kind: 'clip', clip: await made, repeat: prompt.loop }, signal);
    } catch (error) {
      if (error instanceof ClipError) throw new WebhookFailure(error.message, { where: prompt.action });
      if (error instanceof MediaError && error.code === 'bad_source')
        throw new WebhookFailure(error.message, { where: prompt.action });
      throw error;
    }
    signal.throwIfAborted();
    if (end.by === 'closed') throw new MediaError('closed', 'The session is closed.');
  }

  private ready(prompt: Say | Play, signal: AbortSignal): Promise<SharedArrayBuffer> {
    return untilAborted(this.clip(prompt), signal);
  }

  private clip(prompt: Say | Play): Promise<SharedArrayBuffer> {
    return prompt.action === 'say'
      ? this.clips.say(prompt.text, prompt.voice, prompt.language)
      : this.clips.fetch(prompt.url);
  }
}

function partsOf(prompt: Say | Play): (Say | Play)[] {
  return prompt.action === 'play' ? [prompt] : sentencesOf(prompt.text).map((text) => ({ ...prompt, text }));
}

/** The promise goes on for others who wait for it; this waiter leaves. */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const leave = () => reject(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
  });
}
