/** What the phone hears next: the queue of an agent, a clip, a tone, a stream. */
import type { PhoneCodec } from '../../engine.js';

export interface PhoneAudio {
  readonly queuedMs: number;
  /** Taken out of the queue on purpose, so far. */
  readonly trimmedMs: number;
  /** Fills `into` from `at` on; returns how many bytes of audio there were. */
  take(into: Uint8Array, at: number, length: number): number;
  /** What came last came so much earlier than it had to. */
  spare(ms: number): void;
  /** The slots could be so much earlier than they are, for good; told once. */
  takeNearerMs(): number;
  /** We stood still for so long: what waits now is late by as much. */
  missed(ms: number): void;
  changeCodec(codec: PhoneCodec): void;
}
