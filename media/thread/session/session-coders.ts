/** The wideband coders of one session: made when its SDP asks for them, freed with it. G.711 needs none. */
import type { OpusCoder } from '../../audio/codec/opus.js';
import { G722Coder, type WideDecoder, type WideEncoder } from '../../audio/codec/wide-codec.js';
import type { PhoneCodec } from '../../engine.js';
import type { AgreedMedia } from '../../sdp.js';

export class SessionCoders {
  private g722: G722Coder | null = null;
  private opus: OpusCoder | null = null;
  private freed = false;

  /**
   * To be called before an SDP is taken that may choose Opus: the library is loaded by the first call of a thread that does. Rejects when it
   * cannot be.
   */
  async prepare(sdp: string, codecs: readonly PhoneCodec[]): Promise<void> {
    if (this.opus !== null || !codecs.includes('OPUS') || !/^a=rtpmap:\d+ opus\//im.test(sdp)) return;
    const { OpusCoder } = await import('../../audio/codec/opus.js');
    const opened = await OpusCoder.open();
    // Two SDPs at a time, or the call was over meanwhile.
    if (this.freed || this.opus !== null) opened.free();
    else this.opus = opened;
  }

  /** null: the codec is not there, or none is needed. */
  of(codec: PhoneCodec): (WideDecoder & WideEncoder) | null {
    if (codec === 'OPUS') return this.opus;
    if (codec !== 'G722') return null;
    this.g722 ??= new G722Coder();
    return this.g722;
  }

  /** The encoder for what was agreed. */
  agree({ codec, opus }: AgreedMedia): WideEncoder | null {
    if (codec === 'OPUS') this.opus?.tune(opus);
    return this.of(codec);
  }

  /** The far side loses so much of what we send. */
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
