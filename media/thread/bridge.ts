/**
 * Two phones that hear each other. Each side of a bridge has the ear of its phone, and gives up its place when the other side does; the other
 * side is an object of this thread, or behind a port of another one (`bridge-port.ts`).
 */
import { alawToUlaw, mapBytes, silenceByte, ulawToAlaw } from '../audio/g711.js';
import { Playout } from '../audio/playout.js';
import type { BridgeEnd, BridgeOptions, KeyForm, PhoneCodec } from '../engine.js';
import type { RtpView } from '../rtp/packet.js';
import type { Foreground, ForegroundEnd } from './foreground.js';

const bytesPerMs = 8;

/** What a bridge needs of a session. */
export interface BridgedSession {
  readonly codec: PhoneCodec;
  /** Its phone agreed to events (RFC 4733). */
  readonly takesEvents: boolean;
  /** Its phone sounds the tones of a key at this moment. */
  readonly pressing: boolean;
  takeForeground(foreground: Foreground): void;
  leaveForeground(foreground: Foreground, by: ForegroundEnd): void;
  /** Audio came into the queue of the foreground. */
  foregroundQueued(foreground: Foreground, durationMs: number): void;
  /** Sends what another phone sent. False when this phone takes no such packet now. */
  relay(packet: RtpView, payload: Uint8Array, codec: PhoneCodec | 'event', restarted: boolean): boolean;
  pressKey(digit: string): void;
}

/** What comes from the phone of one side to the other side. Bytes are valid during the call. */
export interface OtherSide {
  /** Its phone agreed to events (RFC 4733). */
  readonly takesEvents: boolean;
  packetCame(packet: RtpView, payload: Uint8Array, codec: PhoneCodec | 'event', restarted: boolean): void;
  frameCame(bytes: Uint8Array, codec: PhoneCodec): void;
  keyCame(digit: string): void;
  endCame(by: ForegroundEnd): void;
}

export class BridgeSide implements Foreground, OtherSide {
  readonly audio: Playout | null;
  readonly done = false;
  readonly hear: (bytes: Uint8Array) => void;
  /** Packets or frames that the phone of this side got. */
  forwarded = 0;
  private over = false;
  private readonly silence = new Uint8Array(480);

  constructor(
    private readonly session: BridgedSession,
    readonly options: BridgeOptions,
    private readonly other: () => OtherSide,
    private readonly settle: (by: BridgeEnd['by']) => void,
  ) {
    const frames = options.relay === 'frames';
    this.audio = frames ? new Playout(session.codec) : null;
    this.hear = frames ? (bytes) => this.other().frameCame(bytes, session.codec) : () => {};
  }

  get takesEvents(): boolean {
    return this.session.takesEvents;
  }

  begin(): void {
    this.session.takeForeground(this);
  }

  stop(): void {
    this.session.leaveForeground(this, 'cancelled');
  }

  /** A packet of our phone. */
  packet(packet: RtpView, payload: Uint8Array, codec: PhoneCodec | 'event', restarted: boolean): void {
    if (this.over || this.options.relay === 'frames') return;
    if (codec === 'event' && this.options.dtmf === 'block') return;
    const other = this.other();
    let heard = payload;
    // The key itself goes on as an event: who hears both would count two.
    if (codec !== 'event' && this.session.pressing && other.takesEvents && this.options.dtmf === 'pass')
      heard = this.silence.subarray(0, payload.length).fill(silenceByte[codec]);
    other.packetCame(packet, heard, codec, restarted);
  }

  /** A key that our phone pressed; true when the other one learns of it. As packets, events are on their way already. */
  key(digit: string, form: KeyForm): boolean {
    if (this.over || this.options.dtmf === 'block') return false;
    const other = this.other();
    if (!other.takesEvents) return form === 'tone'; // in the audio, which goes on as it is
    if (form === 'tone' || this.options.relay === 'frames') other.keyCame(digit);
    return true;
  }

  ended(by: ForegroundEnd): void {
    if (this.over) return;
    this.over = true;
    this.other().endCame(by);
    this.settle(by === 'replaced' || by === 'closed' ? by : 'stopped');
  }

  packetCame(packet: RtpView, payload: Uint8Array, codec: PhoneCodec | 'event', restarted: boolean): void {
    if (!this.over && this.session.relay(packet, payload, codec, restarted)) this.forwarded += 1;
  }

  frameCame(bytes: Uint8Array, codec: PhoneCodec): void {
    if (this.over || !this.audio) return;
    const copy = bytes.slice();
    if (codec !== this.session.codec) mapBytes(copy, codec === 'PCMA' ? alawToUlaw : ulawToAlaw, copy);
    if (this.audio.push(copy) !== 0) return;
    this.forwarded += 1;
    this.session.foregroundQueued(this, copy.length / bytesPerMs);
  }

  keyCame(digit: string): void {
    if (!this.over) this.session.pressKey(digit);
  }

  endCame(by: ForegroundEnd): void {
    this.session.leaveForeground(this, by);
  }
}
