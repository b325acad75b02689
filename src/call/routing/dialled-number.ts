/** Reads numbers as people write them: `415-767-1351`, `(415) 767-1351`, `0044 20 7183 8750`, `020 7183 8750`. */
import { type CountryCode, parsePhoneNumberFromString } from 'libphonenumber-js/min';
import { e164 } from '../../webhook/actions.js';

/**
 * E.164 of a number; null when it is no valid number. A number without `+` or `00` belongs to the country of `home`, which is in E.164.
 */
export function dialledNumber(written: string, home: string): string | null {
  const bare = written.trim().replace(/[\s().\-/\u2010-\u2015]/g, '');
  if (bare.startsWith('+')) return e164.test(bare) ? bare : null;
  // Letters and service codes (*98) are no numbers.
  if (!/^\d+$/.test(bare)) return null;
  const country = countryOf(home);
  const number = country === null ? undefined : parsePhoneNumberFromString(bare, { defaultCountry: country });
  // Too short for its country: emergency numbers such as 911 cannot be called.
  if (number?.isPossible() === true && e164.test(number.number)) return number.number;
  const international = bare.replace(/^00/, '+');
  return e164.test(international) ? international : null;
}

function countryOf(home: string): CountryCode | null {
  const number = parsePhoneNumberFromString(home);
  return number?.country ?? number?.getPossibleCountries()[0] ?? null;
}
