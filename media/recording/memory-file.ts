/** A recording that is kept in memory, for speech recognition: nothing of it is stored. */
import { writeWav } from '../audio/wav.js';
import type { SampleRange, WavForm } from './disk-messages.js';

/** What the file contains; `error`: audio is missing. `wav`: the file itself, when it is in memory. */
export interface FileEnd {
  bytes: number;
  durationMs: number;
  error: string | null;
  wav?: Uint8Array;
}

/** Where a recording goes: the disk thread, or memory. */
export interface RecordingStore {
  open(path: string, form: WavForm, onClosed: (end: FileEnd) => void): number;
  /** The block of second `index`, which the file owns from now on. */
  write(id: number, index: number, samples: Int16Array): void;
  /** `keep`: only this range of samples stays. */
  close(id: number, keep: SampleRange | null): void;
}

/** One file. */
export class MemoryFile implements RecordingStore {
  private readonly blocks: Int16Array[] = [];
  private form: WavForm = { channels: 1, sampleRateHz: 8000 };
  private onClosed: ((end: FileEnd) => void) | null = null;

  open(_path: string, form: WavForm, onClosed: (end: FileEnd) => void): number {
    this.form = form;
    this.onClosed = onClosed;
    return 0;
  }

  write(_id: number, index: number, samples: Int16Array): void {
    this.blocks[index] = samples;
  }

  close(_id: number, keep: SampleRange | null): void {
    const { onClosed, blocks, form } = this;
    const { channels: count, sampleRateHz } = form;
    this.onClosed = null;
    const all = new Int16Array(
      blocks.reduce((end, block, index) => Math.max(end, index * sampleRateHz * count + block.length), 0),
    );
    for (const [index, block] of blocks.entries()) if (block) all.set(block, index * sampleRateHz * count);
    const kept = keep ? all.subarray(keep.from * count, keep.to * count) : all;
    const channels = Array.from({ length: count }, (_, channel) =>
      kept.filter((_sample, at) => at % count === channel),
    );
    const wav = writeWav({ sampleRateHz, channels });
    onClosed?.({ bytes: wav.length, durationMs: (kept.length * 1000) / count / sampleRateHz, error: null, wav });
  }
}
