/** Parts of about a sentence: the first is short, so that it is heard soon; the others are made while it is spoken. */
const shortest = 40;
const longest = 400;
/** The first part, where it can be cut between parts of a sentence. */
const firstShortest = 20;
const firstLongest = 70;

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

/** A long first part is cut behind a sentence or a comma. */
function beginning(first: string): string[] {
  if (first.length <= firstLongest) return [first];
  const start = first.slice(0, firstLongest);
  const end = Math.max(...[...start.matchAll(/[.!?;:,](?=\s)/g)].map((mark) => mark.index + 1), 0);
  return end < firstShortest ? [first] : [first.slice(0, end), first.slice(end).trim()];
}

/** Without any end of a sentence it is cut between words. */
function pieces(text: string): string[] {
  const cut: string[] = [];
  let rest = text.replace(/\s+/g, ' ').trim();
  while (rest.length > longest) {
    const space = rest.lastIndexOf(' ', longest);
    const at = space > 0 ? space : longest;
    cut.push(rest.slice(0, at).trim());
    rest = rest.slice(at).trim();
  }
  return rest === '' ? cut : [...cut, rest];
}
