/**
 * Opus (RFC 6716, RFC 7587) by libopus as WebAssembly, which a thread loads with the first call that needs it. Encoder and decoder belong to
 * one session, which frees them.
 */
import type { OpusDecoderHandle, OpusEncoderHandle } from 'libopus-wasm';
import type { OpusParameters } from '../../opus-parameters.js';
import { sampleFormatOf } from '../sample-format.js';
import { holdsCopy, longestPacketMs } from './opus-packet.js';
import type { WideDecoder, WideEncoder } from './wide-codec.js';

const sampleRate = sampleFormatOf.OPUS.sampleRateHz as 24_000;
const samplesPerMs = sampleRate / 1000;
/** Of 0 to 10. From 2 on, encoding takes twice the time, for a gain that a fifth more bit rate gives as well. */
const complexity = 1;
/** Mono speech up to 12 kHz with in-band FEC (RFC 7587 section 3.1.1 recommends 24 to 40 kbit/s). */
const mostBitrate = 40_000;
/** Assumed until the far side reports its loss; below this the encoder makes no FEC data. */
const leastLossPercent = 5;
const mostLossPercent = 30;
/** The widest band of each playback rate (constants of libopus). */
const bandwidths = [
  { rateHz: 8000, bandwidth: 1101 },
  { rateHz: 12_000, bandwidth: 1102 },
  { rateHz: 16_000, bandwidth: 1103 },
  { rateHz: 24_000, bandwidth: 1104 },
] as const;

export class OpusCoder implements WideDecoder, WideEncoder {
  private readonly packet = { maxPacketBytes: 1275, frameSize: 0 };
  private readonly whole = { maxFrameSize: longestPacketMs * samplesPerMs };
  private readonly copy = { decodeFec: true, frameSize: 0 };
  private protects = false;
  private freed = false;

  private constructor(
    private readonly encoder: OpusEncoderHandle,
    private readonly decoder: OpusDecoderHandle,
  ) {}

  /** Rejects when the library cannot be loaded. */
  static async open(): Promise<OpusCoder> {
    const { Application, createDecoder, createEncoder, Signal } = await import('libopus-wasm');
    const encoder = await createEncoder({
      ...{ sampleRate, channels: 1, application: Application.Voip, signal: Signal.Voice },
      ...{ bitrate: mostBitrate, complexity },
    });
    try {
      return new OpusCoder(encoder, await createDecoder({ sampleRate, channels: 1 }));
    } catch (error) {
      encoder.free();
      throw error;
    }
  }

  /** Applies the far side's parameters (RFC 7587 section 6.1). */
  tune({ maxPlaybackRateHz, maxAverageBitrate, cbr, inbandFec, dtx }: OpusParameters): void {
    const { encoder } = this;
    const { bandwidth } = bandwidths.find(({ rateHz }) => rateHz >= maxPlaybackRateHz) ?? bandwidths[3];
    encoder.setMaxBandwidth(bandwidth);
    encoder.setBitrate(Math.min(mostBitrate, maxAverageBitrate));
    encoder.setVbr(!cbr);
    encoder.setFec(inbandFec);
    encoder.setPacketLossPercent(inbandFec ? leastLossPercent : 0);
    encoder.setDtx(dtx);
    this.protects = inbandFec;
  }

  /** Packet loss reported by the far side: the more loss, the more FEC data is sent. */
  lossHeard(percent: number): void {
    if (this.protects && !this.freed)
      this.encoder.setPacketLossPercent(Math.round(Math.min(mostLossPercent, Math.max(leastLossPercent, percent))));
  }

  encode(samples: Int16Array, into: Uint8Array, at: number): number {
    this.packet.frameSize = samples.length;
    const packet = this.encoder.encode(samples, this.packet);
    into.set(packet, at);
    // A packet of one or two bytes carries no audio in DTX (RFC 6716 section 3.1) and need not be sent.
    return packet.length <= 2 && this.encoder.getInDtx() ? 0 : packet.length;
  }

  decode(payload: Uint8Array): Int16Array | null {
    try {
      return this.decoder.decode(payload, this.whole);
    } catch {
      return null;
    }
  }

  recover(next: Uint8Array, samples: number): Int16Array | null {
    if (!holdsCopy(next)) return null;
    try {
      this.copy.frameSize = samples;
      return this.decoder.decode(next, this.copy);
    } catch {
      return null;
    }
  }

  conceal(samples: number): Int16Array {
    return this.decoder.decodePacketLoss(samples);
  }

  free(): void {
    if (this.freed) return;
    this.freed = true;
    this.encoder.free();
    this.decoder.free();
  }
}
