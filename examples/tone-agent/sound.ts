/** The sounds of the tone agent: generating a tone, detecting one, and G.711 μ-law for the Twilio protocol. */

/** A tone at half of full scale, faded in and out over 5 ms so that it does not click. */
export function tone(frequencyHz: number, durationMs: number, sampleRateHz: number): Int16Array {
  const length = Math.round((durationMs * sampleRateHz) / 1000);
  const fade = sampleRateHz / 200;
  return Int16Array.from({ length }, (_, i) => {
    const loudness = 16_384 * Math.min(1, i / fade, (length - 1 - i) / fade);
    return Math.round(loudness * Math.sin((2 * Math.PI * frequencyHz * i) / sampleRateHz));
  });
}

/** The strongest frequency between 100 and 3400 Hz, to 1 Hz. */
export function strongestHz(samples: Int16Array, sampleRateHz: number): number {
  const around = (fromHz: number, toHz: number, stepHz: number) => {
    let best = { hz: fromHz, power: -1 };
    for (let hz = fromHz; hz <= toHz; hz += stepHz) {
      const power = goertzel(samples, hz, sampleRateHz);
      if (power > best.power) best = { hz, power };
    }
    return best.hz;
  };
  // The main lobe of a block is two blocks wide, so this step cannot miss it.
  const step = Math.max(1, Math.floor(sampleRateHz / samples.length / 2));
  const coarse = around(100, 3400, step);
  return around(coarse - step, coarse + step, 1);
}

/** Power of one frequency in a block. */
export function goertzel(samples: Int16Array, frequencyHz: number, sampleRateHz: number): number {
  const coefficient = 2 * Math.cos((2 * Math.PI * frequencyHz) / sampleRateHz);
  let previous = 0;
  let beforePrevious = 0;
  for (const sample of samples) {
    const present = sample + coefficient * previous - beforePrevious;
    beforePrevious = previous;
    previous = present;
  }
  return previous * previous + beforePrevious * beforePrevious - coefficient * previous * beforePrevious;
}

/** Root mean square; a full-scale sine has 23170. */
export function loudness(samples: Int16Array): number {
  let sum = 0;
  for (const sample of samples) sum += sample * sample;
  return Math.sqrt(sum / Math.max(1, samples.length));
}

const ULAW_BIAS = 0x84;
const ULAW_CLIP = 32_635;

/** G.711 μ-law: sign, three bits of exponent, four bits of mantissa, all inverted. */
export function encodeUlaw(samples: Int16Array): Buffer {
  const bytes = Buffer.alloc(samples.length);
  for (const [i, sample] of samples.entries()) {
    const magnitude = Math.min(ULAW_CLIP, Math.abs(sample)) + ULAW_BIAS;
    const exponent = 31 - Math.clz32(magnitude) - 7;
    const mantissa = (magnitude >> (exponent + 3)) & 0x0f;
    bytes[i] = ~((sample < 0 ? 0x80 : 0) | (exponent << 4) | mantissa);
  }
  return bytes;
}

export function decodeUlaw(bytes: Uint8Array): Int16Array {
  return Int16Array.from(bytes, (inverted) => {
    const byte = ~inverted;
    const magnitude = ((((byte & 0x0f) << 3) + ULAW_BIAS) << ((byte >> 4) & 7)) - ULAW_BIAS;
    return byte & 0x80 ? -magnitude : magnitude;
  });
}

/** Little-endian 16 bit, as on the wire; an odd last byte is dropped. */
export function decodeL16(bytes: Buffer): Int16Array {
  return Int16Array.from({ length: bytes.length >> 1 }, (_, i) => bytes.readInt16LE(2 * i));
}

export function encodeL16(samples: Int16Array): Buffer {
  const bytes = Buffer.alloc(2 * samples.length);
  for (const [i, sample] of samples.entries()) bytes.writeInt16LE(sample, 2 * i);
  return bytes;
}
