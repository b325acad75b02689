import { ApiError } from '../errors.js';

/** Converts a typed number to E.164: strips ` -.()`. Throws 400 `INVALID_PHONE_NUMBER` that names the field. */
export function phoneNumberOf(text: string, field: string): string {
  const number = text.replace(/[ \-.()]/g, '');
  if (/^\+[1-9]\d{6,14}$/.test(number)) return number;
  throw new ApiError('INVALID_PHONE_NUMBER', undefined, { field, value: text });
}
