/**
 * Documents of platforms whose XML resembles TwiML become TwiML by a table of differences, and one interpreter follows them all. What an
 * element was called in the document stays with it, for warnings.
 */
import type { WrittenAs, XmlElement } from './xml.js';

type Attributes = { [name: string]: string };

/** How an element differs from TwiML. */
export interface ElementRule {
  /** Its name in TwiML; absent: the same. */
  as?: string;
  /** Attributes with the same name and meaning; absent: all that `attributes` does not name. */
  same?: readonly string[];
  /** Others: their name in TwiML, or what they become there; null: this value has no effect. */
  attributes?: { [name: string]: string | ((value: string, all: Attributes) => Attributes | null) };
  /** Attributes that mean nothing here, and whose absence nobody misses. */
  harmless?: readonly string[];
  /** Values of TwiML's attributes where the document has none. */
  defaults?: Attributes;
  /** Where one element stands for another structure. `read` has TwiML's attributes, `written` those of the document. */
  rebuild?(read: XmlElement, written: XmlElement): XmlElement[];
}

export interface XmlDialect {
  /** The protocol of its `<Stream>`. */
  streams: string;
  /** What gets the result of an element without `action`. */
  actionWhenAbsent: 'document' | 'nobody';
  elements: { readonly [name: string]: ElementRule };
  /** All elements are in the table; others are unknown. */
  isComplete?: true;
  /** The platform writes international numbers without `+`. */
  numbersWithoutPlus?: true;
}

export const twiml: XmlDialect = { streams: 'twilio', actionWhenAbsent: 'document', elements: {} };

/** An element in TwiML. Markup of speech is the same everywhere. */
export function inTwiml(element: XmlElement, dialect: XmlDialect): XmlElement[] {
  const rule = Object.hasOwn(dialect.elements, element.name) ? dialect.elements[element.name] : undefined;
  if (rule === undefined && !dialect.isComplete) return [{ ...element, children: childrenOf(element, dialect) }];
  const name = rule === undefined ? '' : (rule.as ?? element.name);
  const written: WrittenAs = {
    name: element.name,
    attributes: {},
    defaults: rule?.defaults ?? {},
    unheeded: [],
    notes: [],
    answerIgnored: element.attributes.redirect === 'false',
  };
  const attributes: Attributes = { ...rule?.defaults };
  const take = (become: Attributes, from: string) => {
    for (const [to, value] of Object.entries(become)) {
      attributes[to] = value;
      written.attributes[to] = from;
    }
  };
  for (const [from, value] of Object.entries(element.attributes)) {
    const to = rule?.attributes?.[from];
    const become = typeof to === 'string' ? { [to]: value } : to?.(value, element.attributes);
    if (become) take(become, from);
    else if (become === undefined && (rule?.same?.includes(from) ?? !dialect.isComplete)) take({ [from]: value }, from);
    else if (!rule?.harmless?.includes(from)) written.unheeded.push(from);
  }
  const children = name === 'Say' ? element.children : childrenOf(element, dialect);
  const read: XmlElement = { name, attributes, children, line: element.line, written };
  return rule?.rebuild?.(read, element) ?? [read];
}

function childrenOf(element: XmlElement, dialect: XmlDialect): XmlElement['children'] {
  if (element.name === 'Say') return element.children;
  return element.children.flatMap((child): (XmlElement | string)[] =>
    typeof child === 'string' ? [child] : inTwiml(child, dialect),
  );
}
