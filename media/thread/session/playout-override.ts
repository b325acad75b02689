/** Replaces the agent's playout for a while: a play, a conference, or the other side of a bridge. */
import type { PhoneAudio } from '../../audio/playout/phone-audio.js';
import type { PlaybackSource } from '../../audio/playout/playback-source.js';
import type { PlayEnd } from '../../engine.js';

export type OverrideEnd = 'finished' | 'cancelled' | 'replaced' | 'closed';

export interface PlayoutOverride {
  /** null when nothing passes through the queue. */
  readonly audio: PhoneAudio | null;
  /** No more audio will come. */
  readonly done: boolean;
  /** Takes the caller's audio, 20 ms in the phone's codec; null when the agent continues to get it. */
  readonly hear: ((bytes: Uint8Array) => void) | null;
  /** Called once, when it is no longer plays. */
  ended(by: OverrideEnd): void;
}

export class ClipOverride implements PlayoutOverride {
  readonly hear = null;

  constructor(
    readonly audio: PlaybackSource,
    private readonly settle: (end: PlayEnd) => void,
  ) {}

  get done(): boolean {
    return this.audio.done;
  }

  ended(by: OverrideEnd): void {
    const { playedMs } = this.audio;
    this.audio.close();
    this.settle({ by, playedMs });
  }
}
