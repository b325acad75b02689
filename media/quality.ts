/**
 * The E-model (ITU-T G.107 in the Cole–Rosenbluth form, G.113 constants): estimates the score that a listener would give the line. Each
 * bandwidth has its own scale (G.107, G.107.1, G.107.2), which ends at the best quality of that bandwidth: a wideband 4.3 is not worse than
 * a narrowband 4.4.
 */
import type { PhoneCodec } from './engine.js';

export interface PathFigures {
  /** Network loss and late discards, 0–100. */
  lossPercent: number;
  /** Mean length of loss runs divided by that of random loss; at least 1. */
  burstRatio: number;
  /** One way, mouth to ear. */
  delayMs: number;
  /** Default PCMU. */
  codec?: PhoneCodec;
}

interface Model {
  /** R of a line without impairments, and the divisor that maps R to the scale of 100. */
  basicFactor: number;
  scale: number;
  /** Impairment by the codec alone, and the most that loss can add up to. */
  equipmentImpairment: number;
  worstImpairment: number;
  lossRobustness: number;
}

/** G.711 with concealment. G.113 has no loss figure for our other codecs: they get that of a codec without concealment, as a cautious estimate. */
const g711: Model = { basicFactor: 93.2, scale: 1, equipmentImpairment: 0, worstImpairment: 95, lossRobustness: 25.1 };
const g722: Model = {
  basicFactor: 129,
  scale: 1.29,
  equipmentImpairment: 13,
  worstImpairment: 95,
  lossRobustness: 4.3,
};
const opus: Model = {
  ...{ basicFactor: 148, scale: 1.48, equipmentImpairment: 10.2, worstImpairment: 132, lossRobustness: 4.3 },
};
const models: Record<PhoneCodec, Model> = { PCMU: g711, PCMA: g711, G722: g722, OPUS: opus };

/** Transmission rating R, on the scale of 100. */
export function transmissionRating({ lossPercent, burstRatio, delayMs, codec = 'PCMU' }: PathFigures): number {
  const { basicFactor, scale, equipmentImpairment, worstImpairment, lossRobustness } = models[codec];
  const delayImpairment = 0.024 * delayMs + (delayMs > 177.3 ? 0.11 * (delayMs - 177.3) : 0);
  const burst = Math.max(1, burstRatio);
  const lossImpairment =
    equipmentImpairment +
    ((worstImpairment - equipmentImpairment) * lossPercent) / (lossPercent / burst + lossRobustness);
  return (basicFactor - delayImpairment - lossImpairment) / scale;
}

/** Mean opinion score, 1–4.5. The cubic dips below 1 for R under 6.5, so it is clamped. */
export function meanOpinionScore(figures: PathFigures): number {
  const r = transmissionRating(figures);
  if (r <= 0) return 1;
  if (r >= 100) return 4.5;
  return Math.min(4.5, Math.max(1, 1 + 0.035 * r + r * (r - 60) * (100 - r) * 7e-6));
}

/** Mean length of loss runs divided by that of random loss at the same rate, `1 / (1 - p)`. */
export function burstRatio(lost: number, lossRuns: number, expected: number): number {
  if (lossRuns === 0 || expected === 0 || lost >= expected) return 1;
  return Math.max(1, (lost / lossRuns) * (1 - lost / expected));
}
