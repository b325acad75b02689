import {
  createHash,
  createHmac,
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  randomUUID,
  sign,
} from 'node:crypto';

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

/** The header of an Ed25519 private key in PKCS #8 (RFC 8410 section 7); its 32 bytes follow. */
const ed25519Header = Buffer.from('302e020100300506032b657004220420', 'hex');

/** The key that signs requests in Telnyx' format. It follows from the secret, so that the two change together. */
function ed25519Key(secret: string): KeyObject {
  const seed = createHmac('sha256', secret).update('telnyx-signature-ed25519').digest();
  return createPrivateKey({ key: Buffer.concat([ed25519Header, seed]), format: 'der', type: 'pkcs8' });
}

/** What receivers of Telnyx' signatures check with: the 32 bytes of an Ed25519 public key in base64. */
export function telnyxPublicKey(secret: string): string {
  return createPublicKey(ed25519Key(secret)).export({ format: 'der', type: 'spki' }).subarray(-32).toString('base64');
}

/** Telnyx signs the time in seconds, a bar, and the body (empty with GET). */
export function telnyxHeaders(secret: string, atMs: number, body: string): Record<string, string> {
  const timestamp = String(Math.floor(atMs / 1000));
  const signature = sign(null, Buffer.from(`${timestamp}|${body}`), ed25519Key(secret)).toString('base64');
  return { 'telnyx-timestamp': timestamp, 'telnyx-signature-ed25519': signature };
}

/** Plivo (V3) signs the URL with its parameters in order, the fields of a form in order, and a nonce. */
export function plivoHeaders(
  authToken: string,
  url: string,
  fields: Readonly<Record<string, string>> | null,
  nonce: string = randomUUID(),
): Record<string, string> {
  const { protocol, host, pathname, searchParams } = new URL(url.replace(/^ws/i, 'http'));
  const query = [...searchParams].map(([name, value]) => `${name}=${value}`).sort();
  const form = Object.keys(fields ?? {})
    .sort()
    .map((name) => `${name}${fields?.[name]}`)
    .join('');
  const question = query.length > 0 || form !== '' ? '?' : '';
  const dot = query.length > 0 && form !== '' ? '.' : '';
  const text = `${protocol}//${host}${pathname}${question}${query.join('&')}${dot}${form}.${nonce}`;
  const signature = createHmac('sha256', authToken).update(text).digest('base64');
  return { 'x-plivo-signature-v3': signature, 'x-plivo-signature-v3-nonce': nonce };
}

/** Vonage signs with a JWT (RFC 7519, HS256), which has the digest of the body of a POST. */
export function vonageHeaders(
  signatureSecret: string,
  atMs: number,
  body: string | undefined,
  about: { applicationId: string; apiKey: string },
): Record<string, string> {
  const claims = {
    iat: Math.floor(atMs / 1000),
    jti: randomUUID(),
    iss: 'Vonage',
    ...(body !== undefined && { payload_hash: createHash('sha256').update(body).digest('hex') }),
    api_key: about.apiKey,
    application_id: about.applicationId,
  };
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const signed = `${part({ alg: 'HS256', typ: 'JWT' })}.${part(claims)}`;
  const signature = createHmac('sha256', signatureSecret).update(signed).digest('base64url');
  return { authorization: `Bearer ${signed}.${signature}` };
}
