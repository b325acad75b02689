/**
 * The E-model (ITU-T G.107 in the Cole–Rosenbluth form, G.113 constants): one figure for what a listener would say of the line. Each
 * bandwidth has a scale of its own (G.107, G.107.1, G.107.2), which ends at the best that its listeners know: a wideband 4.3 is not below
 * a narrowband 4.4.
 */
import type { PhoneCodec } from './engine.js';

export interface LineFigures {
  /** Network loss and late discards, 0–100. */
  lossPercent: number;
  /** Mean loss run over that of random loss; at least 1. */
  burstRatio: number;
  /** One way, mouth to ear. */
  delayMs: number;
  /** Default PCMU. */
  codec?: PhoneCodec;
}

interface Model {
  /** R of a line without fault, and what it is divided by to be read on the scale of 100. */
  basicFactor: number;
  scale: number;
  /** Of the codec, and what loss can make of it at most. */
  equipmentImpairment: number;
  worstImpairment: number;
  lossRobustness: number;
}

/** G.711 with concealment; the others as robust as a codec without, which is the careful guess: G.113 has no figure for ours. */
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
export function transmissionRating({ lossPercent, burstRatio, delayMs, codec = 'PCMU' }: LineFigures): number {
  const { basicFactor, scale, equipmentImpairment, worstImpairment, lossRobustness } = models[codec];
  const delayImpairment = 0.024 * delayMs + (delayMs > 177.3 ? 0.11 * (delayMs - 177.3) : 0);
  const burst = Math.max(1, burstRatio);
  const lossImpairment =
    equipmentImpairment +
    ((worstImpairment - equipmentImpairment) * lossPercent) / (lossPercent / burst + lossRobustness);
  return (basicFactor - delayImpairment - lossImpairment) / scale;
}

/** Mean opinion score, 1–4.5. The cubic dips below 1 for R under 6.5, so it is clamped. */
export function meanOpinionScore(figures: LineFigures): number {
  const r = transmissionRating(figures);
  if (r <= 0) return 1;
  if (r >= 100) return 4.5;
  return Math.min(4.5, Math.max(1, 1 + 0.035 * r + r * (r - 60) * (100 - r) * 7e-6));
}

/** Mean loss run over what random loss of the same rate would give: `1 / (1 - p)`. */
export function burstRatio(lost: number, lossRuns: number, expected: number): number {
  if (lossRuns === 0 || expected === 0 || lost >= expected) return 1;
  return Math.max(1, (lost / lossRuns) * (1 - lost / expected));
}
