/** The wideband coders of one session: created when its SDP asks for them and freed with the session. G.711 needs none. */
import type { OpusCoder } from '../../audio/codec/opus.js';
import { G722Coder, type WideDecoder, type WideEncoder } from '../../audio/codec/wide-codec.js';
import type { PhoneCodec } from '../../engine.js';
import type { AgreedMedia } from '../../sdp.js';

export class SessionCoders {
  private g722: G722Coder | null = null;
  private opus: OpusCoder | null = null;
  private freed = false;

  /**
   * Called before an SDP is applied that may choose Opus: the first such call on a thread loads the library. Rejects when the library cannot
   * be loaded.
   */
  async prepare(sdp: string, codecs: readonly PhoneCodec[]): Promise<void> {
    if (this.opus !== null || !codecs.includes('OPUS') || !/^a=rtpmap:\d+ opus\//im.test(sdp)) return;
    const { OpusCoder } = await import('../../audio/codec/opus.js');
    const opened = await OpusCoder.open();
    // Another SDP opened one meanwhile, or the call is over.
    if (this.freed || this.opus !== null) opened.free();
    else this.opus = opened;
  }

  /** null when the codec is not available or needs no coder. */
  of(codec: PhoneCodec): (WideDecoder & WideEncoder) | null {
    if (codec === 'OPUS') return this.opus;
    if (codec !== 'G722') return null;
    this.g722 ??= new G722Coder();
    return this.g722;
  }

  /** The encoder for the agreed codec. */
  agree({ codec, opus }: AgreedMedia): WideEncoder | null {
    if (codec === 'OPUS') this.opus?.tune(opus);
    return this.of(codec);
  }

  /** Packet loss of our stream, as reported by the far side. */
  lossHeard(percent: number): void {
    this.opus?.lossHeard(percent);
  }

  free(): void {
    this.freed = true;
    this.opus?.free();
    this.opus = null;
    this.g722 = null;
  }
}
