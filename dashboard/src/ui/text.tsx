/** Texts of callers, agents and carriers: shown as they are, but unable to change anything around them. */
import { useState } from 'preact/hooks';

/** Control characters, direction marks and other characters without a shape (Unicode Cc, Cf; line and paragraph separators). */
const shapeless = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;
const known: Record<string, string> = { '\t': '\u2003', '\n': '\n' };

/** The text with each character that has no shape written as its number. */
export function visible(text: string): string {
  return text.replace(
    shapeless,
    (character) =>
      known[character] ?? `⟨U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}⟩`,
  );
}

/** A text of the outside: isolated in direction, cut when it is long, whole on request. */
export function Outside({ text, limit = 120 }: { text: string | null | undefined; limit?: number }) {
  const [isWhole, setWhole] = useState(false);
  if (text === null || text === undefined || text === '') return <span class="soft">–</span>;
  const isLong = text.length > limit;
  const shown = visible(isLong && !isWhole ? text.slice(0, limit) : text);
  if (!isLong) return <bdi>{shown}</bdi>;
  return (
    <span>
      <bdi>{isWhole ? shown : `${shown}…`}</bdi>{' '}
      <button type="button" class="link" onClick={() => setWhole(!isWhole)}>
        {isWhole ? 'less' : `all ${text.length.toLocaleString()} characters`}
      </button>
    </span>
  );
}

/** On one line and cut, for choices, titles and labels, which hold no elements. */
export function brief(text: string, limit = 80): string {
  return visible(text.length > limit ? `${text.slice(0, limit)}…` : text).replaceAll('\n', ' ');
}

/** As `Outside`, on one line, for tables; the whole text is in the detail of the record. */
export function Brief({ text, limit = 40 }: { text: string | null | undefined; limit?: number }) {
  return text ? <bdi>{brief(text, limit)}</bdi> : <span class="soft">–</span>;
}
