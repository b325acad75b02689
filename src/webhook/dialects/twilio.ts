/** Twilio: forms, TwiML. */
import { numberCountry } from '../number-country.js';
import { twilioSignature } from '../signature.js';
import { parseTwiml } from '../twiml.js';
import { type Dialect, type FormFields, xmlTypes } from './dialect.js';

export const twilio: Dialect = {
  firstMethod: 'POST',
  body: 'form',
  userAgent: 'TwilioProxy/1.1 Trunkline',
  accept: 'application/xml, text/xml',
  fields: (fields) => ({ ...fields, ...countries(fields) }),
  sign: ({ secret }, { url, body }, sent) => ({
    'x-twilio-signature': twilioSignature(secret, url, body === undefined ? {} : sent),
  }),
  signStream: ({ secret }, url) => ({ 'X-Twilio-Signature': twilioSignature(secret, url) }),
  read: (text, type, { url }) => (xmlTypes.has(type) ? parseTwiml(text, url) : undefined),
  emptyAnswer: 'hangs_up',
};

/** Cities, states and zip codes are left out (docs/webhooks.md says why). */
function countries({ From, To }: FormFields): { [name: string]: string } {
  const from = From === undefined ? null : numberCountry(From);
  const to = To === undefined ? null : numberCountry(To);
  return {
    ...(from !== null && { FromCountry: from, CallerCountry: from }),
    ...(to !== null && { ToCountry: to, CalledCountry: to }),
  };
}
