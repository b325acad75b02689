/** What media threads and the disk thread say to each other. Ids are of one port. */

export type ToDisk =
  | { kind: 'open'; id: number; path: string; form: WavForm }
  /** Second number `index`; transferred. */
  | { kind: 'block'; id: number; index: number; samples: Int16Array }
  /** `keep`: only these samples stay. */
  | { kind: 'close'; id: number; keep: SampleRange | null };

export interface WavForm {
  channels: 1 | 2;
  sampleRateHz: number;
}

export interface SampleRange {
  from: number;
  to: number;
}

export type FromDisk =
  | { kind: 'written'; id: number }
  /** The file is closed and valid: so long. With an `error` it lacks audio; without any audio it was removed, and both are 0. */
  | { kind: 'closed'; id: number; bytes: number; durationMs: number; error: string | null };
