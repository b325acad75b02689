/**
 * The E-model (ITU-T G.107 in the Cole–Rosenbluth form, G.113 constants): one figure for what a listener would say of the line.
 * Constants of G.711 with packet loss concealment.
 */

export interface LineFigures {
  /** Network loss and late discards, 0–100. */
  lossPercent: number;
  /** Mean loss run over that of random loss; at least 1. */
  burstRatio: number;
  /** One way, mouth to ear. */
  delayMs: number;
}

const basicFactor = 93.2;
const equipmentImpairment = 0;
const lossRobustness = 25.1;

/** Transmission rating R. */
export function transmissionRating({ lossPercent, burstRatio, delayMs }: LineFigures): number {
  const delayImpairment = 0.024 * delayMs + (delayMs > 177.3 ? 0.11 * (delayMs - 177.3) : 0);
  const burst = Math.max(1, burstRatio);
  const lossImpairment =
    equipmentImpairment + ((95 - equipmentImpairment) * lossPercent) / (lossPercent / burst + lossRobustness);
  return basicFactor - delayImpairment - lossImpairment;
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
