/** The recognition engine sherpa-onnx, as machine code or as WebAssembly, with the model that `trunkline setup speech` installed. */
import { createRequire } from 'node:module';
import path from 'node:path';
import { type EngineKind, modelFiles } from './packages.js';

export const recognitionHz = 16_000;

/** A part of the audio in which somebody speaks, in samples. */
export interface SpeechSpan {
  start: number;
  length: number;
}

export interface Recognizer {
  /** The spoken parts of 16 kHz audio from -1 to 1, in order. */
  spokenParts(samples: Float32Array): SpeechSpan[];
  /** The words of one spoken part of at most 30 s. */
  textOf(samples: Float32Array): string;
}

/** What both forms of the engine have in common. */
interface Stream {
  /** Machine code takes one object, WebAssembly two arguments. */
  acceptWaveform(...args: unknown[]): void;
  /** WebAssembly frees nothing by itself. */
  free?(): void;
}
interface OfflineRecognizer {
  createStream(): Stream;
  decode(stream: Stream): void;
  getResult(stream: Stream): { text: string };
}
interface SpeechDetector {
  acceptWaveform(samples: Float32Array): void;
  isEmpty(): boolean;
  /** Machine code: false copies the samples, so that none are shared with the engine. */
  front(share: boolean): { start: number; samples: Float32Array };
  pop(): void;
  flush(): void;
  reset(): void;
}
type NativeEngine = {
  OfflineRecognizer: new (config: object) => OfflineRecognizer;
  Vad: new (config: object, bufferSec: number) => SpeechDetector;
};
type WasmEngine = {
  createOfflineRecognizer(config: object): OfflineRecognizer;
  createVad(config: object): SpeechDetector;
};

/** The speech detector takes its audio in steps of this many samples. */
const stepSamples = 512;
const bufferSec = 60;

/** Loads the model, which takes about a second. `folder`: where it is installed. */
export function openRecognizer(folder: string, kind: EngineKind): Recognizer {
  const load = createRequire(path.join(folder, 'engine.js'));
  const file = (name: string) => path.join(folder, name);
  const config = {
    featConfig: { sampleRate: recognitionHz, featureDim: 80 },
    modelConfig: {
      moonshine: { encoder: file(modelFiles.encoder), mergedDecoder: file(modelFiles.decoder) },
      ...{ tokens: file(modelFiles.tokens), numThreads: 1, debug: 0, provider: 'cpu' },
    },
  };
  const detectorConfig = {
    sileroVad: {
      ...{ model: file(modelFiles.speechDetector), threshold: 0.5, windowSize: stepSamples },
      ...{ minSilenceDuration: 0.4, minSpeechDuration: 0.1, maxSpeechDuration: 20 },
    },
    ...{ sampleRate: recognitionHz, numThreads: 1, debug: 0, provider: 'cpu', bufferSizeInSeconds: bufferSec },
  };
  const engine = kind === 'native' ? (load('sherpa-onnx-node') as NativeEngine) : (load('sherpa-onnx') as WasmEngine);
  const recognizer = 'Vad' in engine ? new engine.OfflineRecognizer(config) : engine.createOfflineRecognizer(config);
  const detector = 'Vad' in engine ? new engine.Vad(detectorConfig, bufferSec) : engine.createVad(detectorConfig);

  return {
    spokenParts(samples) {
      detector.reset();
      const parts: SpeechSpan[] = [];
      const take = () => {
        while (!detector.isEmpty()) {
          const { start, samples: spoken } = detector.front(false);
          parts.push({ start, length: spoken.length });
          detector.pop();
        }
      };
      const step = new Float32Array(stepSamples);
      for (let at = 0; at < samples.length; at += stepSamples) {
        const part = samples.subarray(at, at + stepSamples);
        step.set(part);
        step.fill(0, part.length);
        detector.acceptWaveform(step);
        take();
      }
      detector.flush();
      take();
      return parts;
    },
    textOf(samples) {
      const stream = recognizer.createStream();
      try {
        if (kind === 'native') stream.acceptWaveform({ samples, sampleRate: recognitionHz });
        else stream.acceptWaveform(recognitionHz, samples);
        recognizer.decode(stream);
        return recognizer.getResult(stream).text.trim();
      } finally {
        stream.free?.();
      }
    },
  };
}
