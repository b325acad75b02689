/** Ringback tones by country (ITU-T E.180 and its supplement). */
import type { AudioSource, ToneSegment } from '../../../media/engine.js';

/** Frequencies, and the durations for which they are on and off in turn. */
type Rhythm = [frequenciesHz: number[], ...milliseconds: number[]];

const double = [400, 200, 400, 2000];
const rhythms: { [country: string]: Rhythm } = {
  us: [[440, 480], 2000, 4000],
  'us-old': [[420, 460], 2000, 4000],
  uk: [[400, 450], ...double],
  au: [[413, 438], ...double],
  nz: [[400, 450], ...double],
  in: [[375, 425], ...double],
  my: [[425], ...double],
  sg: [[425], ...double],
  za: [[383, 417], ...double],
  at: [[420], 1000, 5000],
  be: [[425], 1000, 3000],
  cl: [[400], 1000, 3000],
  cn: [[450], 1000, 4000],
  es: [[425], 1500, 3000],
  fr: [[440], 1500, 3500],
  hu: [[425], 1250, 3750],
  il: [[400], 1000, 3000],
  jp: [[384, 416], 1000, 2000],
  ph: [[425, 480], 1000, 4000],
  pt: [[425], 1000, 5000],
  ru: [[425], 800, 3200],
  se: [[425], 1000, 5000],
  th: [[400], 1000, 4000],
  tw: [[440, 480], 1000, 2000],
};
/** Most other countries: 425 Hz, one second on, four off. */
const usual: Rhythm = [[425], 1000, 4000];

/** The tone of a country; North America's is `us`. */
export function ringTone(country: string): AudioSource {
  const [frequenciesHz, ...durations] = rhythms[country] ?? usual;
  const segments = durations.map(
    (durationMs, i): ToneSegment => ({ frequenciesHz: i % 2 === 0 ? frequenciesHz : [], durationMs }),
  );
  return { kind: 'tone', segments, repeat: 0 };
}
