/**
 * Provides both directions of a phone's audio to listeners, as streams of 20 ms frames. The streams are separate from that of the conversing
 * agent, which is the same with and without listeners.
 */
import type { AudioTrack, AudioTracks } from '../../agents/agent.js';
import { Uplink } from '../../audio/receive/agent-uplink.js';
import type { PhoneCodec } from '../../engine.js';
import type { FromPhone } from '../session/from-phone.js';

const frameMs = 20;

export interface Listener {
  readonly tracks: AudioTracks;
  /** 20 ms in `codec`, valid during the call. `atMs` on the session's clock. Must not throw. */
  hear(track: AudioTrack, frame: Uint8Array, codec: PhoneCodec, atMs: number): void;
}

export interface ListenerStreamParts {
  inward: FromPhone;
  codec(): PhoneCodec;
  now(): number;
  /** Start of the session's clock. */
  openedMs: number;
}

export class ListenerStreams {
  private readonly listeners = new Set<Listener>();
  private agent: Uplink | null = null;
  private sent = 0;

  constructor(private readonly parts: ListenerStreamParts) {}

  add(listener: Listener): void {
    this.listeners.add(listener);
    if (this.agent) return;
    const nowMs = this.parts.now();
    this.parts.inward.listenAside(this.toListeners('caller'), nowMs);
    this.agent = new Uplink(this.parts.codec(), this.toListeners('agent'));
    this.agent.start(nowMs);
  }

  remove(listener: Listener): void {
    this.listeners.delete(listener);
    if (this.listeners.size > 0) return;
    this.parts.inward.listenAside(null, this.parts.now());
    this.agent = null;
  }

  /** Audio that was sent to the phone. */
  toPhone(timestamp: number, bytes: Uint8Array, from: number, to: number, codec: PhoneCodec, nowMs: number): void {
    if (!this.agent) return;
    // Own consecutive sequence numbers: keys sent in between are no loss, and no packet waits for another while its buffer is reused.
    this.sent = (this.sent + 1) & 0xffff;
    this.agent.packet(this.sent, timestamp, bytes.subarray(from, to), codec, nowMs);
  }

  /** Called every packet time; the caller's stream gets its ticks from `FromPhone`. */
  tick(nowMs: number): void {
    this.agent?.tick(nowMs);
  }

  changeCodec(codec: PhoneCodec): void {
    this.agent?.changeCodec(codec);
  }

  private toListeners(track: AudioTrack): (frame: Uint8Array, atMs: number) => void {
    const { parts, listeners } = this;
    let beginsMs: number | null = null;
    return (frame, atMs) => {
      // Received audio was spoken just before it arrived; sent audio is heard from now on.
      beginsMs ??= parts.now() - parts.openedMs - (track === 'caller' ? frameMs : 0);
      for (const listener of listeners) {
        if (listener.tracks === track || listener.tracks === 'both')
          listener.hear(track, frame, parts.codec(), beginsMs + atMs);
      }
    };
  }
}
