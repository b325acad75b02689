/** Sends to the phone: one packet per slot with the agent's audio, silence or a key, for as long as the session is live. */

import { alawToUlaw, mapBytes, ulawToAlaw } from '../../audio/codec/g711.js';
import { opusPacketMs } from '../../audio/codec/opus-packet.js';
import type { WideEncoder } from '../../audio/codec/wide-codec.js';
import { writeKeyTone } from '../../audio/detect/dtmf-tones.js';
import { ArrivalMargin, leastMarginMs } from '../../audio/playout/arrival-margin.js';
import type { PhoneAudio } from '../../audio/playout/phone-audio.js';
import { earlyMs } from '../../audio/playout/playout-clock.js';
import { PlayoutSchedule } from '../../audio/playout/playout-schedule.js';
import { sampleFormatOf, samplesOf, ticksPerMs } from '../../audio/sample-format.js';
import { codecFacts } from '../../codecs.js';
import { DelayCounts } from '../../delay-spread.js';
import { type KeyForm, MediaError, type PhoneCodec } from '../../engine.js';
import { DtmfSender, dtmfDigits } from '../../rtp/dtmf.js';
import { type RtpView, rtpHeaderBytes } from '../../rtp/packet.js';
import type { RtpSender } from '../../rtp/sender.js';
import type { AgreedMedia } from '../../sdp.js';

/** Audio that arrives this soon after the queue ran dry belongs to the same utterance: the phone heard a gap. */
const underrunWithinMs = 100;
/** After a chunk shorter than a frame, playout waits a frame and this much longer for the rest. */
const incompleteWaitMs = 20;
const mostDigits = 128;
/** Slots that are later than needed by less than this stay so: to remove it would take a whole frame of speech. */
const bearableMs = 5;
/** A frame is only removed when its successor is there, whatever the jitter: slack for that. */
const frameSlackMs = 2;
/** Timers alone are never this late. */
const lateSlotMs = 1.5;
/**
 * A frame of a real-time agent that is late by no more than this is sent when it arrives. The phone's jitter buffer copes with that better
 * than with a gap, after which the call would stay a packet later.
 */
const graceMs = 18;
/** When our own thread was late, the answer to what waited in the sockets comes that much later too: what an echoing agent needs. */
const mostOwnLateMs = 40;

export interface ToPhoneHooks {
  /** The next slot was moved forward, or is due now. */
  due(dueMs: number): void;
  /** The first frame of the owner's audio is sent. */
  firstAudio?(atMs: number): void;
}

export class ToPhone {
  underruns = 0;
  skippedMs = 0;
  /** From the arrival of the agent's audio until it is sent, for audio that does not wait on purpose. */
  readonly delays = new DelayCounts();
  private media: AgreedMedia | null = null;
  private live = false;
  private playout: PhoneAudio | null = null;
  private playing = false;
  private waiting = false;
  private heardOwner = false;
  private markNext = true;
  /** The slot that is due waits for its frame. */
  private held = false;
  /** Since when, and when it is looked at again: a later look means that our own thread was late. NaN: when it is due. */
  private heldMs = Number.NaN;
  private lookMs = Number.NaN;
  /** How late our own thread was in this slot: the agent, and a caller whose words it answers with, could not be heard meanwhile. */
  private ownLateMs = 0;
  /** The queue ran dry in mid-word, and the gap is being bridged. */
  private bridging = false;
  /** Bytes of the agent's audio in the packet that is sent, when the rest of it bridges a gap; null: no bridge. */
  bridgedFrom: number | null = null;
  private ranDryMs = Number.NEGATIVE_INFINITY;
  private margin = new ArrivalMargin();
  private readonly line: PlayoutSchedule;
  private readonly dtmf = new DtmfSender();
  private keyForm: KeyForm = 'event';
  /** Packets of another phone are sent in place of ours. */
  private relaying = false;
  /** Wideband codecs: the encoder, and the samples of a slot before encoding. */
  private encoder: WideEncoder | null = null;
  private wide = new Uint8Array(0);
  private keysSent: { resolve(): void; reject(error: Error): void }[] = [];

