/** The sources of `play`: clips and tones with repetition, or a stream that fills a queue. */
import type { MessagePort } from 'node:worker_threads';
import {
  type AudioSource,
  type Clip,
  MediaError,
  type PhoneCodec,
  type StreamDemand,
  type StreamMessage,
  type ToneSegment,
} from '../../engine.js';
import { linearToUlaw, mapBytes, ulawToAlaw } from '../codec/g711.js';
import { agentToPhone, type Transcode } from '../codec/transcode.js';
import { FormatConverter, sampleFormatOf, ticksPerMs } from '../sample-format.js';
import type { PhoneAudio } from './phone-audio.js';
import { Playout } from './playout.js';

const mostToneMs = 60_000;
const mostFrequencies = 4;
const tonePeak = 8000;
const highWaterMs = 2000;
const lowWaterMs = 500;

export interface PlaybackSource extends PhoneAudio {
  readonly playedMs: number;
  /** All of it was taken. */
  readonly done: boolean;
  close(): void;
}

/** Throws `MediaError` (`bad_source`). `onQueued`: a stream queued this much audio. */
export function openSource(
  source: AudioSource,
  codec: PhoneCodec,
  onQueued: (durationMs: number) => void,
): PlaybackSource {
  if (source.kind === 'stream') return new PlayedStream(source, codec, onQueued);
  const repeat = source.repeat ?? 1;
  if (!Number.isInteger(repeat) || repeat < 0)
    throw badSource('`repeat` must be a whole number; 0 repeats without end.');
  if (source.kind === 'clip') {
    if (!(source.clip instanceof SharedArrayBuffer))
      throw badSource('`clip` must be a SharedArrayBuffer of G.711 μ-law, or of 16 bit samples.');
    if (source.isWide && source.clip.byteLength % 2 !== 0) throw badSource('A wide clip has whole samples of 16 bit.');
    return new PlayedClip(source.clip, repeat, codec, source.isWide ? 'G722' : 'PCMU');
  }
  return new PlayedClip(renderTone(source.segments, source.peak ?? tonePeak), repeat, codec);
}

function badSource(message: string): MediaError {
  return new MediaError('bad_source', message);
}

/** Reads the shared bytes directly: a clip takes no memory per call. */
class PlayedClip implements PlaybackSource {
  readonly realTime = false;
  readonly trimmedMs = 0;
  private readonly bytes: Uint8Array;
  private position = 0;
  private roundsLeft: number;
  private taken = 0;
  private readonly converter: FormatConverter;
  private readonly bytesPerMs: number;

  constructor(
    clip: Clip | Uint8Array,
    repeat: number,
    private codec: PhoneCodec,
    /** The codec whose sample format the clip has. */
    private readonly format: 'PCMU' | 'G722' = 'PCMU',
  ) {
    this.bytes = clip instanceof Uint8Array ? clip : new Uint8Array(clip);
    this.bytesPerMs = sampleFormatOf[format].bytesPerMs;
    this.converter = new FormatConverter(format);
    this.roundsLeft = this.bytes.length === 0 ? 0 : repeat === 0 ? Number.POSITIVE_INFINITY : repeat;
  }

  get queuedMs(): number {
    return this.roundsLeft === 0 ? 0 : (this.bytes.length * this.roundsLeft - this.position) / this.bytesPerMs;
  }

  get done(): boolean {
    return this.roundsLeft === 0;
  }

  get playedMs(): number {
    return this.taken / this.bytesPerMs;
  }

  take(into: Uint8Array, at: number, length: number): number {
    if (this.codec === this.format) return this.takeSource(into, at, length);
    if (this.codec === 'PCMA' && this.format === 'PCMU') {
      const filled = this.takeSource(into, at, length);
      const taken = into.subarray(at, at + filled);
      mapBytes(taken, ulawToAlaw, taken);
      return filled;
    }
    return this.converter.take(into, at, length, this.codec, (source) => this.takeSource(source, 0, source.length));
  }

  private takeSource(into: Uint8Array, at: number, length: number): number {
    let filled = 0;
    while (filled < length && this.roundsLeft > 0) {
      const count = Math.min(length - filled, this.bytes.length - this.position);
      into.set(this.bytes.subarray(this.position, this.position + count), at + filled);
      filled += count;
      this.position += count;
      if (this.position < this.bytes.length) continue;
      this.position = 0;
      this.roundsLeft -= 1;
    }
    this.taken += filled;
    return filled;
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

  changeCodec(codec: PhoneCodec): void {
    this.codec = codec;
  }

  close(): void {
    this.roundsLeft = 0;
  }
}

class PlayedStream implements PlaybackSource {
  readonly realTime = false;
  private readonly queue: Playout;
  private readonly port: MessagePort;
  private decode: Transcode;
  private ended = false;
  private paused = false;
  private takenMs = 0;
  private bytesPerMs: number;

