import { clientAddress } from '../../webhook/actions.js';
import { ApiError } from '../errors.js';
import { targetProblem } from '../rules/targets.js';

const maxLength = 500;

/**
 * A called party that is no number: `client:` and the name of a registered phone, or a SIP address with a user part; both with `?X-Name=value`.
 * null if the text is neither. Throws 400 `INVALID_PHONE_NUMBER` that names the field if it is one that cannot be called.
 */
export function calledAddressOf(text: string, field: string, allowPrivate: boolean): string | null {
  const address = text.trim();
  const scheme = /^(client|sips?):/i.exec(address)?.[1]?.toLowerCase();
  if (scheme === undefined) return null;
  const problem = scheme === 'client' ? clientProblem(address) : sipProblem(address, allowPrivate);
  if (problem !== null) throw new ApiError('INVALID_PHONE_NUMBER', `The address ${problem}`, { field, value: text });
  return address.replace(/^[a-z]+/i, scheme);
}

function clientProblem(address: string): string | null {
  const [name = ''] = address.split('?', 1);
  if (!clientAddress.test(name.replace(/^client/i, 'client')))
    return 'must be client: and the name of a registered phone, up to 64 letters, digits and "_ . + -"';
  return /[\s<>"]/.test(address) || address.length > maxLength
    ? 'must not contain spaces, quotes or more than 500 characters'
    : null;
}

function sipProblem(address: string, allowPrivate: boolean): string | null {
  if (address.length > maxLength) return `must not be longer than ${maxLength} characters`;
  const credentialsGo = 'they are fields of the request';
  return (
    targetProblem(address, { schemes: ['sip', 'sips'], allowPrivate, credentialsGo }) ??
    (/^sips?:[^@?;]+@/i.test(address) ? null : 'must have a user part, such as sip:alice@example.com')
  );
}
