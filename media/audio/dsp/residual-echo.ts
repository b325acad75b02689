/**
 * The non-linear part of an echo canceller (ITU-T G.168, NLP): what the filter left of an echo is brought down to the noise of the caller's
 * line. It is an echo when it is about as loud as the filter's echoes lately left; what is louder is the caller, who passes as he is.
 */

/** What is left is compared with the echo as the filter made it: the caller is this much louder. */
const callerFactor = 4;
/** After the caller's last word, so that it does not lose its end. */
const callerHoldMs = 120;
/** A room goes on sounding: 60 dB in half a second. */
const fadePerMs = 10 ** (-6 / 500);
/** The background is what was softest lately: 4 dB more in a second, and never less than what G.711 makes of silence. */
const noiseRisePerMs = 10 ** (0.4 / 1000);
const leastNoise = 9;
/** The power of an echo, as a share of what was sent. */
const usualReturn = 0.1;
/** How fast the estimate of what is left follows: softer, louder, and while the caller speaks. */
const leakFall = 0.3;
const leakRise = 0.1;
const leakRiseOverCaller = 1.01;
/** The echo that the filter makes tells something from this much above the noise. */
const clearFactor = 10;
const least = 1e-4;

export class ResidualEcho {
  /** Share of the made echo's power that is left without it. */
  private leak = 1;
  private noise = Number.POSITIVE_INFINITY;
  private expected = 0;
  private callerMs = 0;

  /** What the last block was: nothing but an echo. */
  isEcho = false;

  /**
   * The gain of a block: the mean squares of the echo that the filter made, of what it does not know of an echo as loud as the sent audio, and
   * of what is left.
   */
  gain(made: number, uncertain: number, left: number, durationMs: number): number {
    this.noise = Math.max(leastNoise, Math.min(left, this.noise * noiseRisePerMs ** durationMs));
    const { noise } = this;
    this.expected = Math.max(this.leak * made, usualReturn * uncertain, this.expected * fadePerMs ** durationMs);
    const isCaller = left > callerFactor * this.expected + 2 * noise;
    if (made > clearFactor * noise) this.learn(Math.max(0, left - noise) / made, isCaller);
    this.callerMs = isCaller ? callerHoldMs : Math.max(0, this.callerMs - durationMs);
    this.isEcho = this.callerMs === 0;
    return this.isEcho ? Math.min(1, Math.sqrt(noise / Math.max(1, left))) : 1;
  }

  private learn(share: number, isCaller: boolean): void {
    if (isCaller) this.leak *= leakRiseOverCaller;
    else this.leak += (share < this.leak ? leakFall : leakRise) * (share - this.leak);
    this.leak = Math.min(1, Math.max(least, this.leak));
  }
}