  constructor(
    private readonly source: Extract<AudioSource, { kind: 'stream' }>,
    codec: PhoneCodec,
    private readonly onQueued: (durationMs: number) => void,
  ) {
    this.queue = new Playout(codec);
    this.bytesPerMs = sampleFormatOf[codec].bytesPerMs;
    this.decode = agentToPhone(source.format, codec);
    this.port = source.port;
    this.port.on('message', (message: StreamMessage) => this.receive(message));
    this.port.on('close', () => this.end());
  }

  get queuedMs(): number {
    return this.queue.queuedMs;
  }

  get trimmedMs(): number {
    return this.queue.trimmedMs;
  }

  get done(): boolean {
    return this.ended && this.queue.queuedMs === 0;
  }

  get playedMs(): number {
    return this.takenMs;
  }

  take(into: Uint8Array, at: number, length: number): number {
    const filled = this.queue.take(into, at, length);
    this.takenMs += filled / this.bytesPerMs;
    if (this.paused && this.queue.queuedMs < lowWaterMs) this.demand('resume');
    return filled;
  }

  bridge(into: Uint8Array, at: number, length: number): boolean {
    return !this.ended && this.queue.bridge(into, at, length);
  }

  spare(ms: number): void {
    this.queue.spare(ms);
  }

  resumed(gapMs: number): void {
    this.queue.resumed(gapMs);
  }

  takeNearerMs(): number {
    return this.queue.takeNearerMs();
  }

  missed(ms: number): void {
    this.queue.missed(ms);
  }

  changeCodec(codec: PhoneCodec): void {
    this.queue.changeCodec(codec);
    this.bytesPerMs = sampleFormatOf[codec].bytesPerMs;
    this.decode = agentToPhone(this.source.format, codec);
  }

  close(): void {
    this.end();
    this.queue.clear();
  }

  private receive(message: StreamMessage): void {
    if (this.ended) return;
    if (!(message instanceof Uint8Array)) {
      if (message === 'end') this.end();
      return;
    }
    const audio = this.decode(message);
    const discarded = this.queue.push(audio);
    if (!this.paused && this.queue.queuedMs > highWaterMs) this.demand('pause');
    if (discarded < audio.length) this.onQueued((audio.length - discarded) / this.bytesPerMs);
  }

  private demand(demand: StreamDemand): void {
    this.paused = demand === 'pause';
    if (!this.ended) this.port.postMessage(demand);
  }

  private end(): void {
    if (this.ended) return;
    this.ended = true;
    this.port.close();
  }
}

function renderTone(segments: ToneSegment[], peak: number): Uint8Array {
  if (!(peak >= 0 && peak <= 32_767)) throw badSource('The peak of a tone must be between 0 and 32767.');
  const totalMs = segments.reduce((sum, segment) => sum + segment.durationMs, 0);
  if (!(totalMs > 0 && totalMs <= mostToneMs))
    throw badSource('A tone must last between 0 and 60 s before it repeats.');
  const bytes = new Uint8Array(Math.round(totalMs * ticksPerMs));
  let at = 0;
  for (const { frequenciesHz, durationMs } of segments) {
    const valid = durationMs >= 0 && frequenciesHz.length <= mostFrequencies;
    if (!valid || !frequenciesHz.every((hz) => hz > 0 && hz < 4000)) {
      throw badSource('A tone segment needs a duration and at most four frequencies between 0 and 4000 Hz.');
    }
    const end = Math.min(bytes.length, at + Math.round(durationMs * ticksPerMs));
    for (let i = at; i < end; i++) {
      let sample = 0;
      for (const hz of frequenciesHz) sample += Math.sin((2 * Math.PI * hz * (i - at)) / 8000);
      const linear = frequenciesHz.length === 0 ? 0 : Math.round((peak * sample) / frequenciesHz.length);
      bytes[i] = linearToUlaw[linear & 0xffff]!;
    }
    at = end;
  }
  bytes.fill(0xff, at);
  return bytes;
}
