import { createHash, createHmac } from 'node:crypto';

/**
 * The headers of a request signed by the Standard Webhooks scheme: HMAC-SHA-256 over id, time and body. Several secrets make several
 * signatures, so that a receiver may change its secret at leisure.
 */
export function standardHeaders(
  secrets: readonly string[],
  id: string,
  atMs: number,
  body: string,
): Record<string, string> {
  const timestamp = String(Math.floor(atMs / 1000));
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
    return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
  });
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures.join(' ') };
}

/**
 * The value of `X-Twilio-Signature`: HMAC-SHA-1 over the URL as sent to the receiver and the form's fields sorted by name. No fields
 * for a JSON body (its digest is in the URL: `withBodyDigest`), a GET or a WebSocket.
 */
export function twilioSignature(authToken: string, url: string, fields: Readonly<Record<string, string>> = {}): string {
  const text = Object.keys(fields)
    .sort()
    .reduce((data, name) => data + name + fields[name], url);
  return createHmac('sha1', authToken).update(text).digest('base64');
}

/** The URL for a JSON body that is to be signed. */
export function withBodyDigest(url: string, body: string): string {
  const digest = createHash('sha256').update(body).digest('hex');
  return `${url}${url.includes('?') ? '&' : '?'}bodySHA256=${digest}`;
}
