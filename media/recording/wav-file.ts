/** One WAV file that grows by seconds and is valid after each of them, so that a crash costs only the last. */
import { closeSync, fdatasyncSync, mkdirSync, openSync, writeSync } from 'node:fs';
import path from 'node:path';
import { blockSamples } from './recorder.js';

const sampleRateHz = 8000;
const channels = 2;
const headerBytes = 44;
const blockBytes = blockSamples * channels * 2;

export class WavFile {
  private readonly fd: number;
  private dataBytes = 0;

  /** Throws what the file system throws. */
  constructor(file: string) {
    mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
    this.fd = openSync(file, 'wx', 0o600);
    this.writeHeader();
  }

  get bytes(): number {
    return headerBytes + this.dataBytes;
  }

  /** A second that was left out before stays a hole: silence. */
  write(index: number, samples: Int16Array): void {
    const bytes = new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
    this.writeAt(bytes, headerBytes + index * blockBytes);
    this.dataBytes = Math.max(this.dataBytes, index * blockBytes + bytes.length);
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
    const header = Buffer.alloc(headerBytes);
    header.write('RIFF', 0, 'latin1');
    header.writeUInt32LE(headerBytes - 8 + this.dataBytes, 4);
    header.write('WAVEfmt ', 8, 'latin1');
    header.writeUInt32LE(16, 16);
    header.writeUInt16LE(1, 20);
    header.writeUInt16LE(channels, 22);
    header.writeUInt32LE(sampleRateHz, 24);
    header.writeUInt32LE(sampleRateHz * channels * 2, 28);
    header.writeUInt16LE(channels * 2, 32);
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
