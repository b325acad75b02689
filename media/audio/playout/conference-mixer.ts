/**
 * The shared memory of a conference. Each seat has a ring of 20 ms frames at 8 kHz: its own session writes it, and the sessions of all other
 * seats read it when their phones are due. Nothing is copied between threads, and a thread that dies takes only its own phones along.
 */
import type { PhoneCodec, RedactedMedia } from '../../engine.js';
import { alawToLinear, linearToAlaw, linearToUlaw, silenceByte, ulawToLinear } from '../codec/g711.js';
import { FormatConverter, sampleFormatOf } from '../sample-format.js';
import type { PhoneAudio } from './phone-audio.js';

export const roomFrame = 160;
const frameBytes = roomFrame * 2;
/** Length of a seat's ring: more than a reader may fall behind. */
const ringFrames = 32;
/** A frame without a sample above this (-60 dBFS) is silence and is not mixed. */
const silentBelow = 32;
/** A frame with a sample above this (-36 dBFS) is speech. */
const speechAbove = 500;
/** Speech continues across pauses of 500 ms. */
const speechHoldFrames = 25;
/** Jitter buffer, in frames: how many wait before a voice begins. One more after each gap, one less after ten seconds without a gap. */
const fewestWaiting = 2;
const mostWaiting = 8;
const calmFrames = 500;
/** Above this delay frames are skipped, even within speech. */
const latest = 12;
/** Sums above this are compressed, so that they never clip. */
const kneeAt = 24_000;
const aboveKnee = 32_767 - kneeAt;

const word = { entered: 0, left: 1, seats: 2, recording: 3, redacted: 4, words: 5 } as const;
const seatWord = { muted: 0, written: 1, spoke: 2, words: 3 } as const;
type Law = 'PCMU' | 'PCMA';
const linearOf = { PCMU: ulawToLinear, PCMA: alawToLinear };
const codeOf = { PCMU: linearToUlaw, PCMA: linearToAlaw };

/** State of the room's recording. */
export type RoomRecordingOrder = 'go' | 'pause' | 'stop';
/** Bits of the word `redacted`; above them `lateMs`. */
const redacted = { audio: 1, keys: 2, lateFrom: 4 } as const;
const orders: readonly RoomRecordingOrder[] = ['go', 'pause', 'stop'];

/** A view of the shared memory, created on each thread. */
export class Room {
  private readonly words: Int32Array;
  private readonly loud: Uint8Array;
  private readonly samples: Int16Array;

  static memory(seats: number): SharedArrayBuffer {
    const perSeat = seatWord.words * 4 + ringFrames * (1 + frameBytes);
    return new SharedArrayBuffer(word.words * 4 + seats * perSeat);
  }

  constructor(memory: SharedArrayBuffer) {
    const perSeat = seatWord.words * 4 + ringFrames * (1 + frameBytes);
    const seats = (memory.byteLength - word.words * 4) / perSeat;
    this.words = new Int32Array(memory, 0, word.words + seats * seatWord.words);
    this.samples = new Int16Array(memory, this.words.byteLength, seats * ringFrames * roomFrame);
    this.loud = new Uint8Array(memory, this.words.byteLength + this.samples.byteLength, seats * ringFrames);
  }

  /** Number of seats that were ever taken. */
  get seats(): number {
    return Atomics.load(this.words, word.seats);
  }

  set seats(count: number) {
    Atomics.store(this.words, word.seats, count);
  }

  /** How often each beep was requested. */
  beeps(kind: 'entered' | 'left'): number {
    return Atomics.load(this.words, word[kind]);
  }

  beep(kind: 'entered' | 'left'): void {
    Atomics.add(this.words, word[kind], 1);
  }

  get recording(): RoomRecordingOrder {
    return orders[Atomics.load(this.words, word.recording)] ?? 'stop';
  }

  set recording(order: RoomRecordingOrder) {
    Atomics.store(this.words, word.recording, orders.indexOf(order));
  }

  /** What is kept out of its recording; a number that changes with it. */
  get redactedWord(): number {
    return Atomics.load(this.words, word.redacted);
  }

