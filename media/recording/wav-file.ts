/** One WAV file that grows by seconds and is valid after each of them, so that a crash costs only the last. */
import { closeSync, fdatasyncSync, ftruncateSync, mkdirSync, openSync, readSync, writeSync } from 'node:fs';
import path from 'node:path';
import type { SampleRange, WavForm } from './disk-words.js';

const headerBytes = 44;

export class WavFile {
  private readonly fd: number;
  private dataBytes = 0;
  private readonly frameBytes: number;

  /** Throws what the file system throws. */
  constructor(
    file: string,
    private readonly form: WavForm,
  ) {
    this.frameBytes = form.channels * 2;
    mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
    this.fd = openSync(file, 'wx+', 0o600);
    this.writeHeader();
  }

  get bytes(): number {
    return headerBytes + this.dataBytes;
  }

  /** A second that was left out before stays a hole: silence. */
  write(index: number, samples: Int16Array): void {
    const bytes = new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
    const at = index * this.form.sampleRateHz * this.frameBytes;
    this.writeAt(bytes, headerBytes + at);
    this.dataBytes = Math.max(this.dataBytes, at + bytes.length);
    this.writeHeader();
  }

  /** Leaves out what lies before and behind. */
  keep({ from, to }: SampleRange): void {
    const start = Math.min(from * this.frameBytes, this.dataBytes);
    const bytes = Math.max(0, Math.min(to * this.frameBytes, this.dataBytes) - start);
    const block = Buffer.alloc(1 << 20);
    for (let done = 0; start > 0 && done < bytes; ) {
      const read = readSync(this.fd, block, 0, Math.min(block.length, bytes - done), headerBytes + start + done);
      if (read === 0) break;
      this.writeAt(block.subarray(0, read), headerBytes + done);
      done += read;
    }
    this.dataBytes = bytes;
    ftruncateSync(this.fd, headerBytes + bytes);
    this.writeHeader();
  }

  close(): void {
    try {
      fdatasyncSync(this.fd);
    } finally {
      closeSync(this.fd);
    }
  }

  private writeHeader(): void {
    const { channels, sampleRateHz } = this.form;
    const header = Buffer.alloc(headerBytes);
    header.write('RIFF', 0, 'latin1');
    header.writeUInt32LE(headerBytes - 8 + this.dataBytes, 4);
    header.write('WAVEfmt ', 8, 'latin1');
    header.writeUInt32LE(16, 16);
    header.writeUInt16LE(1, 20);
    header.writeUInt16LE(channels, 22);
    header.writeUInt32LE(sampleRateHz, 24);
    header.writeUInt32LE(sampleRateHz * this.frameBytes, 28);
    header.writeUInt16LE(this.frameBytes, 32);
    header.writeUInt16LE(16, 34);
    header.write('data', 36, 'latin1');
    header.writeUInt32LE(this.dataBytes, 40);
    this.writeAt(header, 0);
  }

  private writeAt(bytes: Uint8Array, position: number): void {
    for (let done = 0; done < bytes.length; ) {
      done += writeSync(this.fd, bytes, done, bytes.length - done, position + done);
    }
  }
}
