/** A phone's seat in a conference: what it says goes into the room, and what it hears comes from there. */

import { type Room, RoomEar } from '../../audio/playout/conference-mixer.js';
import { NarrowCopy } from '../../audio/sample-format.js';
import type { PhoneCodec } from '../../engine.js';
import type { Foreground, ForegroundEnd } from '../session/playout-override.js';

export interface SeatParts {
  codec(): PhoneCodec;
  /** The phone sounds the tones of a key at this moment: nobody is to hear them. */
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
    // Also while a key sounds: what is narrowed goes on without a seam.
    const narrow = this.narrow.of(bytes, codec);
    this.room.write(this.seat, this.parts.pressing() ? null : narrow, NarrowCopy.lawOf(codec));
  };

  ended(by: ForegroundEnd): void {
    this.settle(by);
  }
}
