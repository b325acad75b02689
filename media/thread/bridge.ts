/** Two phones that hear each other: each side has the ear of its phone, and gives up its place when the other side does. */
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

class Side implements Foreground {
  readonly audio: Playout | null;
  readonly done = false;
  readonly hear: (bytes: Uint8Array) => void;
  forwarded = 0;

  constructor(
    readonly session: BridgedSession,
    private readonly far: () => Side,
    frames: boolean,
    private readonly onEnded: (by: ForegroundEnd) => void,
  ) {
    this.audio = frames ? new Playout(session.codec) : null;
    this.hear = frames ? (bytes) => this.far().queue(bytes, session.codec) : () => {};
  }

  ended(by: ForegroundEnd): void {
    this.onEnded(by);
  }

  private queue(bytes: Uint8Array, codec: PhoneCodec): void {
    const copy = bytes.slice();
    if (codec !== this.session.codec) mapBytes(copy, codec === 'PCMA' ? alawToUlaw : ulawToAlaw, copy);
    if (this.audio?.push(copy) !== 0) return;
    this.forwarded += 1;
    this.session.foregroundQueued(this, copy.length / bytesPerMs);
  }
}

export class SessionBridge {
  private readonly a: Side;
  private readonly b: Side;
  private over = false;
  private readonly silence = new Uint8Array(480);

  constructor(
    a: BridgedSession,
    b: BridgedSession,
    private readonly options: BridgeOptions,
    private readonly settle: (end: BridgeEnd) => void,
  ) {
    const frames = options.relay === 'frames';
    this.a = new Side(
      a,
      () => this.b,
      frames,
      (by) => this.end(by, this.b),
    );
    this.b = new Side(
      b,
      () => this.a,
      frames,
      (by) => this.end(by, this.a),
    );
    a.takeForeground(this.a);
    b.takeForeground(this.b);
  }

  stop(): void {
    this.a.session.leaveForeground(this.a, 'cancelled');
  }

  /** A packet of one of the phones. */
  packet(
    from: BridgedSession,
    packet: RtpView,
    payload: Uint8Array,
    codec: PhoneCodec | 'event',
    restarted: boolean,
  ): void {
    if (this.over || this.options.relay === 'frames') return;
    if (codec === 'event' && this.options.dtmf === 'block') return;
    const far = from === this.a.session ? this.b : this.a;
    let heard = payload;
    // The key itself goes on as an event: who hears both would count two.
    if (codec !== 'event' && from.pressing && far.session.takesEvents && this.options.dtmf === 'pass')
      heard = this.silence.subarray(0, payload.length).fill(silenceByte[codec]);
    if (far.session.relay(packet, heard, codec, restarted)) far.forwarded += 1;
  }

  /** A key that one of the phones pressed; true when the other one learns of it. As packets, events are on their way already. */
  key(from: BridgedSession, digit: string, form: KeyForm): boolean {
    if (this.over || this.options.dtmf === 'block') return false;
    const { session } = from === this.a.session ? this.b : this.a;
    if (!session.takesEvents) return form === 'tone'; // in the audio, which goes on as it is
    if (form === 'tone' || this.options.relay === 'frames') session.pressKey(digit);
    return true;
  }

  private end(by: ForegroundEnd, other: Side): void {
    if (this.over) return;
    this.over = true;
    other.session.leaveForeground(other, by);
    this.settle({
      by: by === 'replaced' || by === 'closed' ? by : 'stopped',
      forwarded: { toThis: this.a.forwarded, toOther: this.b.forwarded },
    });
  }
}
