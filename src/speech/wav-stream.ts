/** A WAV or PCM file of which the beginning is known: what is needed to read its samples as they arrive. */

export interface PcmStart {
  sampleRateHz: number;
  /** 1 or 2; samples of two channels alternate. */
  channelCount: number;
  /** Where the samples begin. */
  offset: number;
  /** Bytes of samples; Infinity when the file does not say, as servers that do not know it yet write 0 or the largest number. */
  length: number;
}

/** OpenAI's `pcm` (developers.openai.com/api/docs/guides/text-to-speech): 24 kHz, 16 bit, little-endian, without a header. */
const pcmHz = 24_000;
/** A header that is longer is none. */
const mostHeaderBytes = 8192;

/** Other rates are an error of the file. */
export function isPlayable(sampleRateHz: number): boolean {
  return Number.isInteger(sampleRateHz) && sampleRateHz >= 4000 && sampleRateHz <= 192_000;
}

/** null: it is another kind of file, which must be complete to be decoded. undefined: more is needed to say. */
export function pcmStartOf(file: Uint8Array, contentType: string): PcmStart | null | undefined {
  if (/^audio\/(pcm|l16)\b/i.test(contentType)) {
    const rate = Number(/;\s*rate=(\d+)/i.exec(contentType)?.[1] ?? pcmHz);
    const channelCount = Number(/;\s*channels=(\d+)/i.exec(contentType)?.[1] ?? 1);
    // "audio/L16" is big-endian (RFC 2586), but no speech server sends it so.
    return { sampleRateHz: rate, channelCount, offset: 0, length: Number.POSITIVE_INFINITY };
  }
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const tag = (at: number) => String.fromCharCode(...file.subarray(at, at + 4));
  if (!'RIFF'.startsWith(tag(0))) return null;
  if (file.length < 12) return undefined;
  if (tag(8) !== 'WAVE') return null;
  let format: { sampleRateHz: number; channelCount: number } | null = null;
  for (let at = 12; at + 8 <= file.length; ) {
    const size = view.getUint32(at + 4, true);
    const body = at + 8;
    if (tag(at) === 'data') {
      if (format === null) return null;
      const isKnown = size > 0 && size < 0x7fff_0000;
      return { ...format, offset: body, length: isKnown ? size : Number.POSITIVE_INFINITY };
    }
    if (tag(at) === 'fmt ') {
      if (body + 16 > file.length) return undefined;
      const channelCount = view.getUint16(body + 2, true);
      const isPcm16 = [1, 0xfffe].includes(view.getUint16(body, true)) && view.getUint16(body + 14, true) === 16;
      if (!isPcm16 || channelCount < 1 || channelCount > 2) return null;
      format = { channelCount, sampleRateHz: view.getUint32(body + 4, true) };
    }
    at = body + size + (size & 1);
    if (at > mostHeaderBytes) return null;
  }
  return undefined;
}
