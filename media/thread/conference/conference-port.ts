/** Connects a phone to a seat of a conference: its audio goes into the room, and the room's audio goes to the phone. */

import { MixMinus, type Room } from '../../audio/playout/conference-mixer.js';
import { G711Converter } from '../../audio/sample-format.js';
import type { PhoneCodec } from '../../engine.js';
import type { OverrideEnd, PlayoutOverride } from '../session/playout-override.js';

export interface ConferencePortParts {
  codec(): PhoneCodec;
  /** The phone is sending the tones of a key, which the others must not hear. */
  pressing(): boolean;
}

export class ConferencePort implements PlayoutOverride {
  readonly audio: MixMinus;
  readonly done = false;
  private readonly narrow = new G711Converter();

  constructor(
    private readonly room: Room,
    private readonly seat: number,
    private readonly parts: ConferencePortParts,
    private readonly settle: (by: OverrideEnd) => void,
  ) {
    this.audio = new MixMinus(room, seat, parts.codec());
  }

  readonly hear = (bytes: Uint8Array): void => {
    const codec = this.parts.codec();
    // Also converted while a key sounds, so that the resampler's stream has no gap.
    const narrow = this.narrow.of(bytes, codec);
    this.room.write(this.seat, this.parts.pressing() ? null : narrow, G711Converter.lawOf(codec));
  };

  ended(by: OverrideEnd): void {
    this.settle(by);
  }
}
