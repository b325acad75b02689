/** Twilio: forms, TwiML. */
import { twilioSignature } from '../signature.js';
import { parseTwiml } from '../twiml.js';
import { type Dialect, xmlTypes } from './dialect.js';

export const twilio: Dialect = {
  firstMethod: 'POST',
  body: 'form',
  userAgent: 'TwilioProxy/1.1 Trunkline',
  accept: 'application/xml, text/xml',
  fields: (fields) => fields,
  sign: ({ secret }, { url, body }, sent) => ({
    'x-twilio-signature': twilioSignature(secret, url, body === undefined ? {} : sent),
  }),
  signStream: ({ secret }, url) => ({ 'X-Twilio-Signature': twilioSignature(secret, url) }),
  read: (text, type, { url }) => (xmlTypes.has(type) ? parseTwiml(text, url) : undefined),
  emptyAnswer: 'hangs_up',
};