  constructor(
    private readonly sender: RtpSender,
    nowMs: number,
    private readonly hooks: ToPhoneHooks,
  ) {
    this.line = new PlayoutSchedule(nowMs, 20);
  }

  /** The agent's audio is playing. */
  get speaks(): boolean {
    return this.playing;
  }

  /** The slot that is due waited for the agent's audio. */
  get awaited(): boolean {
    return !Number.isNaN(this.heldMs);
  }

  get dueMs(): number {
    return this.line.dueMs;
  }

  /** `encoder`: the codec's encoder, for wideband codecs. */
  agree(media: AgreedMedia, encoder: WideEncoder | null = null): void {
    this.encoder = encoder;
    const bytes = encoder ? media.ptimeMs * sampleFormatOf[media.codec].bytesPerMs : 0;
    if (this.wide.length !== bytes) this.wide = new Uint8Array(bytes);
    if (this.media?.codec !== media.codec) this.playout?.changeCodec(media.codec);
    this.media = media;
    this.line.ptimeMs = media.ptimeMs;
  }

  goLive(): void {
    this.live = true;
  }

  /** Sets what the phone hears from now on. Audio already queued starts at `startMs`. */
  attach(playout: PhoneAudio | null, startMs: number): void {
    this.stopUtterance();
    this.playout = playout;
    this.margin = new ArrivalMargin();
    this.heardOwner = false;
    if (playout && playout.queuedMs > 0) this.begin(startMs);
  }

  /** While on, only relayed packets are sent, except for keys. */
  relayInstead(on: boolean): void {
    this.relaying = on;
    this.markNext = true;
    if (!on) this.sender.endRelay();
  }

  /** Sends a packet of another phone at once; false when the phone cannot take it now. */
  relay(packet: RtpView, payload: Uint8Array, codec: PhoneCodec | 'event', restarted: boolean): boolean {
    const { media, sender } = this;
    if (!this.relaying || !this.live || !media?.send || this.dtmf.active) return false;
    if (payload.length > sender.largestPayload) return false;
    const payloadType = codec === 'event' ? media.telephoneEvent?.send : media.payloadType;
    if (payloadType === undefined) return false;
    const ticks = codec === 'OPUS' ? opusPacketMs(payload) * codecFacts.OPUS.clockKhz : payload.length;
    const place = sender.packet.subarray(rtpHeaderBytes, rtpHeaderBytes + payload.length);
    if (codec === 'event' || codec === media.codec) place.set(payload);
    else mapBytes(payload, codec === 'PCMU' ? ulawToAlaw : alawToUlaw, place);
    sender.relayPacket(payloadType, payload.length, packet.marker, packet.sequence, packet.timestamp, restarted, ticks);
    return true;
  }

  /** The owner queued audio, which may have waited `waitedMs` for our thread. */
  audioQueued(durationMs: number, nowMs: number, waitedMs = 0): void {
    this.margin.arrived(nowMs, durationMs, waitedMs);
    if (!this.playout || this.playout.queuedMs === 0) return;
    if (this.playing) {
      const waitMs = this.playout.queuedMs - durationMs + this.line.dueMs - (nowMs - waitedMs);
      // Of a burst, the latest chunk keeps only the least margin: its lateness already contains the jitter.
      this.playout.spare(waitMs - leastMarginMs);
      if (this.playout.realTime) this.delays.add(waitMs);
      if (this.held && this.playout.queuedMs >= this.line.ptimeMs) this.hooks.due(nowMs);
      return;
    }
    const complete = this.playout.queuedMs >= this.line.ptimeMs;
    if (this.waiting && !complete) return;
    const late = !this.waiting && nowMs - this.ranDryMs < underrunWithinMs;
    if (late) {
      this.underruns += 1;
      this.playout.resumed(nowMs - this.ranDryMs - this.line.ptimeMs);
    }
    // A late chunk already contains its jitter: a full margin would add the delay twice.
    const marginMs = late ? leastMarginMs : this.margin.marginMs;
    this.begin(nowMs + (complete ? marginMs : this.line.ptimeMs + incompleteWaitMs));
    this.delays.add(this.line.dueMs - nowMs + waitedMs);
  }

