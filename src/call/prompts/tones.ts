/** Tones that a call plays for itself. */

/** Between two agents: quiet, and soon enough that the line does not seem dead. */
export const comfortTone = {
  kind: 'tone' as const,
  segments: [
    { frequenciesHz: [], durationMs: 200 },
    { frequenciesHz: [425], durationMs: 200 },
    { frequenciesHz: [], durationMs: 1600 },
  ],
  repeat: 0,
  peak: 800,
};

/** Hold music where none is configured: two quiet notes now and then, so that the line does not seem dead. */
export const holdTone = {
  kind: 'tone' as const,
  segments: [
    { frequenciesHz: [], durationMs: 600 },
    { frequenciesHz: [440], durationMs: 250 },
    { frequenciesHz: [554], durationMs: 250 },
    { frequenciesHz: [], durationMs: 2900 },
  ],
  repeat: 0,
  peak: 1200,
};

/** Before a recording of the phone. */
export const beep = { kind: 'tone' as const, segments: [{ frequenciesHz: [1000], durationMs: 400 }] };
