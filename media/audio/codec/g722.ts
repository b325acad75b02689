/**
 * G.722 at 64 kbit/s (ITU-T G.722): 16 kHz audio as two sub-bands at 8 kHz, each coded as the difference from a prediction, with six bits for
 * the lower band and two for the upper. Names follow the recommendation where it has them. All arithmetic is in integers, so that every
 * implementation gives the same bits.
 */

/** The QMF that splits and joins the bands: its taps for every other sample; those in between are the same in reverse order. */
const taps = Int32Array.of(3, -11, 12, 32, -210, 951, 3876, -805, 362, -156, 53, -11);
const halfTaps = taps.length;
/** Decision levels of the lower band. */
const levels = Int32Array.of(
  ...[0, 35, 72, 110, 150, 190, 233, 276, 323, 370, 422, 473, 530, 587, 650, 714, 786, 858, 940, 1023, 1121, 1219],
  ...[1339, 1458, 1612, 1765, 1980, 2195, 2557, 2919],
);
/** Values of the lower band's codes, with six bits and with the four bits that the predictor uses. */
const lower6 = Int32Array.of(
  ...[-136, -136, -136, -136, -24808, -21904, -19008, -16704, -14984, -13512, -12280, -11192, -10232, -9360, -8576],
  ...[-7856, -7192, -6576, -6000, -5456, -4944, -4464, -4008, -3576, -3168, -2776, -2400, -2032, -1688, -1360, -1040],
  ...[-728, 24808, 21904, 19008, 16704, 14984, 13512, 12280, 11192, 10232, 9360, 8576, 7856, 7192, 6576, 6000, 5456],
  ...[4944, 4464, 4008, 3576, 3168, 2776, 2400, 2032, 1688, 1360, 1040, 728, 432, 136, -432, -136],
);
const lower4 = Int32Array.of(
  ...[0, -20456, -12896, -8968, -6288, -4240, -2584, -1200, 20456, 12896, 8968, 6288, 4240, 2584, 1200, 0],
);
const upper2 = Int32Array.of(-7408, -1616, 7408, 1616);
/** Adaptation of the step size: logarithms, and the table back from them. */
const lowerSteps = Int32Array.of(-60, 3042, 1198, 538, 334, 172, 58, -30, 3042, 1198, 538, 334, 172, 58, -30, -60);
const upperSteps = Int32Array.of(798, -214, 798, -214);
const antilog = Int32Array.of(
  ...[2048, 2093, 2139, 2186, 2233, 2282, 2332, 2383, 2435, 2489, 2543, 2599, 2656, 2714, 2774, 2834, 2896, 2960],
  ...[3025, 3091, 3158, 3228, 3298, 3371, 3444, 3520, 3597, 3676, 3756, 3838, 3922, 4008],
);

function limited(value: number): number {
  return value > 32767 ? 32767 : value < -32768 ? -32768 : value;
}

/** The differences between the bands. */
interface BandKind {
  firstStep: number;
  mostLog: number;
  shift: number;
  /** Values of a code for the output and for the predictor, which ignores `bitsLess` low bits. */
  heard: Int32Array;
  followed: Int32Array;
  bitsLess: number;
  steps: Int32Array;
}

const lowerKind: BandKind = {
  ...{ firstStep: 32, mostLog: 18_432, shift: 8, heard: lower6, followed: lower4, bitsLess: 2, steps: lowerSteps },
};
const upperKind: BandKind = {
  ...{ firstStep: 8, mostLog: 22_528, shift: 10, heard: upper2, followed: upper2, bitsLess: 0, steps: upperSteps },
};

/** One band: the step size and the predictor (two poles, six zeros). */
class Band {
  /** s, sz, det, nb, r1, a1, a2, p1, p2, d1 to d6, b1 to b6. */
  private readonly state = new Int32Array(21);

  constructor(private readonly kind: BandKind) {
    this.state[2] = kind.firstStep;
  }

