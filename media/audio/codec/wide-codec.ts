/** The interface of the wideband codecs: packets to the samples of their line, and back. Results are valid until the next call. */
import { Concealment } from '../dsp/concealment.js';
import { G722Decoder, G722Encoder } from './g722.js';

export interface WideEncoder {
  /** Encodes one packet; writes it at `at` and returns its length in bytes. 0 when nothing needs to be sent. */
  encode(samples: Int16Array, into: Uint8Array, at: number): number;
}

export interface WideDecoder {
  /** null when the packet is invalid. */
  decode(payload: Uint8Array): Int16Array | null;
  /** The audio of the packet before `next`, of this many samples, from FEC data in `next`; null when there is none. */
  recover(next: Uint8Array, samples: number): Int16Array | null;
  /** Concealment in place of a lost packet. */
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
