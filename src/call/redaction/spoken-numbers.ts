/** Finds numbers in what was said, as digits and as words, and replaces them. */
import { ideographicNumerals, numberWords } from './number-words.js';

export const redactedText = '[redacted]';

/** Up to this many other words between two number words belong to the number: digits are often misheard. */
const mostBetween = 2;

const token = /[\p{L}\p{M}\p{Nd}]+(?:['’][\p{L}\p{M}\p{Nd}]+)*/gu;
const numerals = new RegExp(`[${ideographicNumerals}]`, 'u');
const runOfNumerals = new RegExp(`[${ideographicNumerals}]+(?:[\\s、,，-]*[${ideographicNumerals}]+)*`, 'gu');

const languages = Object.values(numberWords).map(({ parts, beside }) => ({
  parts: plain(parts).split(' '),
  joints: plain(beside).split(' '),
}));
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
  return /\p{Nd}/u.test(word) || languages.some(({ parts, joints }) => isMadeOf(word, parts, joints));
}

/**
 * Whether a word consists of parts, with at most one joint between two of them, as languages join them that write numbers as one word. A
 * regular expression would try every way to cut a word, and there are endlessly many of a long one.
 */
function isMadeOf(word: string, parts: readonly string[], joints: readonly string[]): boolean {
  const begins = new Uint8Array(word.length + 1);
  const ends = new Uint8Array(word.length + 1);
  begins[0] = 1;
  for (let at = 0; at < word.length; at++) {
    if (begins[at] === 0) continue;
    for (const part of parts) {
      if (!word.startsWith(part, at)) continue;
      const end = at + part.length;
      ends[end] = 1;
      begins[end] = 1;
      for (const joint of joints) if (word.startsWith(joint, end)) begins[end + joint.length] = 1;
    }
  }
  return ends[word.length] === 1;
}

/** Lower case, without accents. */
function plain(text: string): string {
  return text.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase();
}
