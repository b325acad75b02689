/** A source of audio for the phone: the queue of an agent, a clip, a tone, a stream, a conference. */
import type { PhoneCodec } from '../../engine.js';

export interface PhoneAudio {
  readonly queuedMs: number;
  /** Its audio arrives at the pace of the clock. */
  readonly realTime: boolean;
  /** Duration removed from the queue on purpose, so far. */
  readonly trimmedMs: number;
  /** Fills `into` from `at` on; returns the number of bytes of audio. */
  take(into: Uint8Array, at: number, length: number): number;
  /** Fills a gap in mid-word with what was last played, fading; false when silence is right. */
  bridge(into: Uint8Array, at: number, length: number): boolean;
  /** The last audio arrived this much earlier than needed. */
  spare(ms: number): void;
  /** Audio came again after a gap in mid-utterance, of which `gapMs` passed without a slot. */
  resumed(gapMs: number): void;
  /** By how much the slots could move earlier permanently; returned once. */
  takeNearerMs(): number;
  /** Our thread stalled for this long: queued audio is that much late. */
  missed(ms: number): void;
  changeCodec(codec: PhoneCodec): void;
}
