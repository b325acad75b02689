/** Speech markup (SSML) in `<Say>`, as far as the voices here support it: words, substitutions, ends of sentences, and breaks. */
import type { XmlElement } from './xml.js';

/** Texts, and the pauses between them in seconds, in order. */
export type SpokenPart = string | { pauseSec: number };

export interface PlainSpeech {
  parts: SpokenPart[];
  /** Elements whose text is spoken without the requested effect. */
  unheeded: XmlElement[];
}

/** W3C SSML 1.1 section 3.2.3 leaves the lengths to the voice; these are those of Amazon Polly, whose markup Twilio uses. */
const strengthSec: { [strength: string]: number } = {
  none: 0,
  'x-weak': 0,
  weak: 0.2,
  medium: 0.4,
  strong: 0.7,
  'x-strong': 1.2,
};
const longestBreakSec = 10;

export function spokenOf(say: XmlElement): PlainSpeech {
  const spoken: PlainSpeech = { parts: [], unheeded: [] };
  read(say, spoken);
  const parts = spoken.parts
    .map((part) => (typeof part === 'string' ? part.replace(/[^\S\n]+/g, ' ').trim() : part))
    .filter((part) => part !== '');
  return { ...spoken, parts };
}

function read(element: XmlElement, spoken: PlainSpeech): void {
  for (const child of element.children) {
    if (typeof child === 'string') add(spoken, child.replace(/\s+/g, ' '));
    else mark(child, spoken);
  }
}

function mark(element: XmlElement, spoken: PlainSpeech): void {
  switch (element.name) {
    case 'break':
      spoken.parts.push({ pauseSec: pauseSecOf(element) });
      return;
    case 'sub':
      add(spoken, element.attributes.alias ?? element.children.filter((child) => typeof child === 'string').join(''));
      return;
    case 'p':
    case 's':
      add(spoken, '\n');
      read(element, spoken);
      add(spoken, '\n');
      return;
    case 'speak':
    case 'w':
      read(element, spoken);
      return;
    default:
      spoken.unheeded.push(element);
      read(element, spoken);
  }
}

function add(spoken: PlainSpeech, text: string): void {
  const last = spoken.parts.at(-1);
  if (typeof last === 'string') spoken.parts[spoken.parts.length - 1] = last + text;
  else spoken.parts.push(text);
}

/** `time` is `500ms` or `1.5s`; without it, `strength` selects the length. */
function pauseSecOf({ attributes }: XmlElement): number {
  const [, amount, unit] = /^\+?([\d.]+)(ms|s)$/.exec(attributes.time?.trim() ?? '') ?? [];
  const given = unit === 'ms' ? Number(amount) / 1000 : Number(amount);
  const seconds = Number.isFinite(given) ? given : (strengthSec[attributes.strength ?? 'medium'] ?? 0.4);
  return Math.min(longestBreakSec, seconds);
}
