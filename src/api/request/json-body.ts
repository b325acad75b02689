import { isUtf8 } from 'node:buffer';

/** What JSON parsers pass over in silence, in a text that one of them has taken; null: nothing. */
export function silentProblem(text: string): string | null {
  const name = doubledName(text);
  return name === null ? null : `has the field ${JSON.stringify(name.slice(0, 100))} twice`;
}

/** In a pattern for whole characters, what is left of surrogates is one alone. */
const halfPair = /\p{Surrogate}/u;

/**
 * Where a value parsed from this text has half of a surrogate pair (`\\ud83d` alone), as in `metadata.note`; null: nowhere. It is no character, and no
 * UTF-8 can hold it. The bytes of a body are UTF-8, so only an escape can bring one.
 */
export function loneSurrogate(text: string, value: unknown): string | null {
  if (!/\\u[dD][89a-fA-F]/.test(text)) return null;
  const open: { path: string[]; value: unknown }[] = [{ path: [], value }];
  for (let next = open.pop(); next; next = open.pop()) {
    const { path } = next;
    if (typeof next.value === 'string' && halfPair.test(next.value)) return path.join('.');
    if (typeof next.value !== 'object' || next.value === null) continue;
    for (const [name, part] of Object.entries(next.value)) {
      if (halfPair.test(name)) return [...path, name.replace(/\p{Surrogate}/gu, '\ufffd')].join('.');
      open.push({ path: [...path, name], value: part });
    }
  }
  return null;
}

/** The text of a body; null: its bytes are not UTF-8. A parser would put other characters in their place. */
export function textOf(bytes: Buffer): string | null {
  return isUtf8(bytes) ? bytes.toString('utf8') : null;
}

/** A name that an object of this valid JSON has more than once: of two values one would be lost. Goes through the text once, without recursion. */
function doubledName(text: string): string | null {
  /** Names of the objects we are in; null: an array. */
  const open: (Set<string> | null)[] = [];
  let isName = false;
  for (let i = 0; i < text.length; i += 1) {
    switch (text[i]) {
      case '{':
        open.push(new Set());
        isName = true;
        break;
      case '[':
        open.push(null);
        isName = false;
        break;
      case '}':
      case ']':
        open.pop();
        isName = false;
        break;
      case ',':
        isName = open.at(-1) instanceof Set;
        break;
      case ':':
        isName = false;
        break;
      case '"': {
        const end = endOfString(text, i);
        const names = open.at(-1);
        if (isName && names) {
          const name = JSON.parse(text.slice(i, end + 1)) as string;
          if (names.has(name)) return name;
          names.add(name);
        }
        i = end;
      }
    }
  }
  return null;
}

/** Where the quote is that ends the string which begins here. */
function endOfString(text: string, start: number): number {
  let end = start + 1;
  while (text[end] !== '"') end += text[end] === '\\' ? 2 : 1;
  return end;
}
