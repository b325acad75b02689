/** The messages between media threads and the disk thread. Ids are unique per port. */

export type ToDisk =
  | { kind: 'open'; id: number; path: string; form: WavForm }
  /** The block of second `index`; its buffer is transferred. */
  | { kind: 'block'; id: number; index: number; samples: Int16Array }
  /** `keep`: only this range of samples stays in the file. */
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
  /** The file is closed and valid. With an `error` audio is missing; a file without audio was removed, and `bytes` and `durationMs` are 0. */
  | { kind: 'closed'; id: number; bytes: number; durationMs: number; error: string | null };
