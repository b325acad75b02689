/** Fast Fourier transform in place (Cooley and Tukey, radix 4) of complex signals whose length is a power of two, at least 4. */

export class Fourier {
  private readonly cosines: Float64Array;
  private readonly sines: Float64Array;
  private readonly swaps: Uint16Array;
  /** Behind the first two. */
  private readonly stages: number;

  constructor(readonly length: number) {
    const half = length / 2;
    this.stages = Math.log2(length) - 2;
    this.cosines = Float64Array.from({ length: half }, (_, i) => Math.cos((2 * Math.PI * i) / length));
    this.sines = Float64Array.from({ length: half }, (_, i) => -Math.sin((2 * Math.PI * i) / length));
    const swaps: number[] = [];
    for (let i = 1, j = 0; i < length; i++) {
      let bit = half;
      for (; j & bit; bit >>= 1) j ^= bit;
      j ^= bit;
      if (i < j) swaps.push(i, j);
    }
    this.swaps = Uint16Array.from(swaps);
  }

  /** To the spectrum. For the way back exchange the two arguments, and divide by `length`. */
  transform(real: Float64Array, imaginary: Float64Array): void {
    const { length, swaps, cosines, sines, stages } = this;
    for (let s = 0; s < swaps.length; s += 2) {
      const i = swaps[s]!;
      const j = swaps[s + 1]!;
      const re = real[i]!;
      const im = imaginary[i]!;
      real[i] = real[j]!;
      imaginary[i] = imaginary[j]!;
      real[j] = re;
      imaginary[j] = im;
    }
    // The first two stages multiply by 1 and -i alone.
    for (let i = 0; i < length; i += 4) {
      const sumRe = real[i]! + real[i + 1]!;
      const sumIm = imaginary[i]! + imaginary[i + 1]!;
      const differenceRe = real[i]! - real[i + 1]!;
      const differenceIm = imaginary[i]! - imaginary[i + 1]!;
      const otherSumRe = real[i + 2]! + real[i + 3]!;
      const otherSumIm = imaginary[i + 2]! + imaginary[i + 3]!;
      const otherRe = real[i + 2]! - real[i + 3]!;
      const otherIm = imaginary[i + 2]! - imaginary[i + 3]!;
      real[i] = sumRe + otherSumRe;
      imaginary[i] = sumIm + otherSumIm;
      real[i + 2] = sumRe - otherSumRe;
      imaginary[i + 2] = sumIm - otherSumIm;
      real[i + 1] = differenceRe + otherIm;
      imaginary[i + 1] = differenceIm - otherRe;
      real[i + 3] = differenceRe - otherIm;
      imaginary[i + 3] = differenceIm + otherRe;
    }
    // Two stages at once, which reads and writes each value once for both; one by itself when their number is odd.
    let quarter = 4;
    if (stages % 2 === 1) {
      for (let i = 0; i < length; i += 8) {
        for (let k = 0; k < 4; k++) {
          const a = i + k;
          const b = a + 4;
          const cosine = cosines[(k * length) / 8]!;
          const sine = sines[(k * length) / 8]!;
          const re = real[b]! * cosine - imaginary[b]! * sine;
          const im = real[b]! * sine + imaginary[b]! * cosine;
          real[b] = real[a]! - re;
          imaginary[b] = imaginary[a]! - im;
          real[a] = real[a]! + re;
          imaginary[a] = imaginary[a]! + im;
        }
      }
      quarter = 8;
    }
    for (; quarter < length; quarter *= 4) {
      const step = length / (4 * quarter);
      for (let i = 0; i < length; i += 4 * quarter) {
        for (let k = 0, root = 0; k < quarter; k++, root += step) {
          const a = i + k;
          const b = a + quarter;
          const c = b + quarter;
          const d = c + quarter;
          const cosine = cosines[root]!;
          const sine = sines[root]!;
          const cosine2 = cosines[2 * root]!;
          const sine2 = sines[2 * root]!;
          const cosine3 = cosine * cosine2 - sine * sine2;
          const sine3 = cosine * sine2 + sine * cosine2;
          const bRe = real[b]! * cosine2 - imaginary[b]! * sine2;
          const bIm = real[b]! * sine2 + imaginary[b]! * cosine2;
          const cRe = real[c]! * cosine - imaginary[c]! * sine;
          const cIm = real[c]! * sine + imaginary[c]! * cosine;
          const dRe = real[d]! * cosine3 - imaginary[d]! * sine3;
          const dIm = real[d]! * sine3 + imaginary[d]! * cosine3;
          const evenRe = real[a]! + bRe;
          const evenIm = imaginary[a]! + bIm;
          const oddRe = real[a]! - bRe;
          const oddIm = imaginary[a]! - bIm;
          const sumRe = cRe + dRe;
          const sumIm = cIm + dIm;
          const differenceRe = cRe - dRe;
          const differenceIm = cIm - dIm;
          real[a] = evenRe + sumRe;
          imaginary[a] = evenIm + sumIm;
          real[c] = evenRe - sumRe;
          imaginary[c] = evenIm - sumIm;
          real[b] = oddRe + differenceIm;
          imaginary[b] = oddIm - differenceRe;
          real[d] = oddRe - differenceIm;
          imaginary[d] = oddIm + differenceRe;
        }
      }
    }
  }
}
