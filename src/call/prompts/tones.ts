/** Tones that calls play. */

/** Comfort tone between two agents: quiet, and frequent enough that the line does not seem dead. */
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

/** Default hold music: two quiet notes now and then, so that the line does not seem dead. */
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

/** The beep before a recording. */
export const beep = { kind: 'tone' as const, segments: [{ frequenciesHz: [1000], durationMs: 400 }] };
