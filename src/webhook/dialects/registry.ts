/** The dialects by the `format` of a webhook endpoint. Any other format is this product's own JSON. */
import type { Dialect } from './dialect.js';
import { plivo } from './plivo.js';
import { telnyx } from './telnyx.js';
import { twilio } from './twilio.js';
import { vonage } from './vonage.js';

export const dialects: { readonly [format: string]: Dialect } = { twiml: twilio, texml: telnyx, plivo, ncco: vonage };

export function dialectOf({ providerConfig: { format } }: { providerConfig: { format?: unknown } }): Dialect | null {
  return typeof format === 'string' && Object.hasOwn(dialects, format) ? (dialects[format] ?? null) : null;
}