  /** The queue was cleared: the very next slot is silence. */
  cleared(): void {
    this.stopUtterance();
    this.ranDryMs = Number.NEGATIVE_INFINITY;
  }

  /** The phone agreed to telephone events (RFC 4733). */
  get takesEvents(): boolean {
    return this.media?.telephoneEvent != null;
  }

  sendDtmf(digits: string, form: KeyForm): Promise<void> {
    const { media } = this;
    if (!media?.send || (form === 'event' && !media.telephoneEvent)) {
      return Promise.reject(new MediaError('no_telephone_event', 'The phone did not agree to telephone events.'));
    }
    if (!dtmfDigits.test(digits) || digits.length > mostDigits) {
      return Promise.reject(new MediaError('bad_digits', `Not up to ${mostDigits} digits of 0-9A-D*#w.`));
    }
    this.live = true;
    this.keyForm = form;
    this.dtmf.send(digits);
    return new Promise((resolve, reject) => this.keysSent.push({ resolve, reject }));
  }

  /**
   * When the slot that is due may be sent: `nowMs`; later, because its missing frame may still arrive; or null, when the sockets must be read
   * first: our own thread is late, and the frame may wait there.
   */
  readyAtMs(nowMs: number): number | null {
    const { line, playout } = this;
    if (!this.playing || !playout || playout.queuedMs >= line.ptimeMs || this.dtmf.active || this.relaying)
      return nowMs;
    if (nowMs - (Number.isNaN(this.lookMs) ? line.dueMs : this.lookMs) >= lateSlotMs) {
      this.ownLateMs += nowMs - (Number.isNaN(this.heldMs) ? line.dueMs : this.heldMs);
      this.lookMs = Number.POSITIVE_INFINITY;
      return null;
    }
    // An agent that is ahead of the clock, or whose utterance ended, is not waited for. Nor is one while the slot would be dropped for it.
    const untilMs = Math.min(line.dueMs, this.margin.nextMs) + graceMs + Math.min(this.ownLateMs, mostOwnLateMs);
    this.held = untilMs - nowMs > earlyMs;
    this.heldMs = nowMs;
    this.lookMs = this.held ? untilMs : Number.NaN;
    return this.held ? untilMs : nowMs;
  }

  /** Sends the slot that is due at `dueMs`. */
  slot(nowMs: number): void {
    const { line } = this;
    this.held = false;
    this.heldMs = Number.NaN;
    this.lookMs = Number.NaN;
    this.ownLateMs = 0;
    const skipped = line.skip(nowMs);
    for (let i = 0; i < skipped; i++) this.sender.endSlot(line.ptimeMs, nowMs);
    if (skipped > 0) {
      this.skippedMs += skipped * line.ptimeMs;
      this.playout?.missed(skipped * line.ptimeMs);
      this.markNext = true;
    }
    const wasPlaying = line.speaks;
    line.enter(nowMs);
    if (line.speaks && !wasPlaying) {
      this.playing = true;
      this.waiting = false;
      this.markNext = true;
    }
    if (this.dtmf.active) this.sendKey();
    else if (!this.relaying) this.sendAudio(nowMs);
    this.sender.endSlot(line.ptimeMs, nowMs);
    line.leave();
    const nearerMs = this.playing ? (this.playout?.takeNearerMs() ?? 0) : 0;
    if (nearerMs === 0 || line.comeNearer(nearerMs) || nearerMs < bearableMs) return;
    // Too far ahead for that: wait for the rest of a whole frame instead, and then remove the frame.
    line.giveBack(line.ptimeMs - nearerMs + frameSlackMs);
    this.playout?.missed(line.ptimeMs);
  }

