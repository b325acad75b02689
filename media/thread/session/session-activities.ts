/** The activities of a session beside its agent: plays, bridges, conferences, recordings. Each ends exactly once, with the session at the latest. */
import type { MessagePort } from 'node:worker_threads';
import type { AgentEcho } from '../../audio/detect/agent-echo.js';
import { AnswerListener } from '../../audio/detect/answering-machine.js';
import { Room } from '../../audio/playout/conference-mixer.js';
import { openSource } from '../../audio/playout/playback-source.js';
import {
  type AudioSource,
  type BridgeEnd,
  type BridgeOptions,
  type KeyForm,
  type MachineVerdict,
  MediaError,
  type PhoneCodec,
  type PlayEnd,
  type RecordingEnd,
  type RecordOptions,
  type RedactedMedia,
} from '../../engine.js';
import type { DiskConnection } from '../../recording/disk-connection.js';
import type { RtpView } from '../../rtp/packet.js';
import { type BridgedSession, type BridgePeer, BridgeSide } from '../bridge/bridge.js';
import { BridgePort } from '../bridge/bridge-port.js';
import { ConferencePort } from '../conference/conference-port.js';
import { ClipOverride, type OverrideEnd, type PlayoutOverride } from './playout-override.js';
import { SessionRecordings } from './session-recordings.js';
import type { ToPhone } from './to-phone.js';

export interface ActivityParts {
  outward: ToPhone;
  now(): number;
  codec(): PhoneCodec;
  /** The phone has no telephone events and is sending the tones of a key at this moment. */
  pressing(): boolean;
  /** What the phone agreed to (`formatKey`): phones with equal terms can get each other's packets unchanged. */
  terms(): string;
  /** Audio of a relayed packet that was sent to the phone. */
  relayed(timestamp: number, bytes: Uint8Array): void;
  /** Starts RTP to the phone, if it has not started. */
  startSending(): void;
  /** Returns playout and the caller's audio to the owner, from `startMs` on. */
  toOwner(startMs: number): void;
  /** Starts a new stream of frames with the caller's audio. */
  listen(): void;
  /** The echo of what is sent to the phone, which is no speech of it. */
  echo(): AgentEcho;
  /** The phone's first speech since a recording with `silence` began. */
  words(): void;
}

export class SessionActivities implements BridgedSession {
  private foreground: PlayoutOverride | null = null;
  private bridged: BridgeSide | null = null;
  private answerListener: AnswerListener | null = null;
  private readonly recordings = new SessionRecordings();
  private readonly stops = new Map<number, () => void>();

  constructor(private readonly parts: ActivityParts) {}

  get codec(): PhoneCodec {
    return this.parts.codec();
  }

  get terms(): string {
    return this.parts.terms();
  }

  get pressing(): boolean {
    return this.parts.pressing();
  }

  /** The other phone of a bridge is this phone's agent. */
  get carriesAgent(): boolean {
    return this.bridged?.options.turns === true;
  }

  get takesEvents(): boolean {
    return this.parts.outward.takesEvents;
  }

  /** An activity is in the foreground, and the owner of playout waits. */
  get active(): boolean {
    return this.foreground !== null;
  }

  play(activity: number, source: AudioSource): Promise<PlayEnd> {
    return this.lasting(activity, (settle: (end: PlayEnd) => void) => {
      const played = openSource(source, this.codec, (durationMs) => this.overrideQueued(play, durationMs));
      const play: ClipOverride = new ClipOverride(played, settle);
      this.beginOverride(play);
      return () => this.endOverride(play, 'cancelled');
    });
  }

  bridge(activity: number, other: SessionActivities, options: BridgeOptions): Promise<BridgeEnd> {
    return this.lasting(activity, (settle: (end: BridgeEnd) => void) => {
      const forwarded = () => ({ toThis: near.forwarded, toOther: far.forwarded });
      const near: BridgeSide = this.sideOf(
        options,
        () => far,
        (by) => settle({ by, forwarded: forwarded() }),
      );
      const far: BridgeSide = other.sideOf(
        options,
        () => near,
        () => {},
      );
      near.begin();
      far.begin();
      return () => near.stop();
    });
  }

  /** The other phone is on another thread, which counts `toOther`. */
  bridgeAcross(activity: number, port: MessagePort, options: BridgeOptions): Promise<BridgeEnd> {
    return this.lasting(activity, (settle: (end: BridgeEnd) => void) => {
      const near: BridgeSide = this.sideOf(
        options,
        () => far,
        (by) => settle({ by, forwarded: { toThis: near.forwarded, toOther: 0 } }),
      );
      const far = new BridgePort(port, () => near);
      near.begin();
      return () => near.stop();
    });
  }

  confer(activity: number, room: SharedArrayBuffer, place: number): Promise<OverrideEnd> {
    return this.lasting(activity, (settle: (by: OverrideEnd) => void) => {
      const seat = new ConferencePort(new Room(room), place, this.parts, settle);
      this.beginOverride(seat);
      return () => this.endOverride(seat, 'cancelled');
    });
  }

  detectMachine(activity: number, untilMessageEnd: boolean, early: boolean): Promise<MachineVerdict> {
    return this.lasting(activity, (settle: (verdict: MachineVerdict) => void) => {
      const settled = (verdict: MachineVerdict) => {
        if (this.answerListener === listener) this.answerListener = null;
        settle(verdict);
      };
      const listener = new AnswerListener(this.parts.now(), { untilMessageEnd, early }, settled);
      this.answerListener?.close(this.parts.now());
      this.answerListener = listener;
      return () => listener.close(this.parts.now());
    });
  }

