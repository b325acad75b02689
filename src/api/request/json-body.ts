import { isUtf8 } from 'node:buffer';

/** Finds a problem in valid JSON text that JSON parsers ignore silently; null if there is none. */
export function silentProblem(text: string): string | null {
  const name = doubledName(text);
  return name === null ? null : `has the field ${JSON.stringify(name.slice(0, 100))} twice`;
}

/** With the `u` flag, pairs match as one character; this matches lone surrogates only. */
const halfPair = /\p{Surrogate}/u;

/**
 * The path, such as `metadata.note`, of a lone surrogate (`\\ud83d`) in the value parsed from this text; null if there is none. It is not a
 * character and has no UTF-8 encoding. Bodies are UTF-8, so only an escape sequence can contain one.
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

/** The text of a body; null if it is not UTF-8, where a parser would substitute other characters. */
export function textOf(bytes: Buffer): string | null {
  return isUtf8(bytes) ? bytes.toString('utf8') : null;
}

/** A name that occurs twice in an object of this valid JSON, so that one value would be lost. Scans the text once, without recursion. */
function doubledName(text: string): string | null {
  /** The names in each enclosing object; null for an array. */
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

/** The index of the closing quote of the string that begins here. */
function endOfString(text: string, start: number): number {
  let end = start + 1;
  while (text[end] !== '"') end += text[end] === '\\' ? 2 : 1;
  return end;
}