  close(): void {
    this.dtmf.stop();
    const waiting = this.keysSent;
    this.keysSent = [];
    for (const { reject } of waiting)
      reject(new MediaError('closed', 'The session was closed before the keys were sent.'));
  }

  private begin(startMs: number): void {
    this.waiting = true;
    this.line.start(startMs);
    this.hooks.due(this.line.dueMs);
  }

  private stopUtterance(): void {
    this.bridging = false;
    this.playing = false;
    this.waiting = false;
    this.line.stop();
  }

  private sendAudio(nowMs: number): void {
    const { media, playout, sender, line, encoder } = this;
    const { bytesPerMs, silence } = sampleFormatOf[media?.codec ?? 'PCMU'];
    const length = line.ptimeMs * bytesPerMs;
    const into = encoder ? this.wide : sender.packet;
    const from = encoder ? 0 : rtpHeaderBytes;
    let filled = 0;
    if (this.playing && playout) {
      const trimmedMs = playout.trimmedMs;
      filled = playout.take(into, from, length);
      if (filled < length && this.playing) {
        this.stopUtterance();
        this.bridging = true;
        // Audio that was removed on purpose leaves no gap: the next frame gets a better phase.
        this.ranDryMs = playout.trimmedMs > trimmedMs ? Number.NEGATIVE_INFINITY : nowMs;
      }
    }
    if (filled === length) this.bridging = false;
    else if (this.bridging) this.bridging = playout?.bridge(into, from + filled, length - filled) ?? false;
    this.bridgedFrom = this.bridging ? filled : null;
    if (!this.live || !media?.send) return;
    if (filled < length && !this.bridging) into.fill(silence, from + filled, from + length);
    if (encoder) this.sendCoded(media, encoder);
    else {
      sender.sendPacket(media.payloadType, length, this.markNext);
      this.markNext = false;
    }
    if (filled > 0 && !this.heardOwner) {
      this.heardOwner = true;
      this.hooks.firstAudio?.(nowMs);
    }
  }

  private sendCoded(media: AgreedMedia, encoder: WideEncoder): void {
    const { sender, wide } = this;
    const bytes = encoder.encode(samplesOf(wide), sender.packet, rtpHeaderBytes);
    if (bytes > 0) sender.sendCoded(media.payloadType, bytes, this.markNext, wide);
    else sender.leaveOut(media.payloadType, wide);
    // After a pause in sending (DTX) the next packet begins a talkspurt (RFC 3551 section 4.1).
    this.markNext = bytes === 0;
  }

  /** Keys replace audio; the agent's audio waits meanwhile. */
  private sendKey(): void {
    const { media, sender, line, dtmf } = this;
    this.bridgedFrom = null;
    const step = dtmf.next(line.ptimeMs, media?.eventClockKhz ?? ticksPerMs);
    if (media?.send) {
      if (step.payload && this.keyForm === 'event' && media.telephoneEvent) {
        sender.packet.set(step.payload, rtpHeaderBytes);
        sender.sendPacket(media.telephoneEvent.send, step.payload.length, step.marker, step.ticksIntoPress);
      } else {
        const { bytesPerMs, silence } = sampleFormatOf[media.codec];
        const length = line.ptimeMs * bytesPerMs;
        const into = this.encoder ? this.wide : sender.packet;
        const from = this.encoder ? 0 : rtpHeaderBytes;
        if (step.key !== null && this.keyForm === 'tone')
          writeKeyTone(step.key, media.codec, step.ticksIntoPress, into, from, from + length);
        else into.fill(silence, from, from + length);
        if (this.encoder) this.sendCoded(media, this.encoder);
        else sender.sendPacket(media.payloadType, length, false);
      }
    }
    if (dtmf.active) return;
    const waiting = this.keysSent;
    this.keysSent = [];
    for (const { resolve } of waiting) resolve();
  }
}