  /** In place: samples of the band become codes, or (`decodes`) codes become samples. */
  run(values: Int32Array, count: number, decodes: boolean): void {
    const { state } = this;
    const { mostLog, shift, heard, followed, bitsLess, steps } = this.kind;
    const isLower = bitsLess > 0;
    // Local variables for the whole packet: reading them from memory for each sample costs more than the arithmetic.
    let [s, sz, det, nb, r1, a1, a2] = [state[0]!, state[1]!, state[2]!, state[3]!, state[4]!, state[5]!, state[6]!];
    let [p1, p2, d1, d2, d3, d4, d5] = [
      state[7]!,
      state[8]!,
      state[9]!,
      state[10]!,
      state[11]!,
      state[12]!,
      state[13]!,
    ];
    let [d6, b1, b2, b3, b4, b5, b6] = [
      state[14]!,
      state[15]!,
      state[16]!,
      state[17]!,
      state[18]!,
      state[19]!,
      state[20]!,
    ];
    for (let n = 0; n < count; n++) {
      let code = values[n]!;
      if (decodes) {
        const value = s + ((det * heard[code]!) >> 15);
        values[n] = value > 16383 ? 16383 : value < -16384 ? -16384 : value;
      } else {
        const e = limited(code - s);
        const size = e >= 0 ? e : -(e + 1);
        code = isLower ? lowerCode(e, size, det) : upperCode(e, size, det);
        values[n] = code;
      }
      const place = code >> bitsLess;
      const d = (det * followed[place]!) >> 15;
      // The step size.
      nb = ((nb * 127) >> 7) + steps[place]!;
      if (nb < 0) nb = 0;
      else if (nb > mostLog) nb = mostLog;
      const down = shift - (nb >> 11);
      const mantissa = antilog[(nb >> 6) & 31]!;
      det = (down < 0 ? mantissa << -down : mantissa >> down) << 2;
      // The poles.
      const r = limited(s + d);
      const p = limited(sz + d);
      const sign = p >> 15;
      const scaled = limited(a1 << 2);
      let towards = sign === p1 >> 15 ? -scaled : scaled;
      if (towards > 32767) towards = 32767;
      a2 = (towards >> 7) + (sign === p2 >> 15 ? 128 : -128) + ((a2 * 32512) >> 15);
      if (a2 > 12288) a2 = 12288;
      else if (a2 < -12288) a2 = -12288;
      a1 = (sign === p1 >> 15 ? 192 : -192) + ((a1 * 32640) >> 15);
      const most = 15360 - a2;
      if (a1 > most) a1 = most;
      else if (a1 < -most) a1 = -most;
      p2 = p1;
      p1 = p;
      // The zeros.
      const step = d === 0 ? 0 : 128;
      const way = d >> 15;
      b1 = ((b1 * 32640) >> 15) + (d1 >> 15 === way ? step : -step);
      b2 = ((b2 * 32640) >> 15) + (d2 >> 15 === way ? step : -step);
      b3 = ((b3 * 32640) >> 15) + (d3 >> 15 === way ? step : -step);
      b4 = ((b4 * 32640) >> 15) + (d4 >> 15 === way ? step : -step);
      b5 = ((b5 * 32640) >> 15) + (d5 >> 15 === way ? step : -step);
      b6 = ((b6 * 32640) >> 15) + (d6 >> 15 === way ? step : -step);
      d6 = d5;
      d5 = d4;
      d4 = d3;
      d3 = d2;
      d2 = d1;
      d1 = d;
      // The next prediction, by zeros and poles.
      sz = limited(
        ((b1 * limited(d1 + d1)) >> 15) +
          ((b2 * limited(d2 + d2)) >> 15) +
          ((b3 * limited(d3 + d3)) >> 15) +
          ((b4 * limited(d4 + d4)) >> 15) +
          ((b5 * limited(d5 + d5)) >> 15) +
          ((b6 * limited(d6 + d6)) >> 15),
      );
      s = limited(limited(((a1 * limited(r + r)) >> 15) + ((a2 * limited(r1 + r1)) >> 15)) + sz);
      r1 = r;
    }
    [state[0], state[1], state[2], state[3], state[4], state[5], state[6]] = [s, sz, det, nb, r1, a1, a2];
    [state[7], state[8], state[9], state[10], state[11], state[12], state[13]] = [p1, p2, d1, d2, d3, d4, d5];
    [state[14], state[15], state[16], state[17], state[18], state[19], state[20]] = [d6, b1, b2, b3, b4, b5, b6];
  }
}

