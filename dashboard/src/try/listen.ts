/** Plays the two sides of a call as they come, caller on the left and agent on the right. */

const sampleRateHz = 8_000;
/** Against gaps: what comes is played so much later. */
const bufferSec = 0.25;

export class Listener {
  private readonly context = new AudioContext();
  private readonly pans: Record<'caller' | 'agent', StereoPannerNode>;
  private readonly nextSec = { caller: 0, agent: 0 };
  private readonly gain: GainNode;

  constructor() {
    this.gain = this.context.createGain();
    this.gain.connect(this.context.destination);
    const pan = (value: number) => {
      const node = new StereoPannerNode(this.context, { pan: value });
      node.connect(this.gain);
      return node;
    };
    this.pans = { caller: pan(-0.7), agent: pan(0.7) };
    void this.context.resume();
  }

  set isAudible(audible: boolean) {
    this.gain.gain.value = audible ? 1 : 0;
  }

  /** Returns the loudest sample, from 0 to 1. */
  play(side: 'caller' | 'agent', samples: Float32Array<ArrayBuffer>): number {
    if (samples.length === 0) return 0;
    const buffer = this.context.createBuffer(1, samples.length, sampleRateHz);
    buffer.copyToChannel(samples, 0);
    const source = this.context.createBufferSource();
    source.buffer = buffer;
    source.connect(this.pans[side]);
    const startSec = Math.max(this.nextSec[side], this.context.currentTime + bufferSec);
    source.start(startSec);
    this.nextSec[side] = startSec + buffer.duration;
    return samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
  }

  /** Idempotent. */
  close(): void {
    if (this.context.state !== 'closed') void this.context.close();
  }
}

/** Signed 16-bit little-endian samples in base64. */
export function samplesOf(base64: string): Float32Array<ArrayBuffer> {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const samples = new Float32Array(bytes.length >> 1);
  for (let i = 0; i < samples.length; i += 1) samples[i] = view.getInt16(i * 2, true) / 32_768;
  return samples;
}
