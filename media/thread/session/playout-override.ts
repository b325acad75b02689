/** What has the phone's ear for a while in the place of the agent: a play, or the other side of a bridge. */
import type { PhoneAudio } from '../../audio/playout/phone-audio.js';
import type { Played } from '../../audio/playout/playback-source.js';
import type { PlayEnd } from '../../engine.js';

export type ForegroundEnd = 'finished' | 'cancelled' | 'replaced' | 'closed';

export interface Foreground {
  /** null: nothing comes through the queue. */
  readonly audio: PhoneAudio | null;
  /** Nothing more will come. */
  readonly done: boolean;
  /** The caller, 20 ms in the phone's codec; null when the agent goes on hearing it. */
  readonly hear: ((bytes: Uint8Array) => void) | null;
  /** Called once, when it has lost its place. */
  ended(by: ForegroundEnd): void;
}

export class PlayOverride implements Foreground {
  readonly hear = null;

  constructor(
    readonly audio: Played,
    private readonly settle: (end: PlayEnd) => void,
  ) {}

  get done(): boolean {
    return this.audio.done;
  }

  ended(by: ForegroundEnd): void {
    const { playedMs } = this.audio;
    this.audio.close();
    this.settle({ by, playedMs });
  }
}