/** The six bit code, by binary search in the rising decision levels. */
function lowerCode(e: number, size: number, det: number): number {
  let below = 1;
  let above = 30;
  while (below < above) {
    const middle = (below + above) >> 1;
    if (size < (levels[middle]! * det) >> 12) above = middle;
    else below = middle + 1;
  }
  return e >= 0 ? 62 - below : below <= 2 ? 64 - below : 34 - below;
}

function upperCode(e: number, size: number, det: number): number {
  const far = size >= (564 * det) >> 12;
  return e >= 0 ? (far ? 2 : 3) : far ? 0 : 1;
}

/** Sample pairs of history that the filters need, and the most pairs of one block. */
const pairsBack = 11;
const pairsAtOnce = 480;

export class G722Encoder {
  private readonly lower = new Band(lowerKind);
  private readonly upper = new Band(upperKind);
  private readonly past = new Int32Array(2 * (pairsBack + pairsAtOnce));
  private readonly low = new Int32Array(pairsAtOnce);
  private readonly high = new Int32Array(pairsAtOnce);

  /** `samples`: an even number at 16 kHz; writes half as many bytes at `at` and returns their number. */
  encode(samples: Int16Array, into: Uint8Array, at: number): number {
    for (let from = 0; from + 2 <= samples.length; from += 2 * pairsAtOnce)
      this.block(samples, from, Math.min(pairsAtOnce, (samples.length - from) >> 1), into, at + (from >> 1));
    return samples.length >> 1;
  }

  private block(samples: Int16Array, from: number, pairs: number, into: Uint8Array, at: number): void {
    const { past, low, high } = this;
    for (let i = 0; i < 2 * pairs; i++) past[2 * pairsBack + i] = samples[from + i]!;
    for (let pair = 0; pair < pairs; pair++) {
      const base = 2 * pair;
      let even = 0;
      let odd = 0;
      for (let i = 0; i < halfTaps; i++) {
        odd += past[base + 2 * i]! * taps[i]!;
        even += past[base + 2 * i + 1]! * taps[halfTaps - 1 - i]!;
      }
      low[pair] = (even + odd) >> 14;
      high[pair] = (even - odd) >> 14;
    }
    past.copyWithin(0, 2 * pairs, 2 * (pairs + pairsBack));
    this.lower.run(low, pairs, false);
    this.upper.run(high, pairs, false);
    for (let pair = 0; pair < pairs; pair++) into[at + pair] = (high[pair]! << 6) | low[pair]!;
  }
}

export class G722Decoder {
  private readonly lower = new Band(lowerKind);
  private readonly upper = new Band(upperKind);
  private readonly past = new Int32Array(2 * (pairsBack + pairsAtOnce));
  private readonly low = new Int32Array(pairsAtOnce);
  private readonly high = new Int32Array(pairsAtOnce);

  /** Writes two samples at 16 kHz for each byte; returns the number of samples. */
  decode(bytes: Uint8Array, into: Int16Array): number {
    const whole = Math.min(bytes.length, into.length >> 1);
    for (let from = 0; from < whole; from += pairsAtOnce)
      this.block(bytes, from, Math.min(pairsAtOnce, whole - from), into);
    return 2 * whole;
  }

  private block(bytes: Uint8Array, from: number, pairs: number, into: Int16Array): void {
    const { past, low, high } = this;
    for (let pair = 0; pair < pairs; pair++) {
      low[pair] = bytes[from + pair]! & 63;
      high[pair] = bytes[from + pair]! >> 6;
    }
    this.lower.run(low, pairs, true);
    this.upper.run(high, pairs, true);
    for (let pair = 0; pair < pairs; pair++) {
      const end = 2 * (pairsBack + pair);
      past[end] = low[pair]! + high[pair]!;
      past[end + 1] = low[pair]! - high[pair]!;
      const base = 2 * pair;
      let first = 0;
      let second = 0;
      for (let i = 0; i < halfTaps; i++) {
        second += past[base + 2 * i]! * taps[i]!;
        first += past[base + 2 * i + 1]! * taps[halfTaps - 1 - i]!;
      }
      into[2 * (from + pair)] = limited(first >> 11);
      into[2 * (from + pair) + 1] = limited(second >> 11);
    }
    past.copyWithin(0, 2 * pairs, 2 * (pairs + pairsBack));
  }
}
