/** Splits a text into parts of about a sentence. The first is short, so that playback starts soon; the others are synthesized meanwhile. */
const shortest = 40;
const longest = 200;
/** Lengths of the first part, if it can be cut between parts of a sentence. */
const firstShortest = 20;
const firstLongest = 70;
/** Maximum length of any first part; synthesis of a longer one takes too long. */
const firstUncut = 100;

export function sentencesOf(text: string): string[] {
  const parts: string[] = [];
  let part = '';
  for (const sentence of text.trim().split(/(?<=[.!?;])\s+|\n+/)) {
    part = part === '' ? sentence : `${part} ${sentence}`;
    if (part.length < shortest) continue;
    parts.push(...pieces(part));
    part = '';
  }
  // A short rest is joined to the part before it.
  if (part.trim() !== '') parts.push(...pieces(`${parts.pop() ?? ''} ${part}`));
  const [first, ...rest] = parts;
  return first === undefined ? [] : [...beginning(first), ...rest];
}

/** A long first part is cut after a sentence or a comma; a very long one before a short word, or between any two words. */
function beginning(first: string): string[] {
  if (first.length <= firstLongest) return [first];
  const cutAt = (end: number) => [first.slice(0, end).trim(), first.slice(end).trim()];
  const end = lastEnd(first.slice(0, firstLongest), /[.!?;:,](?=\s)/g);
  if (end >= firstShortest) return cutAt(end);
  if (first.length <= firstUncut) return [first];
  const start = first.slice(0, firstUncut);
  const small = lastEnd(start, /\s(?=(?:and|or|but|that|which|because|so|when|if|while|for|to|with|in|of|at)\s)/gi);
  const between = small >= firstShortest ? small : lastEnd(start, /\s/g);
  return between === 0 ? [first] : cutAt(between);
}

/** The position after the last match; 0: no match. */
function lastEnd(text: string, place: RegExp): number {
  return Math.max(0, ...[...text.matchAll(place)].map((match) => match.index + 1));
}

/** A text without the end of a sentence is cut after a comma, or between words. */
function pieces(text: string): string[] {
  const cut: string[] = [];
  let rest = text.replace(/\s+/g, ' ').trim();
  while (rest.length > longest) {
    const comma = lastEnd(rest.slice(0, longest), /[,:](?=\s)/g);
    const space = rest.lastIndexOf(' ', longest);
    const at = comma > longest / 2 ? comma : space > 0 ? space : longest;
    cut.push(rest.slice(0, at).trim());
    rest = rest.slice(at).trim();
  }
  return rest === '' ? cut : [...cut, rest];
}
