/** The audio of the simulated caller, frame by frame: a tone, a recording or silence, with markers. */
import { readFileSync } from 'node:fs';
import { createResampler } from '../../../media/audio/dsp/resample.js';
import { readWav, writeWav } from '../../../media/audio/wav.js';
import { markerMs, markers, sampleRateHz } from './marker.js';

export type CallerSound =
  | { kind: 'silence' }
  | { kind: 'tone'; frequencyHz: number }
  /** Mono at 8 kHz; silence follows its end. */
  | { kind: 'samples'; samples: Int16Array };

export const markerIntervalMs = 2000;
const firstMarkerMs = 500;
const toneAmplitude = 8000;

export class CallerVoice {
  private position = 0;

  constructor(
    private readonly speech: CallerSound,
    private readonly withMarkers: boolean,
  ) {}

  /** Fills one frame. Returns the number of the marker that begins in it (from 0), or null. */
  next(frame: Int16Array): number | null {
    const start = this.position;
    for (let i = 0; i < frame.length; i++) frame[i] = this.sample(start + i);
    this.position += frame.length;
    return this.withMarkers ? this.mark(frame, start) : null;
  }

  /** A marker replaces the audio from the first frame after its time on. */
  private mark(frame: Int16Array, start: number): number | null {
    const interval = samplesIn(markerIntervalMs);
    const sinceFirst = start - Math.ceil(samplesIn(firstMarkerMs) / frame.length) * frame.length;
    if (sinceFirst < 0) return null;
    const index = Math.floor(sinceFirst / interval);
    // Frames do not divide every interval evenly (30 ms): the marker begins at the first frame start in it.
    const into = sinceFirst - Math.ceil((index * interval) / frame.length) * frame.length;
    if (into < 0 || into >= samplesIn(markerMs)) return null;
    const marker = markers[index % 2 === 0 ? 0 : 1];
    frame.set(marker.subarray(into, into + frame.length));
    if (into + frame.length > marker.length) frame.fill(0, marker.length - into);
    return into === 0 ? index : null;
  }

  private sample(at: number): number {
    const { speech } = this;
    if (speech.kind === 'tone') {
      return Math.round(toneAmplitude * Math.sin((2 * Math.PI * speech.frequencyHz * at) / sampleRateHz));
    }
    return speech.kind === 'samples' ? (speech.samples[at] ?? 0) : 0;
  }
}

/** The first channel of a WAV file at 8 kHz. Throws an error whose message names the file. */
export function speechFromWav(file: string): CallerSound {
  try {
    const wav = readWav(readFileSync(file));
    const resampler = createResampler(wav.sampleRateHz, sampleRateHz);
    return { kind: 'samples', samples: resampler.process(wav.channels[0] ?? new Int16Array(0)).slice() };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new Error(`${file}: ${code === 'ENOENT' ? 'no such file' : message}`);
  }
}

/** A WAV file of audio at 8 kHz. */
export function wavOf(samples: Int16Array): Uint8Array {
  return writeWav({ sampleRateHz, channels: [samples] });
}

function samplesIn(ms: number): number {
  return (ms * sampleRateHz) / 1000;
}
