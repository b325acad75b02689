/** Converts samples to the audio encoding of a provider, and back. */
import { decodeL16, decodeUlaw, encodeL16, encodeUlaw } from '../../../examples/tone-agent/sound.js';
import { alawToUlaw, ulawToAlaw } from '../../../media/audio/codec/g711.js';

export type WireEncoding = 'ulaw' | 'alaw' | 'l16';

export function encodeAudio(samples: Int16Array, encoding: WireEncoding): Buffer {
  if (encoding === 'l16') return encodeL16(samples);
  const ulaw = encodeUlaw(samples);
  return encoding === 'ulaw' ? ulaw : Buffer.from(ulaw.map((byte) => ulawToAlaw[byte] ?? 0));
}

export function decodeAudio(bytes: Buffer, encoding: WireEncoding): Int16Array {
  if (encoding === 'l16') return decodeL16(bytes);
  return decodeUlaw(encoding === 'ulaw' ? bytes : bytes.map((byte) => alawToUlaw[byte] ?? 0));
}