  get redacted(): RedactedMedia {
    const bits = this.redactedWord;
    return {
      ...{ audio: (bits & redacted.audio) !== 0, streams: false, keys: (bits & redacted.keys) !== 0 },
      lateMs: Math.floor(bits / redacted.lateFrom),
    };
  }

  set redacted({ audio, keys, lateMs = 0 }: RedactedMedia) {
    const bits = (audio ? redacted.audio : 0) | (keys ? redacted.keys : 0) | (lateMs * redacted.lateFrom);
    Atomics.store(this.words, word.redacted, bits);
  }

  mute(seat: number, muted: boolean): void {
    Atomics.store(this.words, this.at(seat) + seatWord.muted, muted ? 1 : 0);
  }

  /** Number of frames this seat has written. */
  written(seat: number): number {
    return Atomics.load(this.words, this.at(seat) + seatWord.written);
  }

  speaks(seat: number): boolean {
    const spoke = Atomics.load(this.words, this.at(seat) + seatWord.spoke);
    return spoke > 0 && this.written(seat) - spoke < speechHoldFrames;
  }

  isLoud(seat: number, frame: number): boolean {
    return this.loud[seat * ringFrames + (frame % ringFrames)] === 1;
  }

  /** `bytes`: 20 ms of the phone at 8 kHz; null writes silence. */
  write(seat: number, bytes: Uint8Array | null, codec: Law): void {
    const at = this.at(seat);
    const written = Atomics.load(this.words, at + seatWord.written);
    const slot = seat * ringFrames + (written % ringFrames);
    let peak = 0;
    if (bytes !== null && Atomics.load(this.words, at + seatWord.muted) === 0) {
      const linear = linearOf[codec];
      const from = slot * roomFrame;
      for (let i = 0; i < roomFrame; i++) {
        const sample = linear[bytes[i]!]!;
        this.samples[from + i] = sample;
        if (sample > peak) peak = sample;
        else if (-sample > peak) peak = -sample;
      }
    }
    this.loud[slot] = peak > silentBelow ? 1 : 0;
    if (peak > speechAbove) Atomics.store(this.words, at + seatWord.spoke, written + 1);
    Atomics.store(this.words, at + seatWord.written, written + 1);
  }

  /** Adds a frame of a seat to a sum. */
  add(seat: number, frame: number, sum: Int32Array): void {
    const from = (seat * ringFrames + (frame % ringFrames)) * roomFrame;
    for (let i = 0; i < roomFrame; i++) sum[i]! += this.samples[from + i]!;
  }

  private at(seat: number): number {
    return word.words + seat * seatWord.words;
  }
}

/** The audio for one seat: all the others, without end. `seat` -1 gets everybody. */
export class MixMinus implements PhoneAudio {
  readonly queuedMs = Number.POSITIVE_INFINITY;
  readonly realTime = false;
  readonly trimmedMs = 0;
  private readonly voices: Voice[] = [];
  private readonly sum = new Int32Array(roomFrame);
  private isSilent = true;
  private given: number = roomFrame;
  private readonly beeps: Beep[];
  private readonly wide = new FormatConverter();

  constructor(
    private readonly room: Room,
    private readonly seat: number,
    private codec: PhoneCodec,
  ) {
    this.beeps = [new Beep(room, 'entered'), new Beep(room, 'left')];
  }

  take(into: Uint8Array, at: number, length: number): number {
    if (!sampleFormatOf[this.codec].linear)
      return this.takeLaw(into, at, length, this.codec === 'PCMA' ? 'PCMA' : 'PCMU');
    return this.wide.take(into, at, length, this.codec, (law) => this.takeLaw(law, 0, law.length, 'PCMU'));
  }

  private takeLaw(into: Uint8Array, at: number, length: number, law: Law): number {
    for (let filled = 0; filled < length; ) {
      if (this.given === roomFrame) this.mix();
      const count = Math.min(length - filled, roomFrame - this.given);
      this.write(into, at + filled, count, law);
      filled += count;
      this.given += count;
    }
    return length;
  }

  changeCodec(codec: PhoneCodec): void {
    this.codec = codec;
  }

