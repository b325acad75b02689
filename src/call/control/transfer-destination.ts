import { e164 } from '../../webhook/actions.js';

/** The number in a number, `tel:` or SIP URI, in E.164; null for a name or a short number. */
export function numberIn(to: string): string | null {
  const user = /^(?:sips?|tel):([^@;?]*)/i.exec(to)?.[1] ?? to;
  const digits = decoded(user).replace(/[\s().-]/g, '');
  const number = digits.startsWith('+') ? digits : digits.startsWith('00') ? `+${digits.slice(2)}` : `+${digits}`;
  return e164.test(number) ? number : null;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
