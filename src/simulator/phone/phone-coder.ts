/** The simulated phone's codec: frames at 8 kHz to packets, and packets to samples at 8 kHz. */
import { readSamples, sampleConverter, samplesOf, writeSamples } from '../../../media/audio/sample-format.js';
import { ScratchBuffer } from '../../../media/audio/scratch-buffer.js';
import type { PhoneCodec } from '../../../media/engine.js';
import type { AgreedMedia } from '../../../media/sdp.js';
import { SessionCoders } from '../../../media/thread/session/session-coders.js';

const mostPacketBytes = 1275;

export class PhoneCoder {
  private readonly coders = new SessionCoders();
  private readonly packet = new Uint8Array(mostPacketBytes);
  private readonly samples = new ScratchBuffer(Int16Array);
  private sending: { codec: PhoneCodec; widen: (law: Uint8Array) => Uint8Array } | null = null;
  private receiving: { codec: PhoneCodec; narrow: (line: Uint8Array) => Uint8Array } | null = null;

  /** Call it before an SDP that may choose Opus is applied. */
  prepare(sdp: string, codecs: readonly PhoneCodec[]): Promise<void> {
    return this.coders.prepare(sdp, codecs);
  }

  agree(agreed: AgreedMedia): void {
    this.coders.agree(agreed);
  }

  /** Encodes one packet; valid until the next call. */
  encode(frame: Int16Array, codec: PhoneCodec): Uint8Array {
    const coder = this.coders.of(codec);
    if (!coder) return writeSamples(frame, codec);
    if (this.sending?.codec !== codec) this.sending = { codec, widen: sampleConverter('PCMU', codec) };
    const wide = samplesOf(this.sending.widen(writeSamples(frame, 'PCMU')));
    return this.packet.subarray(0, coder.encode(wide, this.packet, 0));
  }

  /** Decodes one packet; valid until the next call, empty for an invalid packet. */
  decode(payload: Uint8Array, codec: PhoneCodec): Int16Array {
    const coder = this.coders.of(codec);
    if (!coder) return readSamples(payload, codec, this.samples);
    const wide = coder.decode(payload);
    if (!wide) return this.samples.ofLength(0);
    if (this.receiving?.codec !== codec) this.receiving = { codec, narrow: sampleConverter(codec, 'PCMU') };
    const bytes = new Uint8Array(wide.buffer, wide.byteOffset, wide.byteLength);
    return readSamples(this.receiving.narrow(bytes), 'PCMU', this.samples);
  }

  free(): void {
    this.coders.free();
  }
}
