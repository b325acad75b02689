/**
 * The known name most similar to a mistyped one; undefined when more than a third of its letters differ. A prefix common to all names does
 * not count.
 */
export function nearest(name: string, known: readonly string[], prefix = ''): string | undefined {
  const bare = (text: string) => (text.startsWith(prefix) ? text.slice(prefix.length) : text).toLowerCase();
  let best: string | undefined;
  let bestDistance = Math.floor(bare(name).length / 3) + 1;
  for (const candidate of known) {
    const distance = editDistance(bare(name), bare(candidate));
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** Letters to insert, delete or replace (Levenshtein). */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