  bridge(): boolean {
    return false;
  }

  spare(): void {}

  resumed(): void {}

  takeNearerMs(): number {
    return 0;
  }

  missed(): void {}

  private write(into: Uint8Array, at: number, count: number, law: Law): void {
    if (this.isSilent) {
      into.fill(silenceByte[law], at, at + count);
      return;
    }
    const codes = codeOf[law];
    for (let i = 0; i < count; i++) into[at + i] = codes[pressed(this.sum[this.given + i]!) & 0xffff]!;
  }

  private mix(): void {
    const { room, sum, seat, voices } = this;
    this.given = 0;
    if (!this.isSilent) sum.fill(0);
    this.isSilent = true;
    const { seats } = room;
    while (voices.length < seats) voices.push(new Voice(room, voices.length));
    for (let other = 0; other < seats; other++) {
      if (other !== seat && voices[other]!.addTo(sum)) this.isSilent = false;
    }
    for (const beep of this.beeps) if (beep.addTo(sum)) this.isSilent = false;
  }
}

/** One seat's audio as read by another seat, with a small delay as jitter buffer. Excess delay is removed in silence. */
class Voice {
  private next: number;
  private waiting = fewestWaiting;
  private begun = false;
  private wasLoud = false;
  private calm = 0;

  constructor(
    private readonly room: Room,
    private readonly seat: number,
  ) {
    this.next = room.written(seat);
  }

  /** False when the seat is silent now. */
  addTo(sum: Int32Array): boolean {
    const { room, seat } = this;
    const written = room.written(seat);
    if (written - this.next > latest) this.next = written - this.waiting;
    while (written - this.next > this.waiting + 1 && !room.isLoud(seat, this.next)) this.next += 1;
    const ahead = written - this.next;
    if (ahead === 0 || (!this.begun && ahead < this.waiting)) {
      if (this.begun && this.wasLoud) this.waiting = Math.min(mostWaiting, this.waiting + 1);
      this.begun = false;
      this.wasLoud = false;
      this.calm = 0;
      return false;
    }
    this.begun = true;
    this.calm += 1;
    if (this.calm % calmFrames === 0) this.waiting = Math.max(fewestWaiting, this.waiting - 1);
    this.wasLoud = room.isLoud(seat, this.next);
    if (this.wasLoud) room.add(seat, this.next, sum);
    this.next += 1;
    return this.wasLoud;
  }
}

/** Each seat generates the beeps for itself. */
class Beep {
  private heard: number;
  private readonly samples: Int16Array;
  private at: number;

  constructor(
    private readonly room: Room,
    private readonly kind: 'entered' | 'left',
  ) {
    this.heard = room.beeps(kind);
    this.samples = beepSamples[kind];
    this.at = this.samples.length;
  }

  addTo(sum: Int32Array): boolean {
    const asked = this.room.beeps(this.kind);
    if (asked !== this.heard) {
      this.heard = asked;
      this.at = 0;
    }
    if (this.at >= this.samples.length) return false;
    for (let i = 0; i < roomFrame; i++) sum[i]! += this.samples[this.at + i] ?? 0;
    this.at += roomFrame;
    return true;
  }
}

/** Rising when a participant enters, falling when one leaves. */
const beepSamples = { entered: twoTones(620, 830), left: twoTones(830, 620) };

function twoTones(firstHz: number, secondHz: number): Int16Array {
  const half = roomFrame * 5;
  return Int16Array.from({ length: 2 * half }, (_, i) => {
    const phase = (2 * Math.PI * (i < half ? firstHz : secondHz) * i) / 8000;
    return Math.round(3000 * Math.sin(phase) * Math.min(1, (i % half) / 80, (half - (i % half)) / 80));
  });
}

/** Soft limiter: linear up to the knee, compressed above it so that no sum reaches the end of the scale. */
function pressed(sum: number): number {
  if (sum <= kneeAt && sum >= -kneeAt) return sum;
  const over = Math.abs(sum) - kneeAt;
  const bent = kneeAt + Math.floor((aboveKnee * over) / (aboveKnee + over));
  return sum < 0 ? -bent : bent;
}
