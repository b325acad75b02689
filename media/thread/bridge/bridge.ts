/**
 * A bridge of two phones. Each side controls the playout of its phone and ends when the other side ends; the other side is an object on this
 * thread, or behind a port on another one (`bridge-port.ts`). Phones that agreed to the same terms get each other's packets unchanged;
 * between others, audio goes frame by frame and each side encodes it for its own phone.
 */

import { Playout } from '../../audio/playout/playout.js';
import { sampleConverter, sampleFormatOf } from '../../audio/sample-format.js';
import type { BridgeEnd, BridgeOptions, KeyForm, PhoneCodec } from '../../engine.js';
import type { RtpView } from '../../rtp/packet.js';
import type { OverrideEnd, PlayoutOverride } from '../session/playout-override.js';

/** The part of a session that a bridge uses. */
export interface BridgedSession {
  readonly codec: PhoneCodec;
  /** What the phone agreed to, as one key (`formatKey` in `sdp.ts`). */
  readonly terms: string;
  /** The phone agreed to telephone events (RFC 4733). */
  readonly takesEvents: boolean;
  /** The phone is sending the tones of a key at this moment. */
  readonly pressing: boolean;
  beginOverride(foreground: PlayoutOverride): void;
  endOverride(foreground: PlayoutOverride, by: OverrideEnd): void;
  /** Audio was added to the foreground's queue. */
  overrideQueued(foreground: PlayoutOverride, durationMs: number): void;
  /** Sends relayed packets in place of the queue. */
  relayInstead(on: boolean): void;
  /** Sends a packet of the other phone. False when this phone cannot take it now. */
  relay(packet: RtpView, payload: Uint8Array, codec: PhoneCodec | 'event', restarted: boolean): boolean;
  /** Decoded audio of a relayed wideband packet. */
  relayed(timestamp: number, bytes: Uint8Array): void;
  pressKey(digit: string): void;
}

/** Receives what the phone of the opposite side sends. Bytes are valid during the call. */
export interface BridgePeer {
  /** The phone of this side agreed to telephone events (RFC 4733). */
  readonly takesEvents: boolean;
  /** The terms that the opposite phone agreed to. */
  termsCame(terms: string): void;
  packetCame(packet: RtpView, payload: Uint8Array, codec: PhoneCodec | 'event', restarted: boolean): void;
  /** Decoded audio of a wideband packet. `timestamp` in ticks (`ticksPerMs`). */
  heardCame(timestamp: number, bytes: Uint8Array): void;
  frameCame(bytes: Uint8Array, codec: PhoneCodec): void;
  keyCame(digit: string): void;
  endCame(by: OverrideEnd): void;
}

export class BridgeSide implements PlayoutOverride, BridgePeer {
  readonly audio: Playout;
  readonly done = false;
  /** Packets or frames that were sent to the phone of this side. */
  forwarded = 0;
  private begun = false;
  private over = false;
  private otherTerms: string | null = null;
  private relaying = false;
  private readonly silence = new Uint8Array(480);
  private change: { from: PhoneCodec; to: PhoneCodec; of: (bytes: Uint8Array) => Uint8Array } | null = null;

  constructor(
    private readonly session: BridgedSession,
    readonly options: BridgeOptions,
    private readonly other: () => BridgePeer,
    private readonly settle: (by: BridgeEnd['by']) => void,
  ) {
    this.audio = new Playout(session.codec);
  }

  get takesEvents(): boolean {
    return this.session.takesEvents;
  }

  begin(): void {
    this.session.beginOverride(this);
    this.begun = true;
    this.other().termsCame(this.session.terms);
    this.decide();
  }

  stop(): void {
    this.session.endOverride(this, 'cancelled');
  }

  /** Our phone may have agreed to other terms. */
  agreed(): void {
    if (this.over) return;
    this.other().termsCame(this.session.terms);
    this.decide();
  }

  /** The caller's audio, 20 ms: for the other phone when packets are not relayed. */
  readonly hear = (bytes: Uint8Array): void => {
    if (!this.relaying) this.other().frameCame(bytes, this.session.codec);
  };

  /** A packet from our phone. */
  packet(packet: RtpView, payload: Uint8Array, codec: PhoneCodec | 'event', restarted: boolean): void {
    if (this.over || !this.relaying) return;
    if (codec === 'event' && this.options.dtmf === 'block') return;
    const other = this.other();
    let heard = payload;
    // The key itself is forwarded as an event: a receiver of both would count two keys.
    if (codec !== 'event' && this.session.pressing && other.takesEvents && this.options.dtmf === 'pass') {
      // A wideband codec has no silence of the same length in bytes. The packet is dropped; the key arrives as an event.
      if (sampleFormatOf[codec].linear) return;
      heard = this.silence.subarray(0, payload.length).fill(sampleFormatOf[codec].silence);
    }
    other.packetCame(packet, heard, codec, restarted);
  }

  /** Decoded audio of a packet from our phone. */
  heard(timestamp: number, bytes: Uint8Array, codec: PhoneCodec): void {
    if (!this.over && this.relaying && sampleFormatOf[codec].linear) this.other().heardCame(timestamp, bytes);
  }

  /** Our phone pressed a key; true when the key is passed on to the other phone. When packets are relayed, events are already on their way. */
  key(digit: string, form: KeyForm): boolean {
    if (this.over || this.options.dtmf === 'block') return false;
    const other = this.other();
    if (!other.takesEvents) return form === 'tone'; // in the audio, which goes on as it is
    if (form === 'tone' || !this.relaying) other.keyCame(digit);
    return true;
  }

  ended(by: OverrideEnd): void {
    if (this.over) return;
    this.over = true;
    this.other().endCame(by);
    this.settle(by === 'replaced' || by === 'closed' ? by : 'stopped');
  }

  termsCame(terms: string): void {
    this.otherTerms = terms;
    this.decide();
  }

  packetCame(packet: RtpView, payload: Uint8Array, codec: PhoneCodec | 'event', restarted: boolean): void {
    if (this.over || !this.relaying) return;
    if (this.session.relay(packet, payload, codec, restarted)) this.forwarded += 1;
  }

  heardCame(timestamp: number, bytes: Uint8Array): void {
    if (!this.over && this.relaying) this.session.relayed(timestamp, bytes);
  }

  frameCame(bytes: Uint8Array, codec: PhoneCodec): void {
    if (this.over || this.relaying) return;
    const to = this.session.codec;
    if (this.change?.from !== codec || this.change.to !== to)
      this.change = { from: codec, to, of: sampleConverter(codec, to) };
    const audio = this.change.of(bytes);
    if (this.audio.push(audio) !== 0) return;
    this.forwarded += 1;
    this.session.overrideQueued(this, audio.length / sampleFormatOf[to].bytesPerMs);
  }

  keyCame(digit: string): void {
    if (!this.over) this.session.pressKey(digit);
  }

  endCame(by: OverrideEnd): void {
    this.session.endOverride(this, by);
  }

  private decide(): void {
    const relays = this.options.relay === 'packets' && this.otherTerms === this.session.terms;
    if (!this.begun || this.over || relays === this.relaying) return;
    this.relaying = relays;
    if (relays) this.audio.clear();
    this.session.relayInstead(relays);
  }
}
