/** WAV files in memory: 16 bit PCM and G.711, mono or stereo. */
import { alawToLinear, ulawToLinear } from './codec/g711.js';

export interface Wav {
  sampleRateHz: number;
  channels: Int16Array[];
}

const formats = { 1: 'pcm16', 6: 'alaw', 7: 'ulaw' } as const;

/** Throws an `Error` with one sentence when the file is no WAV file of these formats. A length beyond the file's end is cut to it. */
export function readWav(file: Uint8Array): Wav {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const tag = (at: number) => (at + 4 <= file.length ? String.fromCharCode(...file.subarray(at, at + 4)) : '');
  if (tag(0) !== 'RIFF' || tag(8) !== 'WAVE') throw new Error('Not a WAV file.');
  let format: { kind: 'pcm16' | 'alaw' | 'ulaw'; channelCount: number; sampleRateHz: number } | null = null;
  let data: Uint8Array | null = null;
  for (let at = 12; at + 8 <= file.length && !data; ) {
    const size = view.getUint32(at + 4, true);
    const body = at + 8;
    const end = Math.min(body + size, file.length);
    if (tag(at) === 'fmt ' && end - body >= 16) {
      const kind = formats[view.getUint16(body, true) as keyof typeof formats];
      const channelCount = view.getUint16(body + 2, true);
      const bits = view.getUint16(body + 14, true);
      if (!kind || bits !== (kind === 'pcm16' ? 16 : 8))
        throw new Error('The WAV file is neither 16 bit PCM nor G.711.');
      if (channelCount < 1 || channelCount > 2) throw new Error('The WAV file has more than two channels.');
      format = { kind, channelCount, sampleRateHz: view.getUint32(body + 4, true) };
    } else if (tag(at) === 'data') data = file.subarray(body, end);
    at = body + size + (size & 1);
  }
  if (!format || !data) throw new Error('The WAV file has no audio.');
  const { kind, channelCount, sampleRateHz } = format;
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
