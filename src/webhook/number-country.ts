/** The country of a phone number, by the numbering plan. */
import { parsePhoneNumberFromString } from 'libphonenumber-js/min';

/** Of the North American Numbering Plan: toll-free, premium and personal numbers, which belong to no country. */
const SHARED_BY_COUNTRIES = /^\+1(?:8(?:00|33|44|55|66|77|88)|5(?:00|2\d|33|44|66|77|88)|[679]00)/;

/** ISO 3166-1 alpha-2; null when the number is not in E.164, or the plan leaves its country open. */
export function numberCountry(number: string): string | null {
  if (!number.startsWith('+') || SHARED_BY_COUNTRIES.test(number)) return null;
  return parsePhoneNumberFromString(number)?.country ?? null;
}
