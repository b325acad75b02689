/** Finds numbers in what was said, as digits and as words, and replaces them. */
import { ideographicNumerals, numberWords } from './number-words.js';

export const redactedText = '[redacted]';

/** Up to this many other words between two number words belong to the number: digits are often misheard. */
const mostBetween = 2;

const token = /[\p{L}\p{M}\p{Nd}]+(?:['’][\p{L}\p{M}\p{Nd}]+)*/gu;
const numerals = new RegExp(`[${ideographicNumerals}]`, 'u');
const runOfNumerals = new RegExp(`[${ideographicNumerals}]+(?:[\\s、,，-]*[${ideographicNumerals}]+)*`, 'gu');

/** Whether a word is a number, in any of the languages; languages that write numbers as one word need their parts. */
const number = Object.values(numberWords).map(({ parts, beside }) => {
  const part = plain(parts).split(' ').join('|');
  const joint = plain(beside).split(' ').join('|');
  return new RegExp(`^(?:${part})(?:(?:${joint})?(?:${part}))*$`, 'u');
});
const besideNumber = new Set(Object.values(numberWords).flatMap(({ beside }) => plain(beside).split(' ')));

/** `text` with every spoken number replaced by `[redacted]`, together with the words in and beside it that may belong to it. */
export function withoutNumbers(text: string): string {
  const words = [...text.matchAll(token)].map((match) => ({
    from: match.index,
    to: match.index + match[0].length,
    word: plain(match[0]),
  }));
  const hidden = words.map(({ word }) => isNumber(word));
  fillGaps(hidden);
  // A word beside a number, and again the one beside that.
  for (let at = 1; at < words.length; at++) if (hidden[at - 1] && besideNumber.has(words[at]!.word)) hidden[at] = true;
  for (let at = words.length - 2; at >= 0; at--)
    if (hidden[at + 1] && besideNumber.has(words[at]!.word)) hidden[at] = true;
  let result = '';
  let done = 0;
  for (let at = 0; at < words.length; at++) {
    if (!hidden[at]) continue;
    let last = at;
    while (hidden[last + 1]) last += 1;
    result += text.slice(done, words[at]!.from) + redactedText;
    done = words[last]!.to;
    at = last;
  }
  return (result + text.slice(done)).replace(runOfNumerals, redactedText);
}

function fillGaps(hidden: boolean[]): void {
  let last = -1;
  for (let at = 0; at < hidden.length; at++) {
    if (!hidden[at]) continue;
    if (last >= 0 && at - last - 1 <= mostBetween) hidden.fill(true, last, at);
    last = at;
  }
}

function isNumber(word: string): boolean {
  // Text without spaces is no word: its numerals are replaced one by one.
  if (numerals.test(word)) return false;
  return /\p{Nd}/u.test(word) || number.some((pattern) => pattern.test(word));
}

/** Lower case, without accents. */
function plain(text: string): string {
  return text.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase();
}
