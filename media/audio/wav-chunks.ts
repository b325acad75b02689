/** The chunks of a WAV file, without decoding its audio. */

export interface WavChunks {
  kind: 'pcm16' | 'alaw' | 'ulaw';
  /** 1 or 2; samples of two channels alternate. */
  channelCount: number;
  sampleRateHz: number;
  /** A view of the file. */
  data: Uint8Array;
}

const formats = { 1: 'pcm16', 6: 'alaw', 7: 'ulaw' } as const;

/** Throws an `Error` with one sentence when the file is no WAV file of these formats. A length beyond the file's end is cut to it. */
export function readWavChunks(file: Uint8Array): WavChunks {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const tag = (at: number) => (at + 4 <= file.length ? String.fromCharCode(...file.subarray(at, at + 4)) : '');
  if (tag(0) !== 'RIFF' || tag(8) !== 'WAVE') throw new Error('Not a WAV file.');
  let format: Omit<WavChunks, 'data'> | null = null;
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
  return { ...format, data };
}
