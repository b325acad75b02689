/** Connects a phone to a seat of a conference: its audio goes into the room, and the room's audio goes to the phone. */

import { type Room, RoomEar } from '../../audio/playout/conference-mixer.js';
import { NarrowCopy } from '../../audio/sample-format.js';
import type { PhoneCodec } from '../../engine.js';
import type { Foreground, ForegroundEnd } from '../session/playout-override.js';

export interface SeatParts {
  codec(): PhoneCodec;
  /** The phone is sending the tones of a key, which the others must not hear. */
  pressing(): boolean;
}

export class ConferenceSeat implements Foreground {
  readonly audio: RoomEar;
  readonly done = false;
  private readonly narrow = new NarrowCopy();

  constructor(
    private readonly room: Room,
    private readonly seat: number,
    private readonly parts: SeatParts,
    private readonly settle: (by: ForegroundEnd) => void,
  ) {
    this.audio = new RoomEar(room, seat, parts.codec());
  }

  readonly hear = (bytes: Uint8Array): void => {
    const codec = this.parts.codec();
    // Also converted while a key sounds, so that the resampler's stream has no gap.
    const narrow = this.narrow.of(bytes, codec);
    this.room.write(this.seat, this.parts.pressing() ? null : narrow, NarrowCopy.lawOf(codec));
  };

  ended(by: ForegroundEnd): void {
    this.settle(by);
  }
}
