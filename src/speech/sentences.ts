/** Parts of about a sentence: the first is short, so that it is heard soon; the others are made while it is spoken. */
const shortest = 40;
const longest = 200;
/** The first part, where it can be cut between parts of a sentence. */
const firstShortest = 20;
const firstLongest = 70;
/** Longer it takes too long to make, whatever it says. */
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
  // A last word does not stand alone.
  if (part.trim() !== '') parts.push(...pieces(`${parts.pop() ?? ''} ${part}`));
  const [first, ...rest] = parts;
  return first === undefined ? [] : [...beginning(first), ...rest];
}

/** A long first part is cut behind a sentence or a comma; a very long one before a small word, or between any two. */
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

/** Behind the last place that matches; 0: none does. */
function lastEnd(text: string, place: RegExp): number {
  return Math.max(0, ...[...text.matchAll(place)].map((match) => match.index + 1));
}

/** Without any end of a sentence it is cut behind a comma, or between words. */
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
