/**
 * A WAV file that grows by one second at a time and is valid after each, so that a crash loses only the last one. A failed write leaves the
 * header unchanged; `close` cuts off what the header does not count.
 */
import { closeSync, fdatasyncSync, ftruncateSync, mkdirSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import path from 'node:path';
import type { SampleRange, WavForm } from './disk-messages.js';

const headerBytes = 44;

export class WavFile {
  private readonly fd: number;
  /** Bytes of samples, as counted by the header on the disk. */
  private dataBytes = 0;
  private readonly frameBytes: number;

  /** Throws file system errors, and then leaves neither descriptor nor file. */
  constructor(
    private readonly file: string,
    private readonly form: WavForm,
  ) {
    this.frameBytes = form.channels * 2;
    mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
    this.fd = openSync(file, 'wx+', 0o600);
    try {
      this.setLength(0);
    } catch (error) {
      closeSync(this.fd);
      this.remove();
      throw error;
    }
  }

  get isEmpty(): boolean {
    return this.dataBytes === 0;
  }

  get durationMs(): number {
    return (this.dataBytes * 1000) / (this.frameBytes * this.form.sampleRateHz);
  }

  get bytes(): number {
    return headerBytes + this.dataBytes;
  }

  /** A second that was skipped before stays a hole, which reads as silence. */
  write(index: number, samples: Int16Array): void {
    const bytes = new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
    const at = index * this.form.sampleRateHz * this.frameBytes;
    this.writeAt(bytes, headerBytes + at);
    this.setLength(Math.max(this.dataBytes, at + bytes.length));
  }

  /** Removes the audio before and after the range. When that fails, the file ends with what was moved. */
  keep({ from, to }: SampleRange): void {
    const start = Math.min(from * this.frameBytes, this.dataBytes);
    const bytes = Math.max(0, Math.min(to * this.frameBytes, this.dataBytes) - start);
    if (start > 0) this.moveToFront(start, bytes);
    ftruncateSync(this.fd, headerBytes + bytes);
    this.setLength(bytes);
  }

  /** Cuts the file to the length in its header and closes it, also when this throws. */
  close(): void {
    try {
      ftruncateSync(this.fd, this.bytes);
      fdatasyncSync(this.fd);
    } finally {
      closeSync(this.fd);
    }
  }

  private moveToFront(start: number, bytes: number): void {
    const block = Buffer.alloc(1 << 20);
    let done = 0;
    try {
      while (done < bytes) {
        const read = readSync(this.fd, block, 0, Math.min(block.length, bytes - done), headerBytes + start + done);
        if (read === 0) break;
        this.writeAt(block.subarray(0, read), headerBytes + done);
        done += read;
      }
    } catch (error) {
      if (done > 0) this.setLength(done);
      throw error;
    }
  }

  /** Call after `close`. */
  remove(): void {
    rmSync(this.file, { force: true });
  }

  private setLength(dataBytes: number): void {
    const { channels, sampleRateHz } = this.form;
    const header = Buffer.alloc(headerBytes);
    header.write('RIFF', 0, 'latin1');
    header.writeUInt32LE(headerBytes - 8 + dataBytes, 4);
    header.write('WAVEfmt ', 8, 'latin1');
    header.writeUInt32LE(16, 16);
    header.writeUInt16LE(1, 20);
    header.writeUInt16LE(channels, 22);
    header.writeUInt32LE(sampleRateHz, 24);
    header.writeUInt32LE(sampleRateHz * this.frameBytes, 28);
    header.writeUInt16LE(this.frameBytes, 32);
    header.writeUInt16LE(16, 34);
    header.write('data', 36, 'latin1');
    header.writeUInt32LE(dataBytes, 40);
    this.writeAt(header, 0);
    this.dataBytes = dataBytes;
  }

  private writeAt(bytes: Uint8Array, position: number): void {
    for (let done = 0; done < bytes.length; ) {
      done += writeSync(this.fd, bytes, done, bytes.length - done, position + done);
    }
  }
}