  record(activity: number, options: RecordOptions, disk: DiskConnection): Promise<RecordingEnd> {
    const echo = options.silence ? this.parts.echo() : null;
    return this.lasting(activity, (settle: (end: RecordingEnd) => void) =>
      this.recordings.begin(activity, options, disk, this.parts.now, this.codec, this.parts.words, settle, echo),
    );
  }

  redact(what: RedactedMedia): void {
    this.recordings.redact(what, this.parts.now());
  }

  pauseRecording(activity: number, paused: boolean): void {
    this.recordings.pause(activity, paused);
  }

  endActivity(activity: number): void {
    this.stops.get(activity)?.();
  }

  /** A new owner of playout was attached: the foreground ends. */
  replaced(): void {
    if (this.foreground) this.endOverride(this.foreground, 'replaced');
  }

  /** The caller's audio, 20 ms. True when the foreground consumed it. */
  hear(bytes: Uint8Array): boolean {
    const hear = this.foreground?.hear;
    if (!hear) return false;
    hear(bytes);
    return true;
  }

  /** A packet from the phone as it arrived. */
  packet(packet: RtpView, payload: Uint8Array, codec: PhoneCodec | 'event', restarted: boolean): void {
    if (codec === 'event') this.recordings.keySounds(this.parts.now());
    this.bridged?.packet(packet, payload, codec, restarted);
  }

  /** Audio of a packet from the phone. */
  heard(timestamp: number, bytes: Uint8Array, codec: PhoneCodec, nowMs: number, held: boolean): void {
    if (!held && this.recordings.any) this.recordings.fromPhone(timestamp, bytes, codec, nowMs);
    this.answerListener?.hear(timestamp, bytes, codec, nowMs);
    this.bridged?.heard(timestamp, bytes, codec);
  }

  /** Audio that was sent. */
  sent(timestamp: number, bytes: Uint8Array, from: number, to: number, codec: PhoneCodec, nowMs: number): void {
    if (this.recordings.any) this.recordings.toPhone(timestamp, bytes.subarray(from, to), codec, nowMs);
  }

  /** A key was pressed; true when a bridge passes it on to the other phone. */
  key(digit: string, form: KeyForm): boolean {
    return this.bridged?.key(digit, form) ?? false;
  }

  changeCodec(codec: PhoneCodec): void {
    this.foreground?.audio?.changeCodec(codec);
    this.bridged?.agreed();
  }

  /** Called after each slot. */
  tick(nowMs: number): void {
    const { foreground } = this;
    if (foreground?.done) this.endOverride(foreground, 'finished');
    if (this.recordings.any) this.recordings.tick(nowMs);
    this.answerListener?.tick(nowMs);
  }

  close(): void {
    if (this.foreground) this.endOverride(this.foreground, 'closed');
    this.recordings.close();
    this.answerListener?.close(this.parts.now());
  }

  beginOverride(foreground: PlayoutOverride): void {
    const before = this.foreground;
    this.foreground = foreground;
    if (before) this.lost(before, 'replaced');
    // While it ended, the previous foreground may have caused another one to take over.
    if (this.foreground !== foreground) return;
    this.parts.startSending();
    const { outward } = this.parts;
    outward.attach(foreground.audio, this.parts.now());
    if (foreground.hear) this.parts.listen();
  }

  /** Sends packets of another phone in place of the queue. */
  relayInstead(on: boolean): void {
    this.parts.outward.relayInstead(on);
  }

  endOverride(foreground: PlayoutOverride, by: OverrideEnd): void {
    if (this.foreground !== foreground) return;
    this.foreground = null;
    this.lost(foreground, by);
    if (this.foreground === null) this.parts.toOwner(by === 'finished' ? this.parts.outward.dueMs : this.parts.now());
  }

  overrideQueued(foreground: PlayoutOverride, durationMs: number): void {
    if (this.foreground === foreground) this.parts.outward.audioQueued(durationMs, this.parts.now());
  }

  relayed(timestamp: number, bytes: Uint8Array): void {
    this.parts.relayed(timestamp, bytes);
  }

  relay(packet: RtpView, payload: Uint8Array, codec: PhoneCodec | 'event', restarted: boolean): boolean {
    return this.parts.outward.relay(packet, payload, codec, restarted);
  }

  pressKey(digit: string): void {
    // A phone without telephone events does not get the key; the event is emitted all the same.
    this.parts.outward.sendDtmf(digit, 'event').catch(() => {});
  }

  private sideOf(options: BridgeOptions, other: () => BridgePeer, settle: (by: BridgeEnd['by']) => void): BridgeSide {
    const side = new BridgeSide(this, options, other, (by) => {
      if (this.bridged === side) this.bridged = null;
      settle(by);
    });
    this.bridged = side;
    return side;
  }

  private lost(foreground: PlayoutOverride, by: OverrideEnd): void {
    this.parts.outward.relayInstead(false);
    foreground.ended(by);
  }

  /** `begin` starts an activity and returns its stop function; `settle` ends it. */
  private lasting<E>(activity: number, begin: (settle: (end: E) => void) => () => void): Promise<E> {
    return new Promise<E>((resolve, reject) => {
      let over = false;
      const settle = (end: E): void => {
        over = true;
        this.stops.delete(activity);
        resolve(end);
      };
      try {
        const stop = begin(settle);
        if (!over) this.stops.set(activity, stop);
      } catch (error) {
        reject(error instanceof MediaError ? error : new MediaError('bad_source', 'The source cannot be played.'));
      }
    });
  }
}
