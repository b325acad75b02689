/**
 * AWS Signature Version 4 of a request whose body is an event stream: the request has a signature, and each message one over the signature
 * before. Synchronous, since messages are audio. Source: AWS General Reference, Signature Version 4; Smithy specification, event signing.
 */
import { createHash, createHmac } from 'node:crypto';
import { encodeEvent, encodeHeaders } from './event-stream.js';

export interface AwsCredentials {
  accessKeyId: string;
  secretAccessKey: string;
  /** Of temporary credentials. */
  sessionToken?: string;
}

export interface SigningScope {
  region: string;
  service: string;
}

export class EventStreamSigner {
  #prior = '';
  #day = '';
  #key: Buffer = Buffer.alloc(0);

  constructor(
    private readonly credentials: AwsCredentials,
    private readonly scope: SigningScope,
    private readonly now: () => Date = () => new Date(),
  ) {}

  /**
   * The headers of an HTTP/2 request, `:authority` excepted, which is signed as well. Its signature begins the chain of the messages'
   * signatures. `path` is encoded as it is sent.
   */
  request(method: string, authority: string, path: string, contentType: string): Record<string, string> {
    const { accessKeyId, sessionToken } = this.credentials;
    const time = timestamp(this.now());
    const headers: Record<string, string> = {
      'content-type': contentType,
      'x-amz-content-sha256': 'STREAMING-AWS4-HMAC-SHA256-EVENTS',
      'x-amz-date': time,
      ...(sessionToken !== undefined && { 'x-amz-security-token': sessionToken }),
    };
    const signed = Object.entries({ ...headers, ':authority': authority }).toSorted(([a], [b]) => (a < b ? -1 : 1));
    const names = signed.map(([name]) => name).join(';');
    const canonicalPath = path.split('/').map(encodeURIComponent).join('/');
    const canonical = [
      method,
      canonicalPath,
      '',
      ...signed.map(([name, value]) => `${name}:${value.trim()}`),
      '',
      names,
      headers['x-amz-content-sha256'],
    ].join('\n');
    const scope = this.#scopeOf(time);
    this.#prior = this.#sign(['AWS4-HMAC-SHA256', time, scope, sha256(canonical)]);
    headers.authorization = `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope}, SignedHeaders=${names}, Signature=${this.#prior}`;
    return headers;
  }

  /** The message of the stream that contains `payload`, itself an encoded message. */
  event(payload: Uint8Array): Buffer {
    const now = this.now();
    const date = encodeHeaders({ ':date': now });
    const time = timestamp(now);
    const scope = this.#scopeOf(time);
    this.#prior = this.#sign(['AWS4-HMAC-SHA256-PAYLOAD', time, scope, this.#prior, sha256(date), sha256(payload)]);
    const headers = Buffer.concat([date, encodeHeaders({ ':chunk-signature': Buffer.from(this.#prior, 'hex') })]);
    return encodeEvent(headers, payload);
  }

  #scopeOf(time: string): string {
    const { region, service } = this.scope;
    const day = time.slice(0, 8);
    if (day !== this.#day) {
      this.#day = day;
      const parts = [day, region, service, 'aws4_request'];
      this.#key = parts.reduce<Buffer>(hmac, Buffer.from(`AWS4${this.credentials.secretAccessKey}`));
    }
    return `${day}/${region}/${service}/aws4_request`;
  }

  #sign(parts: string[]): string {
    return hmac(this.#key, parts.join('\n')).toString('hex');
  }
}

/** As in `20260131T235959Z`. */
function timestamp(now: Date): string {
  return `${now.toISOString().slice(0, 19).replace(/[-:]/g, '')}Z`;
}

function sha256(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}

function hmac(key: Buffer, data: string): Buffer {
  return createHmac('sha256', key).update(data).digest();
}
