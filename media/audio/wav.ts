/** WAV files in memory: 16 bit PCM and G.711, mono or stereo. */
import { alawToLinear, ulawToLinear } from './codec/g711.js';
import { readWavChunks } from './wav-chunks.js';

export interface Wav {
  sampleRateHz: number;
  channels: Int16Array[];
}

/** Throws an `Error` with one sentence when the file is no WAV file of these formats. A length beyond the file's end is cut to it. */
export function readWav(file: Uint8Array): Wav {
  const { kind, channelCount, sampleRateHz, data } = readWavChunks(file);
  const bytesPerSample = kind === 'pcm16' ? 2 : 1;
  const frames = Math.floor(data.length / bytesPerSample / channelCount);
  const samples = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const channels = Array.from({ length: channelCount }, () => new Int16Array(frames));
  const toLinear = kind === 'ulaw' ? ulawToLinear : alawToLinear;
  for (const [channel, linear] of channels.entries())
    for (let frame = 0, at = channel * bytesPerSample; frame < frames; frame += 1, at += channelCount * bytesPerSample)
      linear[frame] = kind === 'pcm16' ? samples.getInt16(at, true) : toLinear[samples.getUint8(at)]!;
  return { sampleRateHz, channels };
}

/** 16 bit PCM. Shorter channels are filled with silence. */
export function writeWav({ sampleRateHz, channels }: Wav): Uint8Array {
  const frames = Math.max(0, ...channels.map((channel) => channel.length));
  const blockBytes = channels.length * 2;
  const dataBytes = frames * blockBytes;
  const file = new Uint8Array(44 + dataBytes);
  const view = new DataView(file.buffer);
  const text = (at: number, value: string) => file.set(new TextEncoder().encode(value), at);
  text(0, 'RIFF');
  view.setUint32(4, 36 + dataBytes, true);
  text(8, 'WAVEfmt ');
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, channels.length, true);
  view.setUint32(24, sampleRateHz, true);
  view.setUint32(28, sampleRateHz * blockBytes, true);
  view.setUint16(32, blockBytes, true);
  view.setUint16(34, 16, true);
  text(36, 'data');
  view.setUint32(40, dataBytes, true);
  channels.forEach((channel, index) => {
    for (let frame = 0; frame < frames; frame++) {
      view.setInt16(44 + frame * blockBytes + index * 2, channel[frame] ?? 0, true);
    }
  });
  return file;
}
