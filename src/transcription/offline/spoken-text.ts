import { type Recognizer, recognitionHz } from './sherpa.js';
import { spokenWindows } from './spoken-windows.js';

/** The model sometimes answers nothing for a window; without this much of its beginning it hears the words. */
const retryWithoutSec = 0.2;
const worthRetryingSec = 1;

/** The words of 16 kHz audio from -1 to 1. Throws an `Error` of one sentence when `isCancelled` is true between two parts. */
export function spokenText(recognizer: Recognizer, samples: Float32Array, isCancelled: () => boolean): string {
  const windows = spokenWindows(recognizer.spokenParts(samples), samples.length, recognitionHz);
  const texts: string[] = [];
  for (const { start, length } of windows) {
    if (isCancelled()) throw new Error('The recognition was cancelled.');
    const window = samples.slice(start, start + length);
    let text = recognizer.textOf(window);
    if (text === '' && length > worthRetryingSec * recognitionHz)
      text = recognizer.textOf(window.slice(retryWithoutSec * recognitionHz));
    if (text !== '') texts.push(text);
  }
  return texts.join(' ');
}
