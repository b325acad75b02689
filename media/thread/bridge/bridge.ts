/**
 * Two phones that hear each other. Each side of a bridge has the ear of its phone, and gives up its place when the other side does; the other
 * side is an object of this thread, or behind a port of another one (`bridge-port.ts`). Phones that agreed to the same hear each other's
 * packets as they are; between others goes audio, frame by frame, which each side codes for its own.
 */

import { Playout } from '../../audio/playout/playout.js';
import { changeLine, lineOf } from '../../audio/sample-format.js';
import type { BridgeEnd, BridgeOptions, KeyForm, PhoneCodec } from '../../engine.js';
import type { RtpView } from '../../rtp/packet.js';
import type { Foreground, ForegroundEnd } from '../session/playout-override.js';

/** What a bridge needs of a session. */
export interface BridgedSession {
  readonly codec: PhoneCodec;
  /** What its phone agreed to, as one word. */
  readonly terms: string;
  /** Its phone agreed to events (RFC 4733). */
  readonly takesEvents: boolean;
  /** Its phone sounds the tones of a key at this moment. */
  readonly pressing: boolean;
  takeForeground(foreground: Foreground): void;
  leaveForeground(foreground: Foreground, by: ForegroundEnd): void;
  /** Audio came into the queue of the foreground. */
  foregroundQueued(foreground: Foreground, durationMs: number): void;
  /** Packets go out, and not the queue. */
  relayInstead(on: boolean): void;
  /** Sends what another phone sent. False when this phone takes no such packet now. */
  relay(packet: RtpView, payload: Uint8Array, codec: PhoneCodec | 'event', restarted: boolean): boolean;
  /** What a packet said that was relayed, when its bytes do not. */
  relayed(timestamp: number, bytes: Uint8Array): void;
  pressKey(digit: string): void;
}

/** What comes from the phone of one side to the other side. Bytes are valid during the call. */
export interface OtherSide {
  /** Its phone agreed to events (RFC 4733). */
  readonly takesEvents: boolean;
  /** What our phone agreed to. */
  termsCame(terms: string): void;
  packetCame(packet: RtpView, payload: Uint8Array, codec: PhoneCodec | 'event', restarted: boolean): void;
  /** What a packet says that came in a wideband codec. `timestamp` in ticks of the line. */
  heardCame(timestamp: number, bytes: Uint8Array): void;
  frameCame(bytes: Uint8Array, codec: PhoneCodec): void;
  keyCame(digit: string): void;
  endCame(by: ForegroundEnd): void;
}

export class BridgeSide implements Foreground, OtherSide {
  readonly audio: Playout;
  readonly done = false;
  /** Packets or frames that the phone of this side got. */
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
    private readonly other: () => OtherSide,
    private readonly settle: (by: BridgeEnd['by']) => void,
  ) {
    this.audio = new Playout(session.codec);
  }

  get takesEvents(): boolean {
    return this.session.takesEvents;
  }

  begin(): void {
    this.session.takeForeground(this);
    this.begun = true;
    this.other().termsCame(this.session.terms);
    this.decide();
  }

  stop(): void {
    this.session.leaveForeground(this, 'cancelled');
  }

  /** Our phone may have agreed to something else. */
  agreed(): void {
    if (this.over) return;
    this.other().termsCame(this.session.terms);
    this.decide();
  }

  /** The caller, 20 ms: for the other phone when that does not get our packets. */
  readonly hear = (bytes: Uint8Array): void => {
    if (!this.relaying) this.other().frameCame(bytes, this.session.codec);
  };

  /** A packet of our phone. */
  packet(packet: RtpView, payload: Uint8Array, codec: PhoneCodec | 'event', restarted: boolean): void {
    if (this.over || !this.relaying) return;
    if (codec === 'event' && this.options.dtmf === 'block') return;
    const other = this.other();
    let heard = payload;
    // The key itself goes on as an event: who hears both would count two.
    if (codec !== 'event' && this.session.pressing && other.takesEvents && this.options.dtmf === 'pass') {
      // A wideband codec has no silence of so many bytes: what is left out is lost, and told as a key.
      if (lineOf[codec].linear) return;
      heard = this.silence.subarray(0, payload.length).fill(lineOf[codec].silence);
    }
    other.packetCame(packet, heard, codec, restarted);
  }

  /** What a packet of our phone says. */
  heard(timestamp: number, bytes: Uint8Array, codec: PhoneCodec): void {
    if (!this.over && this.relaying && lineOf[codec].linear) this.other().heardCame(timestamp, bytes);
  }

  /** A key that our phone pressed; true when the other one learns of it. As packets, events are on their way already. */
  key(digit: string, form: KeyForm): boolean {
    if (this.over || this.options.dtmf === 'block') return false;
    const other = this.other();
    if (!other.takesEvents) return form === 'tone'; // in the audio, which goes on as it is
    if (form === 'tone' || !this.relaying) other.keyCame(digit);
    return true;
  }

  ended(by: ForegroundEnd): void {
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
      this.change = { from: codec, to, of: changeLine(codec, to) };
    const audio = this.change.of(bytes);
    if (this.audio.push(audio) !== 0) return;
    this.forwarded += 1;
    this.session.foregroundQueued(this, audio.length / lineOf[to].bytesPerMs);
  }

  keyCame(digit: string): void {
    if (!this.over) this.session.pressKey(digit);
  }

  endCame(by: ForegroundEnd): void {
    this.session.leaveForeground(this, by);
  }

  private decide(): void {
    const relays = this.options.relay === 'packets' && this.otherTerms === this.session.terms;
    if (!this.begun || this.over || relays === this.relaying) return;
    this.relaying = relays;
    if (relays) this.audio.clear();
    this.session.relayInstead(relays);
  }
}
