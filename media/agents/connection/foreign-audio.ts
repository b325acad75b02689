/** Audio that an agent sends in another format than the conversation's. */
import { agentToAgent, type Transcode } from '../../audio/codec/transcode.js';
import type { AudioFormat } from '../agent.js';

/** Converts between the same two formats as long as they stay, so that a resampler keeps its history. */
export class ForeignAudio {
  #pair = '';
  #transcode: Transcode = (bytes) => bytes;

  /** Whole samples; the result may be kept. */
  convert(bytes: Uint8Array, from: AudioFormat, to: AudioFormat): Uint8Array {
    if (from.encoding === to.encoding && from.sampleRateHz === to.sampleRateHz) return bytes;
    const pair = `${from.encoding} ${from.sampleRateHz} ${to.encoding} ${to.sampleRateHz}`;
    if (pair !== this.#pair) {
      this.#pair = pair;
      this.#transcode = agentToAgent(from, to);
    }
    return this.#transcode(bytes);
  }
}
