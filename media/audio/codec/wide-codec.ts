/** What the wideband codecs do: packets to the samples of their line, and back. Results are valid until the next call. */
import { Concealment } from '../dsp/concealment.js';
import { G722Decoder, G722Encoder } from './g722.js';

export interface WideEncoder {
  /** One packet's worth of samples; writes at `at` and returns how many bytes. 0: nothing needs to be sent. */
  encode(samples: Int16Array, into: Uint8Array, at: number): number;
}

export interface WideDecoder {
  /** null: this is no packet. */
  decode(payload: Uint8Array): Int16Array | null;
  /** What the packet before this one said, so many samples; null: it does not know. */
  recover(next: Uint8Array, samples: number): Int16Array | null;
  /** What may have been said in place of a packet that did not come. */
  conceal(samples: number): Int16Array;
}

const mostSamples = 1920;

export class G722Coder implements WideDecoder, WideEncoder {
  private readonly encoder = new G722Encoder();
  private readonly decoder = new G722Decoder();
  private readonly concealment = new Concealment('G722', Int16Array);
  private readonly samples = new Int16Array(mostSamples);

  encode(samples: Int16Array, into: Uint8Array, at: number): number {
    return this.encoder.encode(samples, into, at);
  }

  decode(payload: Uint8Array): Int16Array {
    const count = this.decoder.decode(payload, this.samples);
    return this.concealment.heard(this.samples.subarray(0, count));
  }

  recover(): null {
    return null;
  }

  conceal(samples: number): Int16Array {
    const made = this.samples.subarray(0, Math.min(samples, mostSamples));
    this.concealment.fill(made, 0, made.length);
    return made;
  }
}
