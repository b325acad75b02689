/** Sends audio to a reader on another thread, in chunks of linear samples. Chunks beyond the reader's backlog limit are dropped. */
import type { MessagePort } from 'node:worker_threads';
import type { AudioTrack, AudioTracks } from '../../agents/agent.js';
import { createResampler, type Resampler } from '../../audio/dsp/resample.js';
import { readSamples, sampleFormatOf } from '../../audio/sample-format.js';
import { ScratchBuffer } from '../../audio/scratch-buffer.js';
import type { PhoneCodec, TapChunk, TapEnd, TapMessage, TapOptions } from '../../engine.js';
import type { Listener } from './listener-streams.js';

const waitingAtMostMs = 10_000;

interface Line {
  samples: Int16Array;
  filled: number;
  startMs: number;
  droppedMs: number;
  codec: PhoneCodec;
  resampler: Resampler;
}

export class AudioTap implements Listener {
  readonly tracks: AudioTracks;
  private readonly lines = new Map<AudioTrack, Line>();
  private readonly decoded = new ScratchBuffer(Int16Array);
  private waitingMs = 0;
  private droppedMs = 0;
  private over = false;

  constructor(
    private readonly port: MessagePort,
    private readonly options: TapOptions,
    private readonly settle: (end: TapEnd) => void,
  ) {
    this.tracks = options.tracks;
    port.on('message', () => {
      this.waitingMs = Math.max(0, this.waitingMs - options.chunkMs);
    });
    port.on('close', () => this.end('closed'));
  }

  hear(track: AudioTrack, frame: Uint8Array, codec: PhoneCodec, atMs: number): void {
    if (this.over) return;
    const line = this.line(track, codec);
    const samples = line.resampler.process(readSamples(frame, codec, this.decoded));
    if (line.filled === 0) line.startMs = atMs;
    for (let from = 0; from < samples.length; ) {
      const count = Math.min(samples.length - from, line.samples.length - line.filled);
      line.samples.set(samples.subarray(from, from + count), line.filled);
      line.filled += count;
      from += count;
      if (line.filled === line.samples.length) this.post(track, line);
    }
  }

  end(by: TapEnd['by']): void {
    if (this.over) return;
    for (const [track, line] of this.lines) if (line.filled > 0) this.post(track, line);
    this.over = true;
    this.port.postMessage('end' satisfies TapMessage);
    this.port.close();
    this.settle({ by, droppedMs: this.droppedMs });
  }

  private post(track: AudioTrack, line: Line): void {
    const { chunkMs } = this.options;
    const { samples, filled, startMs, droppedMs } = line;
    line.filled = 0;
    if (this.waitingMs + chunkMs > waitingAtMostMs) {
      line.droppedMs += chunkMs;
      this.droppedMs += chunkMs;
      return;
    }
    this.waitingMs += chunkMs;
    line.droppedMs = 0;
    line.samples = new Int16Array(samples.length);
    const whole = filled === samples.length ? samples : samples.slice(0, filled);
    this.port.postMessage({ track, startMs, samples: whole, droppedMs } satisfies TapChunk, [
      whole.buffer as ArrayBuffer,
    ]);
  }

  private line(track: AudioTrack, codec: PhoneCodec): Line {
    const { chunkMs, sampleRateHz } = this.options;
    let line = this.lines.get(track);
    if (!line) {
      const samples = new Int16Array((chunkMs * sampleRateHz) / 1000);
      const resampler = createResampler(sampleFormatOf[codec].sampleRateHz, sampleRateHz);
      line = { samples, filled: 0, startMs: 0, droppedMs: 0, codec, resampler };
      this.lines.set(track, line);
    } else if (line.codec !== codec) {
      line.codec = codec;
      line.resampler = createResampler(sampleFormatOf[codec].sampleRateHz, sampleRateHz);
    }
    return line;
  }
}
